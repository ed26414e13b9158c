#!/usr/bin/env python3
"""Is batching real? Run against a server without caches: `pergola serve --cache-mib 0`.

    tests/with_server.sh --model all-MiniLM-L6-v2 --cache-mib 0 -- bash -c 'bench/batching.py $BASE_URL'

1. 32 texts of 8 tokens in one call against 32 calls of one: the list must reach 1.5 times the tokens/s.
2. 32 clients at once, one text a call: the median batch (of the server's histogram) must be above 4.
All answers are compared bit for bit. Ends with "N passed, N failed".
"""
import http.client
import json
import re
import statistics
import sys
import threading
import time
import urllib.parse

BASE = urllib.parse.urlsplit(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:42666")
TEXTS = 32
ROUNDS = 15


def sequences():
    """32 lists of 8 ids, all different, so that neither cache nor single flight helps."""
    return [[101] + [1996 + 31 * row + 7 * col for col in range(6)] + [102] for row in range(TEXTS)]


class Client:
    def __init__(self):
        self.connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=60)

    def embed(self, ids):
        body = json.dumps({"model": "m", "input": ids, "encoding_format": "base64"})
        self.connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        data = json.loads(answer.read())
        if answer.status != 200:
            raise SystemExit(f"status {answer.status}: {data}")
        return [row["embedding"] for row in data["data"]]


def batch_histogram():
    connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    found = re.findall(r'^pergola_batch_size_bucket\{.*le="([^"]+)".*\} ([0-9.e+]+)$', text, re.M)
    return {float(bound): float(count) for bound, count in found}


def median_batch(before, after):
    """The upper bound of the bucket that holds the median, and the bound below it."""
    counts = {bound: after[bound] - before.get(bound, 0) for bound in sorted(after)}
    half, below = counts[float("inf")] / 2, 0.0
    for bound, cumulated in counts.items():
        if cumulated >= half:
            return below, bound
        below = bound
    return below, float("inf")


def list_against_singles(client, ids):
    expected = client.embed(ids)
    lists, singles = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        rows = client.embed(ids)
        lists.append(time.perf_counter() - start)
        start = time.perf_counter()
        alone = [client.embed([one])[0] for one in ids]
        singles.append(time.perf_counter() - start)
        if rows != expected or alone != expected:
            raise SystemExit("a vector depends on its batch")
    ratio = statistics.median(singles) / statistics.median(lists)
    tokens = TEXTS * 8
    print(f"one list {tokens / statistics.median(lists):,.0f} tokens/s, "
          f"single calls {tokens / statistics.median(singles):,.0f} tokens/s: {ratio:.2f}x")
    return ratio >= 1.5


def many_clients(ids, expected):
    before = batch_histogram()
    wrong = []

    def work(row):
        client = Client()
        for _ in range(ROUNDS * 4):
            if client.embed([ids[row]])[0] != expected[row]:
                wrong.append(row)

    threads = [threading.Thread(target=work, args=(row,)) for row in range(TEXTS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    low, high = median_batch(before, batch_histogram())
    requests = TEXTS * ROUNDS * 4
    print(f"32 clients: {requests / seconds:,.0f} requests/s, median batch in ({low:g}, {high:g}]")
    return low >= 4 and not wrong


def main():
    ids = sequences()
    client = Client()
    results = [list_against_singles(client, ids), many_clients(ids, client.embed(ids))]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
