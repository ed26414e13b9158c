#!/usr/bin/env python3
"""Does a busy neighbour cost more than its share? On two cores, two threads and then two threads with one spinning process.

    bench/neighbour.py [MODEL] [SECONDS] [ROUNDS]      # PERGOLA names the binary

Every round times one short text (8 tokens), a longer one (128) and the longer one on one thread, alone and then with
the neighbour, all kept to the same two cores. Three threads on two cores have two thirds of them each, so throughput
may fall to two thirds; a pool that waits for a thread without a core falls far below. Medians of the rounds:

1. 128 tokens with the neighbour: at least 0.9 of two thirds of the throughput without.
2. The 99th percentile of the short text with the neighbour: at most 3 times that without.
3. Two threads: at least 1.7 times the throughput of one.

Worthless on a machine that does something else: it says what else ran. Ends with "N passed, N failed".
"""
import json
import multiprocessing
import os
import statistics
import subprocess
import sys

PERGOLA = os.environ.get("PERGOLA", "build/release/pergola")
MODEL = sys.argv[1] if len(sys.argv) > 1 else "all-MiniLM-L6-v2"
SECONDS = sys.argv[2] if len(sys.argv) > 2 else "2"
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
CORES = sorted(os.sched_getaffinity(0))[:2]


def spin():
    os.sched_setaffinity(0, CORES)
    while True:
        pass


def cell(length, threads):
    """The bench line of one text of `length` tokens."""
    command = [PERGOLA, "bench", "engine", "--model", MODEL, "--lengths", str(length), "--batch", "1",
               "--threads", str(threads), "--seconds", SECONDS, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          preexec_fn=lambda: os.sched_setaffinity(0, CORES))
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def cells():
    return {"short": cell(8, 2), "long": cell(128, 2), "one": cell(128, 1)}


def cells_with_neighbour():
    neighbour = multiprocessing.Process(target=spin, daemon=True)
    neighbour.start()
    try:
        return cells()
    finally:
        neighbour.kill()
        neighbour.join()


def main():
    if len(CORES) < 2:
        raise SystemExit("needs two cores")
    print(f"load before: {os.getloadavg()[0]:.1f}")
    rounds = []
    for _ in range(ROUNDS):
        alone, shared = cells(), cells_with_neighbour()
        rounds.append((shared["long"]["tokens_per_s"] / alone["long"]["tokens_per_s"],
                       shared["short"]["ms_p99"] / alone["short"]["ms_p99"],
                       alone["long"]["tokens_per_s"] / alone["one"]["tokens_per_s"]))
        print(f"alone {alone['long']['tokens_per_s']:.0f} tokens/s, with a neighbour "
              f"{shared['long']['tokens_per_s']:.0f}; 8 tokens: p50 {alone['short']['ms_p50']:.2f} and "
              f"{shared['short']['ms_p50']:.2f} ms, p99 {alone['short']['ms_p99']:.2f} and "
              f"{shared['short']['ms_p99']:.2f} ms")
    kept, slower, scaling = (statistics.median(column) for column in zip(*rounds))
    checks = [(f"throughput kept {kept:.2f}, at least {0.9 * 2 / 3:.2f}", kept >= 0.9 * 2 / 3),
              (f"p99 of 8 tokens {slower:.2f} times, at most 3", slower <= 3),
              (f"two threads {scaling:.2f} times one, at least 1.7", scaling >= 1.7)]
    for text, good in checks:
        print(f"{'ok ' if good else 'BAD'} {text}")
    passed = sum(good for _, good in checks)
    print(f"{passed} passed, {len(checks) - passed} failed")
    sys.exit(passed < len(checks))


if __name__ == "__main__":
    main()
