#!/usr/bin/env python3
"""What a repeated text costs: its body known, only its rows known, nothing known; beside a null echo.

Usage: repeated_texts.py PERGOLA MODEL [REPEATS]
Of `serve`, and of a gateway before a server. Medians in microseconds over one connection, the null echo taken off.
"""

import json
import pathlib
import random
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "fault"))
import tier  # noqa: E402

WORDS = "river engine morning paper green signal winter garden simple measure copper light water letter".split()


def text(seed):
    chooser = random.Random(seed)
    return " ".join(chooser.choice(WORDS) for _ in range(126))


def ask(connection, method, path, body=None):
    began = time.perf_counter()
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, answer.status
    return (time.perf_counter() - began) * 1e6


def embed(connection, words):
    return ask(connection, "POST", "/v1/embeddings", json.dumps({"model": "m", "input": words}))


def measure(name, url, repeats):
    connection = tier.connect(url)
    known = text(1)
    for _ in range(10):
        embed(connection, known)
    null, body, rows = [], [], []
    for number in range(repeats):
        null.append(ask(connection, "GET", "/healthz"))
        body.append(embed(connection, known))
        rows.append(embed(connection, known + " " * (number + 1)))  # other bytes, the same tokens
    fresh = [embed(connection, text(1000 + number)) for number in range(20)]
    echo = statistics.median(null)
    print(f"{name}: null echo {echo:.0f} us; beyond it: known body {statistics.median(body) - echo:.0f}, "
          f"known rows {statistics.median(rows) - echo:.0f}, computed {statistics.median(fresh) - echo:.0f}")


def main():
    pergola, model = sys.argv[1:3]
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 400
    serve = tier.Process(pergola, "serve", "--model", model)
    tested = tier.Tier(pergola, model, 1)
    try:
        tier.wait_until(lambda: tested.gateway.says("keeps rows"), "the server's identity")
        measure("serve", serve.url, repeats)
        measure("gateway and server", tested.gateway.url, repeats)
    finally:
        tested.close()
        serve.kill()


if __name__ == "__main__":
    main()
