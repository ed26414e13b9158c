#!/usr/bin/env python3
"""A part whose only server is killed is taken over by a spare, and a text that waited for it goes on.

  spare_test.py PERGOLA GOLDEN_TINY
"""

import hashlib
import json
import re
import subprocess
import urllib.error
import urllib.request

from grid import Process, Router, main, run, serve


def spare(pergola, router, store, *args):
    process = Process(pergola, "serve", "--spare", "--join", router.join, "--store", store, "--frame-port", "0",
                      "--threads", "1", "--port", "0", *args)
    process.wait_for("waiting for a part")
    return process


def check_sharing(embed, key):
    """Files of shared slices: by the byte, with a key, and nothing beside them."""
    base = embed.wait_for(r"http://\S+")

    def get(path, **headers):
        request = urllib.request.Request(base + path, headers={"Authorization": "Bearer " + key, **headers})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    slices = json.loads(get("/v1/slices/slices.json")[1])["slices"]
    assert [each["name"] for each in slices] == ["low"], slices
    whole = get("/v1/slices/low/ffn.gguf")
    assert whole[0] == 200
    part = get("/v1/slices/low/ffn.gguf", Range="bytes=100-")
    assert part[0] == 206 and part[1] == whole[1][100:]
    for path in ("/v1/slices/low/../../keys", "/v1/slices/low/%2e%2e/%2e%2e/keys", "/v1/slices/../keys", "/v1/slices/keys"):
        assert get(path)[0] == 404, path
    assert get("/v1/slices/low/ffn.gguf", Authorization="Bearer wrong")[0] == 401


def check_spares(pergola, golden, folder, started):
    model = golden / "llama"
    parts, shared = folder / "parts", folder / "shared"
    run(pergola, "slice", model, "--part", "all", "-o", parts)
    for name, layers in (("low", "0-1"), ("high", "2-2")):
        run(pergola, "slice", model, "--part", "ffn", "--layers", layers, "-o", folder / name)
    shared.mkdir()
    (folder / "low").rename(shared / "low")
    # A slice of links is not shared: they could lead anywhere.
    (shared / "linked").mkdir()
    (shared / "linked" / "index.json").write_bytes((shared / "low" / "index.json").read_bytes())
    for file in (shared / "low").iterdir():
        if file.name != "index.json":
            (shared / "linked" / file.name).symlink_to(file)
    keys = folder / "keys"
    keys.write_text("sk-1\n")
    text = json.loads((model / "golden.json").read_text())["texts"][0]
    ask = ("--prompt", text, "--max-tokens", "400", "--context", "512", "--ignore-end", "--json", "--threads", "1")
    whole = run(pergola, "predict", "--model", model, *ask).stdout

    router = started(Router(pergola, "--join-key-file", keys))
    keyed = ("--join-key-file", keys)
    # The embed server shares what it does not serve itself.
    embed = started(serve(pergola, router, "embed", parts / "embed", *keyed, "--share", shared, "--api-key-file", keys))
    low = started(serve(pergola, router, "ffn", shared / "low", *keyed))
    high = started(serve(pergola, router, "ffn", folder / "high", *keyed))
    for server in (embed, low, high):
        server.wait_for(r"joined \S+")
    check_sharing(embed, "sk-1")
    # One spare has a source that lies, and nothing of the grid's for lack of a key.
    lying = folder / "lying"
    run(pergola, "slice", model, "--part", "ffn", "--layers", "0-1", "-o", lying / "low")
    damaged = lying / "low" / "ffn.gguf"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    # The key of the sources is for those that are named, not for whatever a member announces.
    useless = started(spare(pergola, router, folder / "store-1", *keyed, "--slice-source", lying,
                            "--slice-source-key-file", keys))
    router.wait_until(lambda grid: grid["spares"] == 1)

    def client():
        return subprocess.Popen([str(each) for each in (pergola, "predict", "--model", parts / "client",
                                                        "--attention-only", "--grid", router.url, "--wait", "60", *ask)],
                                stdout=subprocess.PIPE, text=True)

    calls = sum(member["calls"] for member in router.wait_until(lambda grid: grid["complete"])["members"])
    waiting = client()
    router.wait_until(lambda grid: sum(member["calls"] for member in grid["members"]) > calls + 50)
    low.kill()
    useless.wait_for("cannot take over the feed-forward layers 0-1: .*wrong SHA-256.*401")
    assert waiting.poll() is None
    # Its first source has a slice whose checksums are right and that cannot be loaded.
    index = json.loads((lying / "low" / "index.json").read_text())
    damaged.write_bytes(content[:64])
    entry = next(each for each in index["files"] if each["name"] == "ffn.gguf")
    entry.update(bytes=64, sha256=hashlib.sha256(content[:64]).hexdigest())
    (lying / "low" / "index.json").write_text(json.dumps(index))
    sharing = embed.wait_for(r"http://\S+") + "/v1/slices"
    useful = started(spare(pergola, router, folder / "store-2", *keyed, "--slice-source-key-file", keys, "--slice-source",
                           f"{lying},{sharing}"))
    useful.wait_for(r"joined \S+")
    assert useful.said.count("fetching low from") == 2, useful.said
    assert waiting.communicate(timeout=120)[0] == whole and waiting.returncode == 0
    useless.kill()

    # The embed part, from a folder of published slices.
    published = folder / "published"
    run(pergola, "publish", parts, folder / "high", "-o", published, "--base-model", "org/tiny-llama")
    names = [each["name"] for each in json.loads((published / "slices.json").read_text())["slices"]]
    assert "llama-ffn-2-2" in names and "llama-embed" in names and len(names) == 6, names
    card = (published / "llama-embed" / "README.md").read_text()
    assert 'base_model: "org/tiny-llama"' in card and "--role embed --model llama-embed" in card, card
    again = run(pergola, "publish", parts, folder / "high", "-o", published).stdout
    assert re.findall(r"(\S+ \S+) copied", again) == ["0 B"] * 6, again
    other = started(spare(pergola, router, folder / "store-3", *keyed, "--slice-source", published))
    calls = sum(member["calls"] for member in router.wait_until(lambda grid: grid["complete"])["members"])
    waiting = client()
    router.wait_until(lambda grid: sum(member["calls"] for member in grid["members"]) > calls + 50)
    embed.kill()
    other.wait_for(r"joined \S+")
    assert waiting.communicate(timeout=120)[0] == whole and waiting.returncode == 0
    for process in (other, useful, high, router):
        assert process.stop() == 0, process.said


if __name__ == "__main__":
    main(check_spares)
