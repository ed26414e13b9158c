#!/usr/bin/env python3
"""Loading and encoding against the Hugging Face library and tiktoken, one thread each, in one run.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 tiktoken
    venv/bin/python bench/tokenizers_vs_hf.py --benchmark build/dev/tokenizers_benchmark \
        --models FOLDER

FOLDER holds models with their tokenizer.json, of which all-MiniLM-L6-v2/, embeddinggemma-300m/,
xlm-roberta/ and qwen/ (Qwen 2's vocabulary) are taken, as far as they are there. All sides encode the
same texts one by one, without padding: the golden texts joined and cut into texts of 512 tokens, so that
calls weigh little, and the golden texts as they are. Ours from tokenizers_benchmark; the library through
its Python binding, whose own cost is measured with an empty text and taken off, one text a call
("single") and all in one call ("batch"). The library caches words (tokenizers: 10,000 pieces; Pergola
does not, so it has no warm figure of its own): "cold" is a first pass of a fresh tokenizer, "warm" what
follows. tiktoken gets the ranks of a byte-level vocabulary. CPU time counts, so that a busy machine does
not tilt the scale.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

MODELS = ("all-MiniLM-L6-v2", "embeddinggemma-300m", "xlm-roberta", "qwen")


def seconds(function):
    start = time.process_time()
    function()
    return time.process_time() - start


def load(path):
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def measure_library(path, texts, rounds):
    """Seconds for all texts: single cold, single warm, batch warm."""
    cold = min(seconds(lambda t=load(path): [t.encode(text) for text in texts]) for _ in range(2))
    tokenizer = load(path)
    call = min(seconds(lambda: [tokenizer.encode("") for _ in texts]) for _ in range(rounds))
    warm = min(seconds(lambda: [tokenizer.encode(text) for text in texts]) for _ in range(rounds))
    batch = min(seconds(lambda: tokenizer.encode_batch(texts)) for _ in range(rounds))
    return {"single, cold": cold - call, "single, warm": warm - call, "batch, warm": batch}


def measure_tiktoken(path, texts, rounds):
    """Seconds for all texts; None where the vocabulary is not byte-level."""
    import tiktoken

    config = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    split = next((part["pattern"]["Regex"] for part in (config["pre_tokenizer"] or {}).get("pretokenizers", [])
                  if part["type"] == "Split"), None)
    if config["model"]["type"] != "BPE" or not split:
        return None
    letters, extra = {}, 0
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or byte >= 0xAE:
            letters[chr(byte)] = byte
        else:
            letters[chr(0x100 + extra)] = byte
            extra += 1
    ranks = {bytes(letters[c] for c in piece): id_ for piece, id_ in config["model"]["vocab"].items()}
    encoding = tiktoken.Encoding("measured", pat_str=split, mergeable_ranks=ranks, special_tokens={})
    library = load(path)
    same = sum(encoding.encode_ordinary(text) == library.encode(text, add_special_tokens=False).ids for text in texts)
    call = min(seconds(lambda: [encoding.encode_ordinary("") for _ in texts]) for _ in range(rounds))
    whole = min(seconds(lambda: [encoding.encode_ordinary(text) for text in texts]) for _ in range(rounds))
    print(f"  tiktoken gives the same ids for {same} of {len(texts)} texts (it does not normalise)")
    return whole - call


def measure_ours(benchmark, models, name, texts_path):
    result = subprocess.run(
        [benchmark, "--benchmark_format=json", "--benchmark_repetitions=3", "--benchmark_min_time=0.2",
         f"--benchmark_filter=^BM_(Load|Encode|EncodeWithOffsets)/{name}$"],
        check=True, capture_output=True,
        env={**os.environ, "PERGOLA_REAL_MODELS": models, "PERGOLA_BENCH_TEXTS": texts_path})
    times = {}
    for run in json.loads(result.stdout)["benchmarks"]:
        if run.get("run_type") == "iteration":
            scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[run["time_unit"]]
            what = run["name"].split("/")[0]
            times[what] = min(times.get(what, 1e9), run["cpu_time"] * scale)
    return times


def long_texts(path, texts):
    """Texts of 512 tokens without special ones."""
    tokenizer, result = load(path), []
    joined = "\n".join(texts)
    offsets = tokenizer.encode(joined, add_special_tokens=False).offsets
    for start in range(0, len(offsets) - 511, 512):
        result.append(joined[offsets[start][0]:offsets[start + 511][1]])
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--benchmark", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--only", default="", help="a part of the model's name")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    golden = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "texts.json"
    golden_texts = [entry["text"] for entry in json.loads(golden.read_text())]
    for name in MODELS:
        path = f"{arguments.models}/{name}/tokenizer.json"
        if not os.path.exists(path) or arguments.only not in name:
            continue
        for label, texts in (("512 tokens", long_texts(path, golden_texts)), ("golden texts", golden_texts)):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(texts, file)
                file.flush()
                ours = measure_ours(arguments.benchmark, arguments.models, name, file.name)
            megabytes = sum(len(text.encode()) for text in texts) / 1e6
            if label == "512 tokens":
                library_load = min(seconds(lambda: Tokenizer.from_file(path)) for _ in range(3))
                print(f"{name}\n  load {ours['BM_Load'] * 1e3:.1f} ms, reference {library_load * 1e3:.1f} ms: "
                      f"{library_load / ours['BM_Load']:.1f}x")
            times = measure_library(path, texts, arguments.rounds)
            tiktoken_time = measure_tiktoken(path, texts, arguments.rounds)
            if tiktoken_time:
                times["tiktoken"] = tiktoken_time
            for what in ("BM_Encode", "BM_EncodeWithOffsets"):
                print(f"  {label}, {len(texts)} of them, {what[3:]}: {ours[what] / len(texts) * 1e6:.1f} us each, "
                      f"{megabytes / ours[what]:.1f} MB/s; " +
                      ", ".join(f"{key} {value / len(texts) * 1e6:.0f} us: {value / ours[what]:.1f}x"
                                for key, value in times.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
