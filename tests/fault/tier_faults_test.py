#!/usr/bin/env python3
"""What the serving tier promises when something breaks, with real processes and signals.

Usage: tier_faults_test.py PERGOLA MODEL [--requests N] [unittest options]
"""

import json
import signal
import socket
import threading
import unittest

import tier

PERGOLA = MODEL = None
EXPECTED = []


class TierFaultsTest(unittest.TestCase):
    def start(self, servers=3, **options):
        started = tier.Tier(PERGOLA, MODEL, servers, **options)
        self.addCleanup(started.close)
        return started

    def check(self, load):
        """No failed, no wrong and no doubled request."""
        load.join()
        self.assertEqual(load.errors, [])
        self.assertEqual(load.wrong, [])
        self.assertEqual(sorted(load.done), list(range(len(EXPECTED))))

    def test_kill_9_of_one_of_three_under_load(self):
        tested = self.start()
        load = tier.Load(tested.gateway.url, EXPECTED)
        load.await_share(0.2)
        tested.servers[1].kill()
        load.await_share(0.5)
        tested.servers[1].start()
        tested.await_healthy(3)
        before = tested.metrics("pergola_replica_requests_total")[1]
        self.check(load)
        connection = tier.connect(tested.gateway.url)
        for number in range(60):
            self.assertEqual(tier.embed(connection, [f"again {number}"])[0], 200)
        self.assertGreater(tested.metrics("pergola_replica_requests_total")[1], before, "takes load again")
        self.assertGreaterEqual(tested.metrics("pergola_replica_ejections_total")[1], 1)

    def test_a_replica_that_hangs(self):
        tested = self.start()
        load = tier.Load(tested.gateway.url, EXPECTED)
        load.await_share(0.2)
        tested.servers[2].signal(signal.SIGSTOP)
        self.check(load)
        self.assertEqual(tested.metrics("pergola_replica_healthy")[2], 0)
        tested.servers[2].signal(signal.SIGCONT)
        tested.await_healthy(3)

    def test_all_gone_and_back(self):
        tested = self.start(2)
        connection = tier.connect(tested.gateway.url)
        status, _, rows = tier.embed(connection, [tier.text_of(3)])
        self.assertEqual((status, rows), (200, [EXPECTED[3]]))
        for server in tested.servers:
            server.kill()
        status, headers, _ = tier.embed(connection, [tier.text_of(5)])
        self.assertEqual(status, 503)
        self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        tier.wait_until(lambda: tier.status_of(tested.gateway.url + "/readyz") == 503, "the gateway to be not ready")
        for server in tested.servers:
            server.start()
        tested.await_healthy(2)
        status, _, rows = tier.embed(connection, [tier.text_of(5)])
        self.assertEqual((status, rows), (200, [EXPECTED[5]]))

    def test_rolling_restart_of_the_servers(self):
        tested = self.start()
        load = tier.Load(tested.gateway.url, EXPECTED)
        for number, server in enumerate(tested.servers):
            load.await_share(0.1 + 0.25 * number)
            self.assertEqual(server.stop(), 0, "drained")
            server.start()
            tested.await_healthy(3)
        self.check(load)

    def test_sigterm_of_the_gateway_answers_what_was_accepted(self):
        tested = self.start(2)
        load = tier.Load(tested.gateway.url, EXPECTED)
        load.await_share(0.3)
        self.assertEqual(tested.gateway.stop(), 0, "drained")
        load.join()
        self.assertEqual(load.wrong, [])
        # A client may lose the connection before its next request is taken; none gets half an answer, an
        # error other than "shutting down", or is kept waiting.
        for number, problem in load.errors:
            self.assertTrue(problem == 503 or "refused" in str(problem) or "RemoteDisconnected" in str(problem) or
                            "reset" in str(problem) or "BrokenPipe" in str(problem), f"{number}: {problem}")
        self.assertEqual(len(set(load.done)), len(load.done))
        self.assertLessEqual(len(load.errors), 2 * len(load.threads))

    def test_a_backend_that_answers_garbage_or_resets(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def answer():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(range(256)))
                connection.close()

        threading.Thread(target=answer, daemon=True).start()
        tested = self.start(2, more_backends=[f"127.0.0.1:{listener.getsockname()[1]}"])
        self.check(tier.Load(tested.gateway.url, EXPECTED))

    def test_a_storm_of_clients_that_hang_up_leaves_nothing(self):
        tested = self.start(2)
        body = json.dumps({"input": [f"storm {number} " + "x " * 40 for number in range(32)]}).encode()
        head = f"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n" \
               "Content-Type: application/json\r\n\r\n"
        address = ("127.0.0.1", tested.gateway.port)
        for _ in range(300):
            with socket.create_connection(address, timeout=tier.WAIT) as connection:
                connection.sendall(head.encode() + body)
        tier.wait_until(lambda: sum(tested.metrics("pergola_replica_outstanding_tokens").values()) == 0,
                        "an empty queue")
        tier.wait_until(lambda: tested.metrics("pergola_promised_bytes")[None] == 0, "memory given back")
        status, _, rows = tier.embed(tier.connect(tested.gateway.url), [tier.text_of(1)])
        self.assertEqual((status, rows), (200, [EXPECTED[1]]))


def begin(pergola, model, requests):
    global PERGOLA, MODEL, EXPECTED
    PERGOLA, MODEL = pergola, model
    EXPECTED = tier.expected_rows(PERGOLA, MODEL, requests)


if __name__ == "__main__":
    tier.run_suite(begin, "requests", 1500)
