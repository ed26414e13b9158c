#!/usr/bin/env python3
"""A grid as processes on loopback: servers that join a router, and a client that asks only the router.

  grid_test.py PERGOLA GOLDEN_TINY

The tokens must be those of the whole model, also when a server or the router is killed.
"""

import json
import re
import signal
import struct
import subprocess
import urllib.error
import urllib.request

from grid import Router, main, run, serve, stable_ports


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def stats_frame():
    """docs/formats/frame.md: a header without payload."""
    head = struct.pack("<IBBBB16sQIIIIQI", 0x464C4750, 1, 1, 0, 0, bytes(16), 7, 0, 0, 0, 0, 0, crc32c(b""))
    return head + struct.pack("<I", crc32c(head))


def send(base, path, body=None, kind="application/json", accept="application/json"):
    request = urllib.request.Request(base + path, data=body, headers={"Content-Type": kind, "Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def check_http(router, embed):
    """The router answers the routes of a model as the server of the part does."""
    binary = "application/x-larql-ffn"
    part = embed.wait_for(r"http://\S+")
    rows = json.loads(send(part, "/v1/embed", b'{"token_ids":[1,2,900]}')[1])["residual"]
    residual = json.dumps({"residual": rows, "top_k": 3}).encode()
    for path, body, kind in (("/v1/embed", b'{"token_ids":[1,2,900]}', "application/json"),
                             ("/v1/embed", struct.pack("<III", 2, 5, 6), binary), ("/v1/embed/17", None, binary),
                             ("/v1/logits", residual, "application/json"),
                             ("/v1/logits?temperature=0.5", struct.pack(f"<{len(rows[0])}f", *rows[0]), binary),
                             ("/v1/token/encode", b'{"text":"two words","add_special_tokens":true}', "application/json"),
                             ("/v1/token/decode?ids=5,6,7", None, "application/json"), ("/v1/embed/903", None, binary),
                             ("/v1/embed", b'{"token_ids":[-1]}', "application/json"), ("/v1/none", None, binary),
                             ("/v1/logits", b"abc", binary)):
        for accept in ("application/json", binary):
            answers = [send(base, path, body, kind, accept) for base in (router.http, part)]
            answers = [(status, re.sub(rb'"latency_ms":[0-9.]+', b"", text)) for status, text in answers]
            if answers[0][0] == 400:  # who says it is part of the message
                answers = [status for status, _ in answers]
            assert answers[0] == answers[1], (path, accept, answers)
    stats = json.loads(send(router.http, "/v1/stats")[1])
    assert stats["mode"] == "router" and stats["layers_owned"] == [0, 2], stats
    frames = "application/x-pergola-frame"
    status, answer = send(router.http, "/v1/ffn", stats_frame(), frames, frames)
    assert status == 200 and json.loads(answer[64:]) == stats and answer[5] == 129, answer
    assert send(router.http, "/v1/ffn", stats_frame()[:-1] + b"x", frames)[0] in (400, 500)
    assert send(router.http, "/v1/ffn", b"{}")[0] == 400


def check_keys(pergola, folder, router, servers, keys, ask, local):
    """Servers that have joined with a key want it of those who ask them for frames, too."""
    embed, low, high = (server.wait_for(r"pergola://\S+") for server in servers)

    def direct(*args, code=0):
        return run(pergola, "predict", "--model", folder / "all" / "client", "--attention-only", "--embed", embed, "--ffn",
                   f"{low},{high}", *ask, *args, code=code)

    assert direct("--api-key-file", keys).stdout == local
    assert "frames need a key here, and the first one has none" in direct(code=4).stderr
    wrong = folder / "wrong-key"
    wrong.write_text("sk-wrong\n")
    assert "the one that came is not known" in direct("--api-key-file", wrong, code=4).stderr
    stats = json.loads(send(servers[0].wait_for(r"http://\S+"), "/v1/stats")[1])
    assert stats["frames_refused"] == 2, stats
    assert json.loads(router.get("/v1/grid")[1])["frames_refused"] == 0


def check_grid(pergola, golden, folder, started):
    model = golden / "llama"
    run(pergola, "slice", model, "--part", "all", "-o", folder / "all")
    run(pergola, "slice", model, "--part", "ffn", "--layers", "0-1", "-o", folder / "low")
    run(pergola, "slice", model, "--part", "ffn", "--layers", "2-2", "-o", folder / "high")
    keys = folder / "keys"
    keys.write_text("sk-join-1\n")
    keyed = ("--join-key-file", keys)
    texts = json.loads((model / "golden.json").read_text())["texts"][:6]
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    ask = ("--input", prompts, "--json", "--max-tokens", "16", "--ignore-end", "--threads", "1")
    local = run(pergola, "predict", "--model", model, *ask).stdout

    ports = stable_ports(3)
    router = started(Router(pergola, *keyed, ports=ports))
    router.process.send_signal(signal.SIGHUP)
    router.wait_for("join keys reloaded")
    keys.write_text("two on one line\n")
    router.process.send_signal(signal.SIGHUP)
    router.wait_for("join keys not reloaded, all stays as it was")
    keys.write_text("sk-join-1\n")

    def grid(code=0):
        return run(pergola, "predict", "--model", folder / "all" / "client", "--attention-only", "--grid", router.url,
                   *ask, code=code)

    status, text = send(router.http, "/v1/embed", b'{"token_ids":[1]}')
    assert status == 503 and b"no server has joined" in text, (status, text)
    # Nobody there, then a gap: never an answer, always the layers.
    assert "no server has joined" in grid(code=4).stderr
    embed = started(serve(pergola, router, "embed", folder / "all" / "embed", *keyed))
    low = started(serve(pergola, router, "ffn", folder / "low", *keyed))
    for server in (embed, low):
        server.wait_for(r"joined \S+")
    assert "feed-forward layers 2" in grid(code=4).stderr
    status, text = router.get("/readyz")
    assert status == 503 and "feed-forward layers 2" in text, (status, text)
    for path in ("/v1/stats", "/v1/ffn"):
        status, text = send(router.http, path, stats_frame() if path == "/v1/ffn" else None, "application/x-pergola-frame")
        assert status == 503 and b"feed-forward layers 2" in text, (status, text)
    # Without a key, and of another model: refused, with the reason.
    keyless = started(serve(pergola, router, "ffn", folder / "high"))
    keyless.wait_for("needs a key")
    keyless.kill()
    # With an address that nobody can reach it by.
    unreachable = run(pergola, "serve", "--role", "ffn", "--model", folder / "high", "--host", "0.0.0.0", "--frame-port",
                      "0", "--join", router.join, code=1).stderr
    assert "--announce-host" in unreachable, unreachable
    other = started(serve(pergola, router, "ffn", golden / "qwen3-causal", *keyed))
    other.wait_for("its identity is")
    other.kill()
    high = started(serve(pergola, router, "ffn", folder / "high", *keyed))
    high.wait_for(r"joined \S+")
    spare = started(serve(pergola, router, "ffn", folder / "low", *keyed))
    spare.wait_for(r"joined \S+")
    router.wait_until(lambda grid: len(grid["members"]) == 4)
    assert router.get("/readyz")[0] == 200
    assert "<table>" in router.get("/v1/grid", accept="text/html")[1]
    check_http(router, embed)
    assert grid().stdout == local
    state = json.loads(router.get("/v1/grid")[1])
    assert len(state["members"]) == 4 and all(member["calls"] > 0 for member in state["members"]), state

    check_keys(pergola, folder, router, (embed, low, high), keys, ask, local)

    # A shard is killed while a text is made: the other one with its layers goes on.
    long = ("--prompt", texts[0], "--max-tokens", "400", "--context", "512", "--ignore-end", "--json", "--threads", "1")
    whole = run(pergola, "predict", "--model", model, *long).stdout

    def begin(*more):
        return subprocess.Popen([str(each) for each in (pergola, "predict", "--model", folder / "all" / "client",
                                                        "--attention-only", "--grid", router.url, *long, *more)],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    client = begin()
    calls = sum(member["calls"] for member in state["members"])
    router.wait_until(lambda grid: sum(member["calls"] for member in grid["members"]) > calls + 50)
    low.kill()
    assert client.communicate(timeout=120)[0] == whole and client.returncode == 0
    router.wait_until(lambda grid: len(grid["members"]) == 3)

    # The router is killed and started again: the servers come back by themselves.
    router.kill()
    router = started(Router(pergola, *keyed, ports=ports))
    router.wait_until(lambda grid: len(grid["members"]) == 3)
    assert grid().stdout == local

    # The only server of a layer hangs while the router drains: the call is cut off at the limit. Who waits goes on
    # with the next router.
    client, patient = begin(), begin("--wait", "60")
    router.wait_until(lambda grid: sum(member["calls"] for member in grid["members"]) > 50)
    high.process.send_signal(signal.SIGSTOP)
    router.wait_until(lambda grid: any(member.get("layers") == [2, 2] and member["in_flight"] for member in grid["members"]))
    assert router.stop() == 1, router.said
    out, err = client.communicate(timeout=120)
    assert client.returncode == 4 and not out, (client.returncode, out, err)
    assert patient.poll() is None
    high.process.send_signal(signal.SIGCONT)
    router = started(Router(pergola, *keyed, ports=ports))
    router.wait_until(lambda grid: len(grid["members"]) == 3)
    assert patient.communicate(timeout=120)[0] == whole and patient.returncode == 0
    assert grid().stdout == local

    # A server that is told to stop leaves first; then there is a gap.
    assert spare.stop() == 0
    router.wait_until(lambda grid: not grid["complete"])
    assert "feed-forward layers 0, 1" in grid(code=4).stderr
    for process in (embed, high, router):
        assert process.stop() == 0, process.said


if __name__ == "__main__":
    main(check_grid)
