#!/usr/bin/env python3
"""What a request costs besides the model: in one process, and through gateway and server.

tier_overhead.py [--pergola P] [--against P2] [--model M] [--rounds N] [--json]

One client, one connection, one text of 128 tokens again and again, no cache: HTTP, tokenising, scheduling, a forward
pass of a tiny model, rendering and, with tiers, gRPC. Taken off, all measured in the same run by turns:

* the model: the mean of the engine's own time for these requests (pergola_engine_busy_seconds_total); of `tei` (TEI's
  /embed, floats) each request's own x-inference-time, which says more on a busy machine;
* the HTTP echo: the median of GET /healthz of the same process over the same kind of connection, which is the
  network, this client and one waking of the network thread;
* the gRPC echo: the median of `pergola bench hop` to the same server, a call that computes nothing.

--against: another build of pergola, by turns with the first. The vectors of all must be equal before anything is timed.
"""

import argparse
import json
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "fault"))
import tier  # noqa: E402

TINY = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "tiny" / "distilbert"
PER_ROUND = 40
TEXT = "the " * 126  # 128 tokens

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
    return head


def post(path, **fields):
    body = json.dumps(fields).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            .encode() + body)


def openai(encoding):
    return post("/v1/embeddings", input=TEXT, model="m", encoding_format=encoding)


class Shape:
    """A way to serve, and the times of its requests by kind: microseconds."""

    def __init__(self, name, http_port, metrics_url, backend):
        self.name, self.metrics_url, self.backend = name, metrics_url, backend
        self.connection = socket.create_connection(("127.0.0.1", http_port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.times = {"echo": [], "float": [], "base64": [], "tei": [], "hop": []}  # tei: without the model
        self.engine = []

    def busy(self):
        with urllib.request.urlopen(self.metrics_url, timeout=tier.WAIT) as answer:
            text = answer.read().decode()
        return [float(re.search(rf"^{name}(?:{{.*}})? (\S+)$", text, re.M).group(1))
                for name in ("pergola_engine_busy_seconds_total", "pergola_batches_total")]

    def round(self, kinds, pergola, keep):
        before = self.busy()
        for _ in range(PER_ROUND):
            for kind, request in kinds.items():
                start = time.perf_counter_ns()
                head = ask(self.connection, request)
                took = (time.perf_counter_ns() - start) / 1000
                if kind == "tei":
                    took -= 1000 * float(re.search(rb"(?i)^x-inference-time: (\S+)", head, re.M).group(1))
                if keep:
                    self.times[kind].append(took)
        seconds, batches = (after - then for after, then in zip(self.busy(), before))
        if keep:
            self.engine.append(seconds / batches * 1e6)
        if keep and self.backend:
            done = subprocess.run([pergola, "bench", "hop", "--backend", self.backend, "--calls", str(PER_ROUND),
                                   "--json"], check=True, capture_output=True, text=True)
            self.times["hop"].append(json.loads(done.stdout)["us_p50"])

    def result(self):
        middle = {kind: statistics.median(values) for kind, values in self.times.items() if values}
        engine = statistics.median(self.engine)
        row = {"shape": self.name, "engine": engine, **middle}
        for kind in ("float", "base64", "tei"):
            besides = middle[kind] - (0 if kind == "tei" else engine)
            row[kind + " besides the model"] = besides
            row[kind + " less HTTP echo"] = besides - middle["echo"]
            if "hop" in middle:
                row[kind + " less both echoes"] = besides - middle["echo"] - middle["hop"]
        del row["tei"]
        return {name: value if isinstance(value, str) else round(value, 1) for name, value in row.items()}


def start(pergola, title, model, stop):
    serve = tier.Process(pergola, "serve", "--model", model, "--cache-mib", 0)
    stop.append(serve.kill)
    tiers = tier.Tier(pergola, model, 1, gateway=("--cache-mib", 0), server=("--cache-mib", 0, "--status-port", 0))
    stop.append(tiers.close)
    status = re.search(r"^status on (http\S+)$", tiers.servers[0].said, re.M).group(1)
    rows = [tier.embed(tier.connect(url), [TEXT])[2] for url in (serve.url, tiers.gateway.url)]
    shapes = [Shape(title + "serve", serve.port, serve.url + "/metrics", None),
              Shape(title + "gateway + server", tiers.gateway.port, status + "/metrics",
                    f"127.0.0.1:{tiers.servers[0].port}")]
    return rows, shapes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pergola", default="build/release/pergola")
    parser.add_argument("--against", help="another build")
    parser.add_argument("--model", default=TINY, help="takes 128 tokens; its time is taken off, so a small one")
    parser.add_argument("--rounds", type=int, default=25, help=f"of {PER_ROUND} requests of each kind")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kinds = {"echo": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "float": openai("float"), "base64": openai("base64"),
             "tei": post("/embed", inputs=TEXT)}
    builds = [(options.pergola, "")] + ([(options.against, "against: ")] if options.against else [])
    stop, shapes, vectors = [], [], []
    try:
        for pergola, title in builds:
            rows, started = start(pergola, title, options.model, stop)
            vectors += rows
            shapes += started
        if not vectors[0] or any(rows != vectors[0] for rows in vectors):
            sys.exit("not all give the same vectors")
        for number in range(options.rounds + 2):
            for shape in shapes:
                shape.round(kinds, options.pergola, keep=number >= 2)
    finally:
        for each in stop:
            each()
    for shape in shapes:
        result = shape.result()
        if options.json:
            print(json.dumps(result))
            continue
        print(result.pop("shape") + ": " + ", ".join(f"{name} {value:.0f}" for name, value in result.items()) + " us")


if __name__ == "__main__":
    main()
