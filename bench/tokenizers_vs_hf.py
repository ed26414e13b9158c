#!/usr/bin/env python3
"""Loading and encoding against the Hugging Face library, one thread each, in one run; prints ratios.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python bench/tokenizers_vs_hf.py --benchmark build/dev/tokenizers_benchmark \
        --models FOLDER

FOLDER holds all-MiniLM-L6-v2/ and embeddinggemma-300m/ with their tokenizer.json. Both sides encode the
golden texts one by one (no batch, no padding), after a first pass; ours from tokenizers_benchmark, the
library through its Python binding, whose own cost is measured with an empty text and taken off. CPU
time counts, so that a busy machine does not tilt the scale.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402


def best(function, rounds=5):
    times = []
    for _ in range(rounds):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def measure_reference(path, texts):
    load = best(lambda: Tokenizer.from_file(path), 3)
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    call = best(lambda: [tokenizer.encode("") for _ in texts])
    whole = best(lambda: [tokenizer.encode(text) for text in texts])
    return load, whole - call


def measure_ours(benchmark, models, name):
    result = subprocess.run(
        [benchmark, "--benchmark_format=json", "--benchmark_repetitions=3",
         f"--benchmark_filter=^BM_(Load|Encode|EncodeWithOffsets)/{name}$"],
        check=True, capture_output=True, env={**os.environ, "PERGOLA_REAL_MODELS": models})
    times = {}
    for run in json.loads(result.stdout)["benchmarks"]:
        if run.get("run_type") == "iteration":
            scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[run["time_unit"]]
            what = run["name"].split("/")[0]
            times[what] = min(times.get(what, 1e9), run["cpu_time"] * scale)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--benchmark", required=True)
    parser.add_argument("--models", required=True)
    arguments = parser.parse_args()
    golden = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "texts.json"
    texts = [entry["text"] for entry in json.loads(golden.read_text())]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    for name in ("all-MiniLM-L6-v2", "embeddinggemma-300m"):
        path = f"{arguments.models}/{name}/tokenizer.json"
        load, encode = measure_reference(path, texts)
        ours = measure_ours(arguments.benchmark, arguments.models, name)
        print(f"{name}")
        print(f"  load            {ours['BM_Load'] * 1e3:8.1f} ms, reference {load * 1e3:8.1f} ms:"
              f" {load / ours['BM_Load']:.1f}x")
        for what, label in (("BM_EncodeWithOffsets", "ids and offsets"), ("BM_Encode", "ids only")):
            print(f"  {label:15} {megabytes / ours[what]:8.1f} MB/s, reference"
                  f" {megabytes / encode:6.1f} MB/s: {encode / ours[what]:.1f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
