#!/usr/bin/env python3
"""What others cost a request: ten thousand idle connections, and a load of long texts.

under_load.py [--pergola P] [--model M] [--connections N] [--clients N] [--long TOKENS] [--seconds S]

Idle: memory of `pergola serve` before and after so many keep-alive connections that were used once, and the
requests/s of one busy connection without and with them, by turns with closing and opening them.
Short among long: the latency of a text of one word, alone and while so many clients keep the engine busy with texts of
--long tokens each. It should wait for the step under way and then go with the next one: the bound printed is two
steps of the scheduler's budget, as the engine's own metrics time them. Every answer's vector is compared with the
first one of its text.
"""

import argparse
import json
import pathlib
import re
import resource
import socket
import statistics
import sys
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "fault"))
import tier  # noqa: E402


def healthz(connection):
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(4096)
        if not piece:
            sys.exit("the server closed a connection")
        answer += piece
    length = int(re.search(rb"(?i)content-length: (\d+)", answer).group(1))
    while len(answer.partition(b"\r\n\r\n")[2]) < length:
        answer += connection.recv(4096)


def requests_per_s(port, seconds):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        count, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            healthz(connection)
            count += 1
    return count / seconds


def idle_connections(args):
    wanted = args.connections + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        sys.exit(f"{hard} open files are allowed, {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    serve = tier.Process(args.pergola, "serve", "--model", args.model, "--max-connections", wanted,
                         "--keepalive-timeout", 3600)
    try:
        alone, among, grown = [], [], []
        for _ in range(3):
            alone.append(requests_per_s(serve.port, args.seconds))
            before = serve.resident_mib()
            idle = []
            for _ in range(args.connections):
                idle.append(socket.create_connection(("127.0.0.1", serve.port)))
                healthz(idle[-1])
            grown.append(serve.resident_mib() - before)
            among.append(requests_per_s(serve.port, args.seconds))
            healthz(idle[0])  # it is still there
            for connection in idle:
                connection.close()
    finally:
        serve.kill()
    print(f"{args.connections} idle connections: {grown[0]:.1f} MiB; one busy connection "
          f"{statistics.median(alone):.0f} requests/s alone, {statistics.median(among):.0f} among them")


def engine(serve):
    with urllib.request.urlopen(serve.url + "/metrics", timeout=tier.WAIT) as answer:
        text = answer.read().decode()
    return [float(re.search(rf"(?m)^{name}(?:{{.*}})? (\S+)$", text).group(1))
            for name in ("pergola_engine_busy_seconds_total", "pergola_batches_total")]


def latencies(url, seconds):
    connection, times = tier.connect(url), []
    expected, until = tier.embed(connection, ["one"])[2], time.monotonic() + seconds
    while time.monotonic() < until or len(times) < 5:
        start = time.perf_counter()
        if tier.embed(connection, ["one"])[2] != expected:
            sys.exit("another vector, or none")
        times.append((time.perf_counter() - start) * 1000)
    connection.close()
    times.sort()
    return times[len(times) // 2], times[-1 - len(times) // 100], times[-1]


def short_among_long(args):
    serve = tier.Process(args.pergola, "serve", "--model", args.model, "--cache-mib", 0)
    stop = threading.Event()
    text = "the " * (args.long - 2)
    body = json.dumps({"input": text, "model": "m"})

    def client():
        connection = tier.connect(serve.url)
        while not stop.is_set():
            connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                sys.exit(f"a long text was answered {answer.status}")

    clients = [threading.Thread(target=client, daemon=True) for _ in range(args.clients)]
    try:
        alone = latencies(serve.url, args.seconds)
        for each in clients:
            each.start()
        time.sleep(min(1, args.seconds))
        before = engine(serve)
        loaded = latencies(serve.url, 3 * args.seconds)
        busy, batches = (after - then for after, then in zip(engine(serve), before))
    finally:
        stop.set()
        for each in clients:
            if each.is_alive():
                each.join(60)
        serve.kill()
    step = busy / batches * 1000
    print(f"a text of one word: ms p50, p99, max {alone[0]:.2f}, {alone[1]:.2f}, {alone[2]:.2f} alone; "
          f"{loaded[0]:.2f}, {loaded[1]:.2f}, {loaded[2]:.2f} among {args.clients} clients with {args.long} tokens; "
          f"a step took {step:.2f} ms, two of them {2 * step:.2f} ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pergola", default="build/release/pergola")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--long", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=2)
    args = parser.parse_args()
    idle_connections(args)
    short_among_long(args)


if __name__ == "__main__":
    main()
