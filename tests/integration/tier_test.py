#!/usr/bin/env python3
"""A gateway and two servers answer as one `pergola serve` does, bit for bit; gRPC clients are served beside.

Usage: tier_test.py PERGOLA MODEL [unittest options]
"""

import json
import pathlib
import re
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fault"))
import tier  # noqa: E402

PERGOLA = MODEL = None


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
        tier.wait_until(lambda: self.status_of(status + "/readyz") == 200, "readiness")
        with urllib.request.urlopen(status + "/metrics", timeout=tier.WAIT) as answer:
            text = answer.read().decode()
        for name in ("pergola_queue_tokens", "pergola_grpc_requests_total"):
            self.assertRegex(text, rf"(?m)^{name}")

    def status_of(self, url):
        try:
            with urllib.request.urlopen(url, timeout=tier.WAIT) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code

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

    def test_a_gateway_for_another_model_does_not_start(self):
        other = pathlib.Path(__file__).resolve().parent.parent / "golden" / "tiny" / "modernbert"
        ended = subprocess.run([PERGOLA, "gateway", "--model", str(other), "--port", "0", "--backend",
                                f"127.0.0.1:{self.tier.servers[0].port}"],
                               stderr=subprocess.PIPE, text=True, timeout=tier.WAIT, check=False)
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn("modernbert", ended.stderr)

    def test_a_gateway_without_backends_gives_up(self):
        ended = subprocess.run([PERGOLA, "gateway", "--model", MODEL, "--port", "0", "--backend", "127.0.0.1:1",
                                "--backend-timeout", "0.1"],
                               stderr=subprocess.PIPE, text=True, timeout=tier.WAIT, check=False)
        self.assertEqual(ended.returncode, 4, ended.stderr)


if __name__ == "__main__":
    PERGOLA, MODEL = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
