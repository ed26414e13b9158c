#!/usr/bin/env python3
"""A grid whose every connection is TLS with certificates on both sides, spare and sharing included.

  tls_test.py PERGOLA GOLDEN_TINY
"""

import json
import signal
import ssl
import subprocess

from grid import Process, Router, main, run, serve


def certificate(folder, name):
    cert, key = folder / (name + ".pem"), folder / (name + ".key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "1", "-subj", "/CN=" + name, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, stderr=subprocess.DEVNULL)
    return cert, key


def check_tls(pergola, golden, folder, started):
    model = golden / "llama"
    run(pergola, "slice", model, "--part", "all", "-o", folder / "parts")
    ours, theirs, stranger = (certificate(folder, name) for name in ("router", "members", "stranger"))

    def tls(pair):
        return ("--tls-cert", pair[0], "--tls-key", pair[1])

    # HTTP asks for keys, not for certificates: without keys it would be a way round them.
    no_keys = run(pergola, "router", *tls(ours), "--tls-client-ca", theirs[0], code=1).stderr
    assert "--tls-client-ca" in no_keys and "--api-key-file" in no_keys, no_keys
    for role in (("--role", "embed"), ("--role", "ffn", "--share", folder / "parts"), ("--spare",)):
        refused = run(pergola, "serve", *role, "--model", folder / "parts" / "embed", *tls(theirs), "--tls-client-ca",
                      ours[0], code=1).stderr
        assert "--api-key-file" in refused, refused
    keys = folder / "keys"
    keys.write_text("sk-1\n")
    router = started(Router(pergola, *tls(ours), "--tls-client-ca", theirs[0], "--member-ca", theirs[0], "--api-key-file",
                            keys, scheme="https"))
    assert router.url.startswith("pergolas://"), router.said
    member = (*tls(theirs), "--join-ca", ours[0])
    # Frames want the keys of HTTP, too; a router has one to show when the server has joined with it.
    keyed = ("--tls-client-ca", ours[0], "--share", folder / "parts", "--api-key-file", keys)
    shown = run(pergola, "serve", "--role", "embed", "--model", folder / "parts" / "embed", "--join", router.join, *member,
                *keyed, code=1).stderr
    assert "needs --join-key-file" in shown, shown
    embed = started(serve(pergola, router, "embed", folder / "parts" / "embed", *member, *keyed, "--join-key-file", keys))
    embed.wait_for(r"joined \S+")
    # Another certificate than the router asks for, and none.
    for args in ((*tls(stranger), "--join-ca", ours[0]), ("--join-ca", ours[0]), ()):
        refused = started(serve(pergola, router, "ffn", folder / "parts" / "ffn", *args))
        refused.wait_for("not in the grid of")
        refused.kill()
    spare = started(Process(pergola, "serve", "--spare", "--join", router.join, "--store", folder / "store", "--frame-port",
                            "0", "--threads", "1", *member, "--slice-source-ca", theirs[0], "--slice-source-key-file", keys,
                            "--slice-source", embed.wait_for(r"https://\S+") + "/v1/slices"))
    spare.wait_for(r"joined \S+")

    # A router that knows authorities of members has none without TLS.
    lenient = started(Router(pergola, "--member-ca", theirs[0]))
    plain = started(serve(pergola, lenient, "ffn", folder / "parts" / "ffn"))
    plain.wait_for(r"not in the grid of .*pergola://\S+ is without TLS.*--member-ca")
    for process in (plain, lenient):
        process.kill()

    ask = ("--prompt", "a few words", "--max-tokens", "16", "--ignore-end", "--json", "--threads", "1")
    local = run(pergola, "predict", "--model", model, *ask).stdout

    def client(*args, code=0, key=keys):
        return run(pergola, "predict", "--model", folder / "parts" / "client", "--attention-only", "--grid", router.url,
                   *ask, *args, *(("--api-key-file", key) if key else ()), code=code)

    assert client("--ca", ours[0], *tls(theirs)).stdout == local
    assert "not trusted" in client("--ca", stranger[0], *tls(theirs), code=4).stderr
    client("--ca", ours[0], *tls(stranger), code=4)
    # A certificate alone does not do where keys are set; a key that is taken back is refused from SIGHUP on.
    assert "frames need a key" in client("--ca", ours[0], *tls(theirs), code=4, key=None).stderr
    second = folder / "second-key"
    second.write_text("sk-2\n")
    assert "is not known" in client("--ca", ours[0], *tls(theirs), code=4, key=second).stderr
    keys.write_text("sk-1\nsk-2\n")
    router.process.send_signal(signal.SIGHUP)
    router.wait_for(r"(?m)^keys reloaded")
    assert client("--ca", ours[0], *tls(theirs), key=second).stdout == local
    assert "wants TLS" in client(code=1).stderr
    # The router's certificate is renewed while it runs; authorities of the old one trust it no more.
    old = folder / "old.pem"
    before = ours[0].read_bytes()
    old.write_bytes(before)
    http_port = ("127.0.0.1", int(router.http.rsplit(":", 1)[1]))
    ours[1].write_text("no key")
    router.process.send_signal(signal.SIGHUP)
    router.wait_for("certificates of frames not reloaded")
    assert client("--ca", old, *tls(theirs)).stdout == local
    assert ssl.get_server_certificate(http_port) == old.read_text()
    certificate(folder, "router")
    router.process.send_signal(signal.SIGHUP)
    for what in ("frames", "HTTP", "joining"):
        router.wait_for(f"(?m)^certificates of {what} reloaded", times=2)  # once with the keys
    assert ssl.get_server_certificate(http_port) == ours[0].read_text()
    # Servers join with the new one; who trusts the old one alone comes in no more.
    late = started(serve(pergola, router, "ffn", folder / "parts" / "ffn", *member))
    late.wait_for(r"joined \S+")
    wary = started(serve(pergola, router, "ffn", folder / "parts" / "ffn", *tls(theirs), "--join-ca", old))
    wary.wait_for("not in the grid of")
    # Until its file has the new one, too: a link that is down takes what SIGHUP rereads.
    old.write_bytes(ours[0].read_bytes())
    wary.process.send_signal(signal.SIGHUP)
    wary.wait_for("(?m)^certificates of joining reloaded")
    wary.wait_for(r"joined \S+")
    old.write_bytes(before)
    assert client("--ca", ours[0], *tls(theirs)).stdout == local
    assert "not trusted" in client("--ca", old, *tls(theirs), code=4).stderr
    for process in (late, wary, spare, embed, router):
        assert process.stop() == 0, process.said


if __name__ == "__main__":
    main(check_tls)
