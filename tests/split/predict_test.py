#!/usr/bin/env python3
"""`pergola predict` as a process, against the reference library's continuations.

  predict_test.py PERGOLA GOLDEN_TINY
"""

import json
import pathlib
import subprocess
import sys
import tempfile

MODELS = ("gemma3-causal", "qwen3-causal", "llama", "llama-spm-rope3")


def run(*args, code=0):
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, (args, done.returncode, done.stderr)
    return done


def check_model(pergola, folder):
    golden = json.loads((folder / "golden.json").read_text())
    with tempfile.TemporaryDirectory() as temp:
        prompts = pathlib.Path(temp) / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"words": text}) + "\n" for text in golden["texts"]))
        out = run(pergola, "predict", "--model", folder, "--input", prompts, "--field", "words", "--json",
                  "--max-tokens", "16", "--top-k", "3", "--ignore-end", "--activations", "f32").stdout
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == len(golden["texts"])
    for row, ids, greedy in zip(rows, golden["ids"], golden["greedy16_ids"]):
        assert row["ids"] == ids, (row["ids"], ids)
        assert row["generated"] == greedy, (row["generated"], greedy)
        assert row["top"][0]["token_id"] == greedy[0]
        assert len(row["top"]) == 3
        probs = [token["prob"] for token in row["top"]]
        assert probs == sorted(probs, reverse=True) and 0 < sum(probs) <= 1


def check_errors(pergola, golden):
    run(pergola, "predict", "--model", golden / "llama", code=2)
    failed = run(pergola, "predict", "--model", golden / "bert", "--prompt", "a", code=1)
    assert "predicts no tokens" in failed.stderr, failed.stderr
    failed = run(pergola, "predict", "--model", golden / "llama", "--prompt", "a", "--context", "4",
                 "--max-tokens", "9", code=1)
    assert "the limit is 4" in failed.stderr, failed.stderr
    sampled = [run(pergola, "predict", "--model", golden / "llama", "--prompt", "a", "--max-tokens", "8",
                   "--temperature", "1", "--seed", seed, "--json").stdout for seed in ("1", "1", "2")]
    assert sampled[0] == sampled[1] != sampled[2]


def main():
    pergola, golden = sys.argv[1], pathlib.Path(sys.argv[2])
    for model in MODELS:
        check_model(pergola, golden / model)
    check_errors(pergola, golden)
    print("ok")


if __name__ == "__main__":
    main()
