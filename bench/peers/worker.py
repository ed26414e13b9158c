"""One peer in a process of its own: cells in as JSON lines, measurements out.

  worker.py ENGINE PATH THREADS
  {"texts": [[ids], ...], "seconds": 0.5}  ->  {"tokens_per_s": ..., "ms_p50": ..., "rows": [[...], ...]}
"""

import json
import statistics
import sys
import time

from engines import ENGINES


def measure(engine, texts, seconds):
    rows = engine.encode(texts)
    engine.encode(texts)
    passes, total = [], 0.0
    while total < seconds or len(passes) < 3:
        began = time.perf_counter()
        engine.encode(texts)
        passes.append(time.perf_counter() - began)
        total += passes[-1]
    tokens = sum(map(len, texts))
    return {"tokens_per_s": tokens * len(passes) / total, "ms_p50": statistics.median(passes) * 1e3,
            "rows": rows.tolist()}


def main():
    name, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    engine = ENGINES[name](path, threads)
    for line in sys.stdin:
        cell = json.loads(line)
        if len(cell["texts"]) > engine.max_batch:
            result = None
        else:
            result = measure(engine, cell["texts"], cell["seconds"])
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
