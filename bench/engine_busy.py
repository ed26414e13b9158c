#!/usr/bin/env python3
"""Whether single requests keep the engine as busy as a bulk run does.

engine_busy.py [--pergola P] [--model M] [--lengths 16,128,512] [--clients 32] [--rounds N] [--variable NAME=VALUE]

By turns, on the same kind of texts: `pergola bench engine`, whose batches are as large as a step of the scheduler, and
`pergola bench server` with so many clients that each send one text at a time to `pergola serve` without a cache. The
second should reach 95 % of the first one's tokens/s; client and HTTP take their share of the same cores. A cell's
figure is the median of its rounds. Both commands check their vectors before they count. --variable: a second server
with that variable of the environment, by turns with the first (PERGOLA_ADAPTIVE_WAIT=0, say).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "fault"))
import tier  # noqa: E402

STEP_TOKENS = 512


def run(options, *arguments):
    done = subprocess.run([options.pergola, "bench", *map(str, arguments), "--model", options.model, "--seconds",
                           str(options.seconds), "--json"], check=True, capture_output=True, text=True)
    cells = [json.loads(line) for line in done.stdout.splitlines()]
    return cells[0] if cells else None  # None: the model does not take texts of that length


def start_server(options, variable):
    name, _, value = variable.partition("=")
    if name:
        os.environ[name] = value
    server = tier.Process(options.pergola, "serve", "--model", options.model, "--cache-mib", 0, variables=[name])
    if name:
        del os.environ[name]
    return server


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pergola", default="build/release/pergola")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--lengths", default="16,128,512")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--variable", default="")
    options = parser.parse_args()
    servers = {"serve": start_server(options, "")}
    try:
        if options.variable:
            servers[options.variable] = start_server(options, options.variable)
        print(f"{'length':>6} {'engine':>10} " + " ".join(f"{name:>24}" for name in servers) + "  tokens/s")
        for length in map(int, options.lengths.split(",")):
            figures = {name: [] for name in ("engine", *servers)}
            for _ in range(options.rounds):
                bulk = run(options, "engine", "--lengths", length, "--batch", max(1, STEP_TOKENS // length),
                           "--threads", os.cpu_count())
                if bulk is None:
                    break
                figures["engine"].append(bulk["tokens_per_s"])
                for name, server in servers.items():
                    cell = run(options, "server", "--url", server.url, "--lengths", length, "--batch", 1, "--clients",
                               options.clients)
                    if cell["errors"]:
                        sys.exit(f"{name}: {cell['errors']} errors")
                    figures[name].append(cell["tokens_per_s"])
            if not figures["engine"]:
                continue
            middle = {name: statistics.median(values) for name, values in figures.items()}
            shares = " ".join(f"{middle[name]:>12.0f} ({middle[name] / middle['engine']:8.3f})" for name in servers)
            print(f"{length:>6} {middle['engine']:>10.0f} {shares}", flush=True)
    finally:
        for server in servers.values():
            server.kill()


if __name__ == "__main__":
    main()
