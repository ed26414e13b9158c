#!/usr/bin/env python3
"""A split model as processes on loopback: slices, servers, and a client that has only attention.

  split_test.py PERGOLA GOLDEN_TINY

The whole model's folder is out of the client's reach, the tokens must be those of the whole model; one of
two servers of the same layers is killed in between.
"""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile

from part_process import PartProcess


def run(*args, code=0):
    done = subprocess.run([str(arg) for arg in args], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, (args, done.returncode, done.stderr)
    return done


def check_slices(pergola, model, folder):
    run(pergola, "slice", model, "--part", "all", "--dry-run", "-o", folder / "nothing")
    assert not (folder / "nothing").exists()
    run(pergola, "slice", model, "--part", "all", "-o", folder / "all")
    run(pergola, "slice", model, "--part", "ffn", "--layers", "0-1", "-o", folder / "low")
    run(pergola, "slice", model, "--part", "ffn", "--layers", "2-2", "-o", folder / "high")
    failed = run(pergola, "slice", model, "--part", "ffn", "-o", folder / "low", code=1)
    assert "already there" in failed.stderr
    run(pergola, "slice", model, "--part", "ffn", "--layers", "1-99", "-o", folder / "far", code=1)
    # What is damaged or missing is named.
    path = folder / "low" / "ffn.gguf"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    failed = run(pergola, "serve", "--role", "ffn", "--model", folder / "low", "--frame-port", "0", code=1)
    assert "ffn.gguf has" in failed.stderr, failed.stderr
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    failed = run(pergola, "serve", "--role", "ffn", "--model", folder / "low", "--frame-port", "0", "--verify",
                 code=1)
    assert "ffn.gguf is damaged" in failed.stderr, failed.stderr
    path.write_bytes(whole)


def check_verify(pergola, whole, ask, other):
    """`ask` is a split prediction: compared with `whole`, and with the whole of another model."""
    rows = [json.loads(line) for line in run(pergola, *ask, "--verify", whole, "--profile").stdout.splitlines()]
    width = None
    for row in rows:
        f32, bf16, i8 = row["verify"]
        width = width or f32["bytes_per_row"] / 4
        assert f32["payload"] == "f32" and f32["bytes_per_row"] == 4 * width
        assert f32["same_tokens"] and f32["first_difference"] is None and f32["largest_error"] == 0
        assert bf16["payload"] == "bf16" and bf16["bytes_per_row"] == 2 * width
        assert i8["payload"] == "i8" and i8["bytes_per_row"] == width + 4 * ((width + 31) // 32)
        for lossy in (bf16, i8):
            assert 0 < lossy["rms_error"] < lossy["largest_error"] < 1, lossy
            assert lossy["same_tokens"] == (lossy["first_difference"] is None)
        per_token = row["profile"]["per_token"]
        assert {"embed_ms", "attention_ms", "ffn_ms", "transport_ms", "logits_ms"} < per_token.keys()
        assert row["profile"]["calls"] > 0 and row["profile"]["prompt_tokens"] == len(row["ids"])
    failed = run(pergola, *ask, "--verify", other, code=4)
    assert "identity" in failed.stderr, failed.stderr


def check_model(pergola, golden, name, folder):
    model = golden / name
    check_slices(pergola, model, folder)
    texts = json.loads((model / "golden.json").read_text())["texts"][:6]
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    ask = ("--input", prompts, "--json", "--max-tokens", "16", "--ignore-end", "--threads", "1")
    local = run(pergola, "predict", "--model", model, *ask).stdout
    servers = [PartProcess(pergola, "--threads", 1, "--role", "embed", "--port", "0", "--model", folder / "all" / "embed"),
               PartProcess(pergola, "--threads", 1, "--role", "ffn", "--model", folder / "low"),
               PartProcess(pergola, "--threads", 1, "--role", "ffn", "--model", folder / "low"),
               PartProcess(pergola, "--threads", 1, "--role", "ffn", "--model", folder / "high")]
    embed, low, spare, high = servers
    try:
        def split(*ffn, code=0):
            return run(pergola, "predict", "--model", folder / "all" / "client", "--attention-only", "--embed",
                       embed.url, "--ffn", ",".join(each.url for each in ffn), *ask, code=code)
        assert split(low, high, spare).stdout == local
        client = ("predict", "--model", folder / "all" / "client", "--attention-only", "--ffn", f"{low.url},{high.url}")
        assert run(pergola, *client, "--embed", embed.http_url, *ask).stdout == local
        other = next(each for each in ("llama", "qwen3-causal") if each != name)
        check_verify(pergola, model, (*client, "--embed", embed.http_url, *ask), golden / other)
        run(pergola, "predict", "--model", model, "--prompt", "a", "--verify", model, code=2)
        failed = run(pergola, "predict", "--model", golden / other, "--embed", embed.http_url, "--prompt", "a", code=4)
        assert "identity" in failed.stderr, failed.stderr
        # Killed without a word: the other one with the same layers answers.
        low.stop(signal.SIGKILL)
        assert split(low, high, spare).stdout == local
        shards = f"0-1={low.url},0-1={spare.url},2={high.url}"
        assert run(pergola, "predict", "--model", folder / "all" / "client", "--attention-only", "--embed", embed.url,
                   "--shards", shards, *ask).stdout == local
        failed = run(pergola, "predict", "--model", model, "--shards", f"0-1={spare.url}", *ask, code=4)
        assert "no server has the feed-forward layers 2" in failed.stderr, failed.stderr
        failed = split(spare, code=4)
        assert "no server has the feed-forward layers 2" in failed.stderr, failed.stderr
        failed = run(pergola, "predict", "--model", golden / other, "--ffn", f"{spare.url},{high.url}", "--prompt",
                     "a", code=4)
        assert "identity" in failed.stderr, failed.stderr
        for server in (embed, spare, high):
            assert server.stop() == 0
            servers.remove(server)
    finally:
        for server in servers:
            if server.process.poll() is None:
                server.stop(signal.SIGKILL)


def main():
    pergola, golden = sys.argv[1], pathlib.Path(sys.argv[2])
    for name in ("llama", "qwen3-causal"):
        with tempfile.TemporaryDirectory() as temp:
            check_model(pergola, golden, name, pathlib.Path(temp))
    print("ok")


if __name__ == "__main__":
    main()
