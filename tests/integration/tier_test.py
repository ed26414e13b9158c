#!/usr/bin/env python3
"""A gateway and two servers answer as one `pergola serve` does, bit for bit; gRPC clients are served beside.

Usage: tier_test.py PERGOLA MODEL [unittest options]
"""

import json
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fault"))
import tier  # noqa: E402

PERGOLA = MODEL = None


def make_certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "1", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem",
                    "-out", folder / "cert.pem"], check=True, stderr=subprocess.DEVNULL)


class TierTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.serve = tier.Process(PERGOLA, "serve", "--model", MODEL)
        cls.addClassCleanup(cls.serve.kill)
        cls.tier = tier.Tier(PERGOLA, MODEL, 2, gateway=("--piece-tokens", 64))
        cls.addClassCleanup(cls.tier.close)

    def ask(self, path, body):
        answers = []
        for url in (self.serve.url, self.tier.gateway.url):
            request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=tier.WAIT) as answer:
                answers.append(answer.read())
        return answers

    def test_same_bytes_on_every_route(self):
        texts = [tier.text_of(number) for number in range(40)]
        for path, body in [("/v1/embeddings", {"input": texts, "model": "m"}),
                           ("/v1/embeddings", {"input": texts, "model": "m", "encoding_format": "base64"}),
                           ("/v1/embeddings", {"input": [[5, 6, 7], [8]], "model": "m"}),
                           ("/embed", {"inputs": texts, "normalize": False}),
                           ("/embed", {"inputs": texts, "truncate": True}),
                           ("/tokenize", {"inputs": texts[:3]})]:
            with self.subTest(path=path):
                whole, tiered = self.ask(path, body)
                self.assertEqual(whole, tiered)

    def test_a_long_list_is_shared_by_both_servers(self):
        before = self.tier.metrics("pergola_replica_requests_total")
        self.ask("/embed", {"inputs": [tier.text_of(number) for number in range(200, 300)]})
        after = self.tier.metrics("pergola_replica_requests_total")
        for replica in (0, 1):
            self.assertGreater(after[replica], before[replica])

    def test_status_pages_of_a_server(self):
        server = tier.Process(PERGOLA, "server", "--model", MODEL, "--status-port", 0)
        self.addCleanup(server.kill)
        status = re.search(r"^status on (http\S+)$", server.said, re.M).group(1)
        tier.wait_until(lambda: tier.status_of(status + "/readyz") == 200, "readiness")
        with urllib.request.urlopen(status + "/metrics", timeout=tier.WAIT) as answer:
            text = answer.read().decode()
        for name in ("pergola_queue_tokens", "pergola_grpc_requests_total"):
            self.assertRegex(text, rf"(?m)^{name}")

    def server_metric(self, server, name):
        status = re.search(r"^status on (http\S+)$", server.said, re.M).group(1)
        with urllib.request.urlopen(status + "/metrics", timeout=tier.WAIT) as answer:
            return float(re.search(rf"(?m)^{name}(?:{{.*}})? (\S+)$", answer.read().decode()).group(1))

    def test_a_server_never_tokenises_for_a_gateway(self):
        tested = tier.Tier(PERGOLA, MODEL, 1, server=("--status-port", 0))
        self.addCleanup(tested.close)
        before = self.server_metric(tested.servers[0], "pergola_batch_tokens_total")
        connection = tier.connect(tested.gateway.url)
        for first in range(0, 200, 20):
            self.assertEqual(tier.embed(connection, [tier.text_of(first + i) for i in range(20)])[0], 200)
        connection.close()
        self.assertGreater(self.server_metric(tested.servers[0], "pergola_batch_tokens_total"), before + 1000)
        self.assertEqual(self.server_metric(tested.servers[0], "pergola_tokenizer_calls_total"), 0)

    def test_repeated_texts_reach_no_server(self):
        # Without the servers' own cache: whatever reaches them is computed.
        tested = tier.Tier(PERGOLA, MODEL, 2, server=("--status-port", 0, "--cache-mib", 0))
        self.addCleanup(tested.close)
        tier.wait_until(lambda: tested.gateway.says("keeps rows"), "the servers' identity")

        def received():
            return sum(self.server_metric(server, "pergola_batch_tokens_total") for server in tested.servers)

        texts = [tier.text_of(number) for number in range(60)]
        connection = tier.connect(tested.gateway.url)
        first = tier.embed(connection, texts)
        self.assertEqual(first[0], 200)
        before = received()
        for begin in (0, 20, 40):
            self.assertEqual(tier.embed(connection, texts[begin:] + texts[:begin])[2],
                             first[2][begin:] + first[2][:begin])
        self.assertEqual(tier.embed(connection, [texts[7], "a text of its own", texts[9]])[2][::2],
                         [first[2][7], first[2][9]])
        connection.close()
        self.assertLess(received(), before + 100, "tokens: of the new text, and of probes")
        self.assertGreaterEqual(tested.metrics("pergola_cache_hits_total")[None], 182)

    def test_rows_of_other_weights_are_not_mixed_with_those_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / pathlib.Path(MODEL).name
            shutil.copytree(MODEL, other)
            weights = other / "model.safetensors"
            data = bytearray(weights.read_bytes())
            for place in range(8 + int.from_bytes(data[:8], "little") + 2, len(data), 4):
                data[place] ^= 0x10  # of each float's mantissa
            tested = tier.Tier(PERGOLA, str(other), 1, gateway=("--dns-refresh", 0.05))
            self.addCleanup(tested.close)
            tier.wait_until(lambda: tested.gateway.says("keeps rows"), "the server's identity")
            connection = tier.connect(tested.gateway.url)
            old = tier.embed(connection, ["same"])[2]
            self.assertEqual(tier.embed(connection, ["same"])[2], old)
            tested.servers[0].kill()
            weights.write_bytes(data)
            tested.servers[0].start()
            tier.wait_until(lambda: tier.embed(tier.connect(tested.gateway.url), ["same"])[2] not in ([], old),
                            "the other row")

            # Two that differ: nothing is kept.
            second = tier.Process(PERGOLA, "server", "--model", MODEL)
            self.addCleanup(second.kill)
            mixed = tier.Process(PERGOLA, "gateway", "--model", MODEL, "--backend",
                                 f"127.0.0.1:{tested.servers[0].port},127.0.0.1:{second.port}")
            self.addCleanup(mixed.kill)
            tier.wait_until(lambda: tier.status_of(mixed.url + "/readyz") == 200, "readiness")
            tier.wait_until(lambda: mixed.says("keeps no rows"), "the complaint")

    def test_backends_by_name(self):
        # localhost has one address or two; nobody listens at the second.
        gateway = tier.Process(PERGOLA, "gateway", "--model", MODEL, "--dns-refresh", "0.05", "--backend",
                               f"dns:///localhost:{self.tier.servers[0].port}")
        self.addCleanup(gateway.kill)
        tier.wait_until(lambda: tier.status_of(gateway.url + "/readyz") == 200, "readiness")
        self.assertEqual(tier.embed(tier.connect(gateway.url), ["named"])[0], 200)
        self.assertEqual(gateway.stop(), 0)

    def test_tls_and_keys_between_the_tiers(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            make_certificate(folder)
            (folder / "keys").write_text("of-the-gateway\n")
            (folder / "key").write_text("of-the-gateway\n")
            (folder / "wrong").write_text("of-nobody\n")
            server = tier.Process(PERGOLA, "server", "--model", MODEL, "--tls-cert", folder / "cert.pem",
                                  "--tls-key", folder / "key.pem", "--api-key-file", folder / "keys")
            self.addCleanup(server.kill)
            backend = ("--model", MODEL, "--backend", f"127.0.0.1:{server.port}")
            trusted = tier.Process(PERGOLA, "gateway", *backend, "--backend-ca", folder / "cert.pem",
                                   "--backend-api-key-file", folder / "key")
            self.addCleanup(trusted.kill)
            tier.wait_until(lambda: tier.status_of(trusted.url + "/readyz") == 200, "readiness")
            self.assertEqual(tier.embed(tier.connect(trusted.url), ["secret"])[0], 200)
            for arguments in ((), ("--backend-ca", folder / "cert.pem", "--backend-api-key-file", folder / "wrong")):
                stranger = tier.Process(PERGOLA, "gateway", *backend, *arguments)
                self.addCleanup(stranger.kill)
                tier.wait_until(lambda: stranger.says("not ready"), "an answer of the server")
                self.assertEqual(tier.status_of(stranger.url + "/readyz"), 503)

    def test_errors_are_the_same(self):
        for body in ({"input": []}, {"input": ["x " * 5000]}, {"input": [[10**6]]}):
            statuses = []
            for url in (self.serve.url, self.tier.gateway.url):
                connection = tier.connect(url)
                connection.request("POST", "/v1/embeddings", json.dumps(body), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                statuses.append((answer.status, answer.read()))
            self.assertEqual(statuses[0], statuses[1])
            self.assertEqual(statuses[0][0], 400)

    def test_a_gateway_for_another_model_is_never_ready(self):
        other = pathlib.Path(__file__).resolve().parent.parent / "golden" / "tiny" / "modernbert"
        gateway = tier.Process(PERGOLA, "gateway", "--model", str(other), "--backend",
                               f"127.0.0.1:{self.tier.servers[0].port}")
        self.addCleanup(gateway.kill)
        tier.wait_until(lambda: "do not serve this gateway's models" in self.error_of(gateway.url + "/readyz"),
                        "the reason")
        self.assertEqual(tier.status_of(gateway.url + "/healthz"), 200)
        self.assertEqual(gateway.stop(), 0)

    def test_a_gateway_listens_before_its_servers_and_becomes_ready_by_itself(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        gateway = tier.Process(PERGOLA, "gateway", "--model", MODEL, "--backend", f"127.0.0.1:{port}")
        self.addCleanup(gateway.kill)
        self.assertEqual(tier.status_of(gateway.url + "/healthz"), 200)
        self.assertIn("not ready: ", self.error_of(gateway.url + "/readyz"))
        status, headers, _ = tier.embed(tier.connect(gateway.url), ["early"])
        self.assertEqual((status, headers["Retry-After"]), (503, "1"))
        server = tier.Process(PERGOLA, "server", "--model", MODEL, port=port)
        self.addCleanup(server.kill)
        tier.wait_until(lambda: tier.status_of(gateway.url + "/readyz") == 200, "readiness")
        self.assertEqual(tier.embed(tier.connect(gateway.url), ["late"])[0], 200)

    def test_a_bad_configuration_changes_nothing_before_there_are_servers_either(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "gateway.toml"
            config.write_text("")
            arguments = ("--model", MODEL, "--backend", f"127.0.0.1:{port}")
            gateway = tier.Process(PERGOLA, "gateway", *arguments, "--config", config)
            self.addCleanup(gateway.kill)
            config.write_text('default-prompt-name = "nobody"\n')
            gateway.signal(signal.SIGHUP)
            tier.wait_until(lambda: gateway.says("configuration not reloaded"), "the complaint")
            server = tier.Process(PERGOLA, "server", "--model", MODEL, port=port)
            self.addCleanup(server.kill)
            tier.wait_until(lambda: tier.status_of(gateway.url + "/readyz") == 200, "readiness")
            self.assertEqual(tier.embed(tier.connect(gateway.url), ["well"])[0], 200)
            # At the start it is an error, as of `serve`.
            refused = subprocess.run([PERGOLA, "gateway", *arguments, "--port", "0", "--default-prompt-name", "nobody"],
                                     capture_output=True, text=True, timeout=tier.WAIT, check=False)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertIn("nobody", refused.stderr)

    def error_of(self, url):
        try:
            with urllib.request.urlopen(url, timeout=tier.WAIT):
                return ""
        except urllib.error.HTTPError as refused:
            with refused:
                return json.loads(refused.read())["error"]

    def test_keys_limits_and_prompts_are_reread_without_a_dropped_request(self):
        for command, more in (("serve", []), ("gateway", ["--backend", f"127.0.0.1:{self.tier.servers[0].port}"])):
            with self.subTest(command=command), tempfile.TemporaryDirectory() as folder:
                self.reread(command, more, pathlib.Path(folder))

    def test_certificates_are_reread(self):
        backend = ("--backend", f"127.0.0.1:{self.tier.servers[0].port}")
        for command, more in (("serve", ()), ("gateway", backend), ("server", ())):
            with self.subTest(command=command), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                make_certificate(folder)
                tested = tier.Process(PERGOLA, command, "--model", MODEL, *more, "--tls-cert", folder / "cert.pem",
                                      "--tls-key", folder / "key.pem")
                self.addCleanup(tested.kill)
                shown = lambda: ssl.get_server_certificate(("127.0.0.1", tested.port))  # noqa: E731
                self.assertEqual(shown(), (folder / "cert.pem").read_text())
                make_certificate(folder)
                tested.signal(signal.SIGHUP)
                tier.wait_until(lambda: shown() == (folder / "cert.pem").read_text(), "the new certificate")
                tier.wait_until(lambda: tested.says("certificates reloaded"), "the word of it")
                (folder / "key.pem").write_text("no key")
                tested.signal(signal.SIGHUP)
                tier.wait_until(lambda: tested.says("certificates not reloaded"), "the complaint")
                self.assertEqual(shown(), (folder / "cert.pem").read_text())

    def reread(self, command, more, folder):
        keys, config = folder / "keys", folder / "pergola.toml"
        keys.write_text("fast\nslow requests_per_minute=1\n")
        config.write_text('max-batch-inputs = 2\nnamed-prompt = ["shout=one "]\n')
        tested = tier.Process(PERGOLA, command, "--model", MODEL, "--api-key-file", keys, "--config", config, *more)
        self.addCleanup(tested.kill)
        tier.wait_until(lambda: tier.status_of(tested.url + "/readyz") == 200, "readiness")
        self.assertEqual(self.with_key(tested, "slow", ["a"])[0], 200)
        status, headers, body = self.with_key(tested, "slow", ["a"])
        self.assertEqual(status, 429)
        self.assertGreater(int(headers["Retry-After"]), 30)
        self.assertIn("1 requests per minute", body["error"]["message"])
        self.assertEqual(self.with_key(tested, "fast", ["a", "b", "c"])[0], 400)
        before = self.with_key(tested, "fast", ["a"], prompt_name="shout")
        self.assertEqual(before[0], 200)

        stop, statuses = threading.Event(), []

        def ask():
            while not stop.is_set():
                try:
                    statuses.append(self.with_key(tested, "fast", ["a"])[0])
                except (OSError, ValueError) as error:  # dropped: a failure below
                    statuses.append(repr(error))

        clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            keys.write_text("fast\nslow requests_per_minute=1000\nnew\n")
            config.write_text('max-batch-inputs = 3\nnamed-prompt = ["shout=three more words "]\n')
            tested.signal(signal.SIGHUP)
            tier.wait_until(lambda: self.with_key(tested, "fast", ["a", "b", "c"])[0] == 200, "new limits")
            self.assertEqual(self.with_key(tested, "new", ["a"])[0], 200)
            after = self.with_key(tested, "fast", ["a"], prompt_name="shout")
            self.assertGreater(after[2]["usage"]["prompt_tokens"], before[2]["usage"]["prompt_tokens"])
            # Broken files change nothing.
            keys.write_text("fa st\n")
            config.write_text("no-such-flag = 1\n")
            tested.signal(signal.SIGHUP)
            tier.wait_until(lambda: tested.says("keys not reloaded") and tested.says("configuration not reloaded"),
                            "the complaint")
            self.assertEqual(self.with_key(tested, "new", ["a", "b", "c"])[0], 200)
        finally:
            stop.set()
            for client in clients:
                client.join()
        self.assertEqual(set(statuses), {200})

    def with_key(self, tested, key, texts, **fields):
        connection = tier.connect(tested.url)
        connection.request("POST", "/v1/embeddings", json.dumps({"model": "m", "input": texts, **fields}),
                           {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        try:
            return answer.status, answer.headers, json.loads(answer.read())
        finally:
            connection.close()


if __name__ == "__main__":
    PERGOLA, MODEL = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
