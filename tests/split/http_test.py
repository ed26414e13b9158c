#!/usr/bin/env python3
"""The HTTP routes of an embed part: rows, logits, tokens and stats, as JSON and binary.

  http_test.py PERGOLA GOLDEN_TINY
"""

import array
import http.client
import json
import pathlib
import signal
import struct
import sys
import tempfile

from part_process import PartProcess, port_of

BINARY = "application/x-larql-ffn"


class Part(PartProcess):
    def __init__(self, pergola, model, *flags):
        super().__init__(pergola, "--role", "embed", "--model", model, "--port", 0, "--threads", 1, "--activations", "f32",
                         *flags)

    def ask(self, method, path, body=None, want=200, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", port_of(self.http_url), timeout=30)
        if isinstance(body, dict):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status == want, (method, path, answer.status, data[:300])
        return answer, data

    def json(self, *args, **kwargs):
        return json.loads(self.ask(*args, **kwargs)[1])


def check_rows(part, stats):
    width, vocab = stats["hidden_size"], stats["vocab_size"]
    rows = part.json("POST", "/v1/embed", {"token_ids": [5, 7, 5], "seq_len": 3})
    assert rows["seq_len"] == 3 and rows["hidden_size"] == width
    assert rows["residual"][0] == rows["residual"][2] != rows["residual"][1]
    _, data = part.ask("POST", "/v1/embed", struct.pack("<4I", 3, 5, 7, 5), Content_Type=BINARY)
    assert struct.unpack("<2I", data[:8]) == (3, width)
    floats = array.array("f", data[8:])
    assert [list(floats[i * width:(i + 1) * width]) for i in range(3)] == [
        list(array.array("f", row)) for row in rows["residual"]]
    _, one = part.ask("GET", "/v1/embed/7")
    assert one == data[8 + 4 * width:8 + 8 * width]
    for body in (struct.pack("<3I", 3, 5, 7), b"", b"\1\0"):
        part.ask("POST", "/v1/embed", body, 400, Content_Type=BINARY)
    part.ask("POST", "/v1/embed", {"token_ids": [vocab]}, 400)
    part.ask("POST", "/v1/embed", {"token_ids": [1], "seq_len": 2}, 400)
    part.ask("POST", "/v1/embed", "x", 415, Content_Type="application/x-larql-ffn2")
    part.ask("GET", f"/v1/embed/{vocab}", want=400)
    part.ask("GET", "/v1/embed", want=405)
    assert set(part.json("GET", "/v1/nothing", want=404)) == {"error", "code"}


def check_caching(part, stats):
    answer, data = part.ask("GET", "/v1/embed/3")
    tag = answer.getheader("etag")
    assert tag.startswith('"') and answer.getheader("vary") == "Accept"
    assert answer.getheader("cache-control") == "public, no-cache"
    pinned, _ = part.ask("GET", f"/v1/embed/3?v={stats['identity']}")
    assert pinned.getheader("cache-control") == "public, max-age=31536000, immutable"
    as_json, _ = part.ask("GET", "/v1/embed/3", Accept="application/json")
    assert as_json.getheader("etag") != tag
    _, nothing = part.ask("GET", "/v1/embed/3", want=304, If_None_Match=tag)
    assert nothing == b""
    part.ask("GET", "/v1/embed/3", want=200, If_None_Match='"other"')
    head, _ = part.ask("HEAD", "/v1/embed/3")
    assert int(head.getheader("content-length")) == len(data)


def check_logits(part, stats, folder):
    golden = json.loads((folder / "golden.json").read_text())
    vocab = stats["vocab_size"]
    row = part.json("POST", "/v1/embed", {"token_ids": golden["ids"][0]})["residual"][-1]
    one = part.json("POST", "/v1/logits", {"residual": row, "top_k": 3})["top_k"]
    two = part.json("POST", "/v1/logits", {"residual": [row, row], "top_k": 3, "logprobs": True})["top_k"]
    assert [t["token_id"] for t in one] == [t["token_id"] for t in two[1]] and "logprob" in two[0][0]
    raw = struct.pack(f"<{len(row)}f", *row)
    _, data = part.ask("POST", "/v1/logits", raw + raw, Content_Type=BINARY, Accept=BINARY, X_Rows="2")
    logits = array.array("f", data)
    assert len(logits) == 2 * vocab and logits[:vocab] == logits[vocab:]
    assert max(range(vocab), key=lambda token: logits[token]) == one[0]["token_id"]
    best = json.loads(part.ask("POST", "/v1/logits?temperature=0", raw, Content_Type=BINARY,
                               Accept="application/json")[1])["top_k"]
    assert [token["prob"] for token in best] == [1.0] and best[0]["token_id"] == one[0]["token_id"]
    for bad in ({"residual": row, "top_k": 0}, {"residual": row, "top_k": vocab + 1}, {"residual": row[:-1]},
                {"residual": row, "temperature": -1}, {"residual": []}, {"residual": [row, 1]}):
        part.ask("POST", "/v1/logits", bad, 400)
    part.ask("POST", "/v1/logits", b"\0\0\x80\x7f" + raw[4:], 400, Content_Type=BINARY)
    part.ask("POST", "/v1/logits", raw, 400, Content_Type=BINARY, X_Rows="2")
    # An answer of more than 64 MiB.
    rows = (64 << 20) // (64 * vocab) + 1
    part.ask("POST", f"/v1/logits?top_k={vocab}", raw * rows, 400, Content_Type=BINARY,
             Accept="application/json", X_Rows=str(rows))


def check_tokens(part, folder):
    golden = json.loads((folder / "golden.json").read_text())
    text, ids = golden["texts"][1], golden["ids"][1]
    assert part.json("POST", "/v1/token/encode", {"text": text, "add_special_tokens": True})["token_ids"] == ids
    bare = part.json("GET", "/v1/token/encode?text=" + text.replace(" ", "+"))["token_ids"]
    assert bare == [i for i in ids if i in bare][-len(bare):] and len(bare) < len(ids)
    decoded = part.json("GET", "/v1/token/decode?ids=" + ",".join(map(str, bare)))
    assert decoded["token_ids"] == bare and decoded["text"].strip() == text
    part.ask("GET", "/v1/token/encode", want=400)


def check_keys(pergola, model):
    """Keys are reread on SIGHUP; a broken file changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder) / "keys"
        keys.write_text("old\n")
        part = Part(pergola, model, "--api-key-file", str(keys))
        try:
            part.ask("GET", "/v1/stats", want=401, Authorization="Bearer new")
            for content, said in (("new\n", "keys reloaded\n"), ("br oken\n", "keys not reloaded")):
                keys.write_text(content)
                part.process.send_signal(signal.SIGHUP)
                assert said in part.process.stderr.readline()
                part.ask("GET", "/v1/stats", want=200, Authorization="Bearer new")
                part.ask("GET", "/v1/stats", want=401, Authorization="Bearer old")
        finally:
            assert part.stop() == 0


def main():
    folder = pathlib.Path(sys.argv[2]) / "llama"
    part = Part(sys.argv[1], folder)
    try:
        stats = part.json("GET", "/v1/stats")
        assert stats["mode"] == "embed-service" and len(stats["identity"]) == 64
        check_rows(part, stats)
        check_caching(part, stats)
        check_logits(part, stats, folder)
        check_tokens(part, folder)
    finally:
        assert part.stop() == 0
    check_keys(sys.argv[1], folder)
    print("ok")


if __name__ == "__main__":
    main()
