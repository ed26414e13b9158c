#!/usr/bin/env python3
"""What clients may do to a serving tier without harm: storms, hang-ups, slowness, limits, short deadlines.

Usage: client_faults_test.py PERGOLA MODEL [--clients N] [unittest options]
"""

import asyncio
import base64
import json
import re
import resource
import signal
import socket
import threading
import time
import unittest
import urllib.request

import tier

PERGOLA = MODEL = None
CLIENTS = 5000
TEXTS = 200
STEP_TOKENS = 512
EXPECTED = []
NO_CACHE = ("--cache-mib", 0)


def post(body, more="", length=None):
    head = f"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{more}" \
           f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    return head.encode() + body


def body_of(texts):
    return json.dumps({"model": "m", "input": texts, "encoding_format": "base64"}).encode()


def read_answer(connection):
    """(status, body) of one answer; (0, b"") when there is none."""
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return 0, b""
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
        while len(body) < length:
            piece = connection.recv(65536)
            if not piece:
                return 0, b""
            body += piece
        return int(head.split()[1]), body
    except OSError:
        return 0, b""


class ClientFaultsTest(unittest.TestCase):
    def start(self, servers, gateway=(), server=()):
        tested = tier.Tier(PERGOLA, MODEL, servers, gateway=(*NO_CACHE, *gateway),
                           server=(*NO_CACHE, "--status-port", 0, *server))
        self.addCleanup(tested.close)
        return tested

    def server_metric(self, server, name):
        status = re.search(r"^status on (http\S+)$", server.said, re.M).group(1)
        with urllib.request.urlopen(status + "/metrics", timeout=tier.WAIT) as answer:
            return float(re.search(rf"(?m)^{name}(?:{{.*}})? (\S+)$", answer.read().decode()).group(1))

    def await_quiet(self, tested):
        """All gauges are back at zero, on both tiers, and a request is answered as ever."""
        tier.wait_until(lambda: sum(tested.metrics("pergola_replica_outstanding_tokens").values()) == 0, "no work")
        tier.wait_until(lambda: tested.metrics("pergola_promised_bytes")[None] == 0, "memory given back")
        for server in tested.servers:
            for name in ("pergola_queue_tokens", "pergola_queue_sequences", "pergola_promised_bytes",
                         "pergola_grpc_open_requests"):
                tier.wait_until(lambda s=server, n=name: self.server_metric(s, n) == 0, f"{name} to be 0")
        connection = tier.connect(tested.gateway.url)
        status, _, rows = tier.embed(connection, [tier.text_of(1)])
        connection.close()
        self.assertEqual((status, rows), (200, [EXPECTED[1]]))

    async def storm_client(self, port, number, start, counts):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await start.wait()
        body = body_of([tier.text_of(number % TEXTS)])
        writer.write(post(body))
        if number % 2:
            await writer.drain()
            writer.transport.abort()
            counts["hung up"] += 1
            return
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            data = await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head).group(1)))
            row = base64.b64decode(json.loads(data)["data"][0]["embedding"])
            counts["right" if row == EXPECTED[number % TEXTS] else "wrong"] += 1
        except (asyncio.IncompleteReadError, OSError, KeyError) as problem:
            counts[repr(problem)] = counts.get(repr(problem), 0) + 1
        finally:
            writer.close()

    def storm(self, port):
        async def run():
            counts = {"right": 0, "wrong": 0, "hung up": 0}
            start = asyncio.Event()
            clients = [asyncio.ensure_future(self.storm_client(port, number, start, counts))
                       for number in range(CLIENTS)]
            await asyncio.sleep(0)
            start.set()
            await asyncio.gather(*clients)
            return counts

        return asyncio.run(run())

    def test_a_storm_of_which_half_hang_up(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * CLIENTS + 1000
        if hard != resource.RLIM_INFINITY and hard < wanted:
            self.skipTest(f"{hard} open files, {wanted} needed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        tested = self.start(2, gateway=("--max-connections", CLIENTS + 500))
        resident = []
        # How many are there at once, and with them the most memory, differs between storms; what is lost does not.
        for _ in range(5):
            counts = self.storm(tested.gateway.port)
            self.assertEqual(counts, {"right": CLIENTS - CLIENTS // 2, "wrong": 0, "hung up": CLIENTS // 2})
            self.await_quiet(tested)
            resident.append([process.resident_mib() for process in (tested.gateway, *tested.servers)])
            if len(resident) > 1 and all(now < then + 8 for then, now in zip(*resident[-2:])):
                return
        self.fail(f"memory grows with every storm, MiB resident: {resident}")

    def test_nothing_is_computed_for_a_thousand_who_hung_up(self):
        tested = self.start(1, server=("--max-queued-tokens", 1 << 24), gateway=("--request-timeout", 5 * tier.WAIT))
        server, tokens = tested.servers[0], []

        def bulk(number):  # work that the thousand wait behind
            connection = tier.connect(tested.gateway.url)
            connection.timeout = 5 * tier.WAIT
            body = json.dumps({"model": "m", "input": [f"{number} {index} " + "the " * 28 for index in range(2048)]})
            connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
            tokens.append(json.loads(connection.getresponse().read())["usage"]["total_tokens"])
            connection.close()

        before = self.server_metric(server, "pergola_batch_tokens_total")
        lists = [threading.Thread(target=bulk, args=(number,)) for number in range(6)]
        for each in lists:
            each.start()
        tier.wait_until(lambda: self.server_metric(server, "pergola_queue_sequences") > 8000, "work to wait behind")
        waiting = []
        for number in range(1000):
            connection = socket.create_connection(("127.0.0.1", tested.gateway.port), timeout=tier.WAIT)
            connection.sendall(post(body_of([f"nobody waits for {number} " + "word " * 8])))
            waiting.append(connection)
        tier.wait_until(lambda: self.server_metric(server, "pergola_grpc_open_requests") >= 1000, "a thousand to wait")
        self.assertGreater(self.server_metric(server, "pergola_queue_sequences"), 1500, "the thousand still wait")
        for connection in waiting:
            connection.close()
        for each in lists:
            each.join()
        self.await_quiet(tested)
        after = self.server_metric(server, "pergola_batch_tokens_total")
        self.assertEqual(len(tokens), len(lists))
        self.assertLess(after - before - sum(tokens), 2 * STEP_TOKENS)

    def test_slow_writers_and_readers_hold_up_nobody(self):
        tested = self.start(2)
        address = ("127.0.0.1", tested.gateway.port)
        stop = threading.Event()
        slow = [socket.create_connection(address, timeout=tier.WAIT) for _ in range(60)]
        for connection in slow:
            self.addCleanup(connection.close)

        def drip():
            whole = post(body_of(["dripping " * 40]))
            for place in range(len(whole) - 1):  # never the last byte
                for connection in slow[:40]:
                    try:
                        connection.send(whole[place:place + 1])
                    except OSError:
                        pass
                if stop.wait(0.01):
                    return

        big = post(body_of([tier.text_of(number) for number in range(TEXTS)] * 10))
        for connection in slow[40:]:  # ask for much and read nothing of it
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(big)
        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            load = tier.Load(tested.gateway.url, EXPECTED, clients=4).join()
            self.assertEqual((load.errors, load.wrong), ([], []))
            self.assertEqual(sorted(load.done), list(range(TEXTS)))
        finally:
            stop.set()
            dripping.join()
        for connection in slow:
            connection.close()
        self.await_quiet(tested)

    def test_bodies_at_the_limit(self):
        limit = 50_000
        tested = self.start(1, gateway=("--max-body-bytes", limit, "--max-bodies-bytes", 10 * limit))
        body = body_of([tier.text_of(2)])
        for length, expected in ((limit - 1, 200), (limit, 200), (limit + 1, 413), (10 * limit, 413)):
            with self.subTest(length=length):
                padded = body[:-1] + b" " * (length - len(body)) + b"}"
                connection = socket.create_connection(("127.0.0.1", tested.gateway.port), timeout=tier.WAIT)
                connection.sendall(post(padded))
                status, answer = read_answer(connection)
                connection.close()
                self.assertEqual(status, expected)
                if expected == 200:
                    self.assertEqual(base64.b64decode(json.loads(answer)["data"][0]["embedding"]), EXPECTED[2])
        # Many at once: those that find no room are told so, the others are answered.
        whole = post(body[:-1] + b" " * (limit - len(body)) + b"}")
        connections = [socket.create_connection(("127.0.0.1", tested.gateway.port), timeout=tier.WAIT)
                       for _ in range(30)]
        for connection in connections:
            connection.sendall(whole[:-1])
        for connection in connections:
            try:
                connection.sendall(whole[-1:])
            except OSError:
                pass  # refused already
        statuses = [read_answer(connection)[0] for connection in connections]
        for connection in connections:
            connection.close()
        self.assertLessEqual(set(statuses), {200, 503})
        self.assertGreaterEqual(statuses.count(200), 1)
        self.await_quiet(tested)

    def test_a_deadline_may_pass_at_any_stage(self):
        tested = self.start(1, gateway=("--stall-timeout", 50))
        texts = [tier.text_of(number) for number in range(TEXTS)]
        body = body_of(texts)
        counts = {200: 0, 504: 0}

        def ask(milliseconds):
            with socket.create_connection(("127.0.0.1", tested.gateway.port), timeout=tier.WAIT) as connection:
                connection.sendall(post(body, f"x-request-timeout-ms: {milliseconds}\r\n"))
                status, answer = read_answer(connection)
            self.assertIn(status, counts, answer)
            counts[status] += 1
            if status == 200:
                rows = sorted(json.loads(answer)["data"], key=lambda row: row["index"])
                self.assertEqual([base64.b64decode(row["embedding"]) for row in rows], EXPECTED)

        for milliseconds in [*range(1, 60), 100, 200, 30_000]:  # parsing, tokenising, queue, computing, rendering
            ask(milliseconds)
        self.assertGreater(counts[504], 0, "some were too late")
        self.assertGreater(counts[200], 0, "some were not")
        # At the server, which does not move at all.
        tested.servers[0].signal(signal.SIGSTOP)
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", tested.gateway.port), timeout=tier.WAIT) as connection:
            connection.sendall(post(body, "x-request-timeout-ms: 500\r\n"))
            self.assertEqual(read_answer(connection)[0], 504)
        self.assertGreaterEqual(time.monotonic() - began, 0.45)
        tested.servers[0].signal(signal.SIGCONT)
        tested.await_healthy(1)
        self.await_quiet(tested)


def begin(pergola, model, clients):
    global PERGOLA, MODEL, EXPECTED, CLIENTS
    PERGOLA, MODEL, CLIENTS = pergola, model, clients
    EXPECTED = tier.expected_rows(PERGOLA, MODEL, TEXTS)


if __name__ == "__main__":
    tier.run_suite(begin, "clients", CLIENTS)
