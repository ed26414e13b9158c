#!/usr/bin/env python3
"""What a request costs besides the model: in one process, and through gateway and server.

tier_overhead.py [--pergola P] [--model M] [--requests N] [--json]

One client, one connection, one text of 128 tokens again and again: the model's cache answers, so what is left is
HTTP, tokenising, scheduling, rendering and, with tiers, gRPC. From each median the median of GET /healthz in the same
run, over the same kind of connection, is taken off: the network and this client cost that much anyway. The vectors of
both shapes must be equal before anything is timed.
"""

import argparse
import json
import pathlib
import socket
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "fault"))
import tier  # noqa: E402


def ask(connection, request):
    connection.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(65536)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)
    if b" 200 " not in head[:20]:
        sys.exit(f"answered {head[:80]!r} {body[:200]!r}")
    return body


def post(encoding):
    body = json.dumps({"input": "word " * 126, "model": "m", "encoding_format": encoding}).encode()
    return (b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
            + str(len(body)).encode() + b"\r\n\r\n" + body)


def medians(port, requests):
    """Microseconds by kind of request. The kinds take turns, so that a slower moment meets all alike."""
    kinds = {"echo": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "float": post("float"), "base64": post("base64")}
    times = {kind: [] for kind in kinds}
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(requests + 100):
            for kind, request in kinds.items():
                start = time.perf_counter_ns()
                ask(connection, request)
                if number >= 100:
                    times[kind].append(time.perf_counter_ns() - start)
    return {kind: statistics.median(values) / 1000 for kind, values in times.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pergola", default="build/release/pergola")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    serve = tier.Process(options.pergola, "serve", "--model", options.model)
    tiers = tier.Tier(options.pergola, options.model, 1)
    try:
        rows = [tier.embed(tier.connect(url), ["word " * 126])[2] for url in (serve.url, tiers.gateway.url)]
        if rows[0] != rows[1] or not rows[0]:
            sys.exit("the two shapes give different vectors")
        results = {"serve": medians(serve.port, options.requests),
                   "gateway + server": medians(tiers.gateway.port, options.requests)}
    finally:
        serve.kill()
        tiers.close()
    if options.json:
        print(json.dumps(results))
        return
    for shape, values in results.items():
        print(f"{shape}: float {values['float'] - values['echo']:.0f} us, base64 {values['base64'] - values['echo']:.0f} us "
              f"over an echo of {values['echo']:.0f} us")


if __name__ == "__main__":
    main()
