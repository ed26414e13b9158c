#!/usr/bin/env python3
"""Second tier: a real language model continues texts alike in one piece and split over servers.

  exactness_test.py PERGOLA MODEL [--texts TEXTS.json] [--prompts 50] [--tokens 64] [--payloads f32]

Greedy continuations; an embed server and two of feed-forward layers, all from slices, on loopback; the client has only
attention. With f32 all tokens must be equal. Of other payload types it prints how many continuations are, and where
the first differs.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from part_process import PartProcess


def run(*args):
    done = subprocess.run([str(arg) for arg in args], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{args}: {done.stderr}")
    return done.stdout


def continuations(pergola, prompts, tokens, *args):
    out = run(pergola, "predict", "--offline", "--input", prompts, "--field", "text", "--json", "--ignore-end",
              "--max-tokens", tokens, *args)
    return [json.loads(line)["generated"] for line in out.splitlines()]


def compare(payload, whole, split):
    firsts = [next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), None)
              for one, other in zip(whole, split)]
    same = firsts.count(None)
    differ = sorted(first for first in firsts if first is not None)
    print(f"table {payload}: {same} of {len(whole)} continuations are the same"
          + (f", the others differ from token {differ[0]} to {differ[-1]} on" if differ else ""))
    return same == len(whole)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pergola")
    parser.add_argument("model")
    parser.add_argument("--texts", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "golden" / "texts.json")
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--payloads", default="f32")
    options = parser.parse_args()
    texts = [row["text"] for row in json.loads(options.texts.read_text())]
    texts = [text for text in texts if 8 <= len(text) <= 400][:options.prompts]
    assert len(texts) == options.prompts, f"there are {len(texts)} texts"
    servers = []
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp)
        prompts = folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        for part in ("embed", "client"):
            run(options.pergola, "slice", options.model, "--part", part, "-o", folder / part)
        layers = json.loads((folder / "client" / "index.json").read_text())["num_layers"]
        for name, which in (("low", f"0-{layers // 2 - 1}"), ("high", f"{layers // 2}-{layers - 1}")):
            run(options.pergola, "slice", options.model, "--part", "ffn", "--layers", which, "-o", folder / name)
        try:
            whole = continuations(options.pergola, prompts, options.tokens, "--model", options.model)
            servers.append(PartProcess(options.pergola, "--role", "embed", "--port", 0, "--model", folder / "embed"))
            for name in ("low", "high"):
                servers.append(PartProcess(options.pergola, "--role", "ffn", "--model", folder / name))
            urls = [server.url for server in servers]
            good = True
            for payload in options.payloads.split(","):
                split = continuations(options.pergola, prompts, options.tokens, "--model", folder / "client",
                                      "--attention-only", "--embed", urls[0], "--ffn", ",".join(urls[1:]),
                                      "--payload", payload)
                good &= compare(payload, whole, split) or payload != "f32"
        finally:
            for server in servers:
                server.stop()
    print(f"{int(good)} passed, {int(not good)} failed")
    sys.exit(not good)


if __name__ == "__main__":
    main()
