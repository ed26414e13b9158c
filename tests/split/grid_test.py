#!/usr/bin/env python3
"""A grid as processes on loopback: servers that join a router, and a client that asks only the router.

  grid_test.py PERGOLA GOLDEN_TINY

The tokens must be those of the whole model, also when a server or the router is killed.
"""

import contextlib
import json
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

PATIENCE_S = 60
# Longer than any pause of a loaded machine; who is killed is noticed by the end of its connection.
EVICT_AFTER_S = "60"


def stable_ports(count):
    """Free ports that can be listened on again later: the system gives them to nobody on its own."""
    first = max(20000, int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]))
    found = []
    while len(found) < count:
        port = random.randrange(10000, first)
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return tuple(found)


class Process:
    """A server or router whose stderr is collected; `wait_for` waits for a line of it."""

    def __init__(self, pergola, *args):
        self.process = subprocess.Popen([str(each) for each in (pergola, *args)], stderr=subprocess.PIPE, text=True)
        self.said = ""
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.said += line
                self.changed.notify_all()

    def wait_for(self, pattern, times=1):
        with self.changed:
            done = self.changed.wait_for(lambda: len(re.findall(pattern, self.said)) >= times, PATIENCE_S)
            assert done, (pattern, self.said)
            return re.findall(pattern, self.said)[-1]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(timeout=15)
        self.reader.join()
        self.process.stderr.close()
        return code

    def kill(self):
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)


class Router(Process):
    def __init__(self, pergola, *args, ports=(0, 0, 0)):
        super().__init__(pergola, "router", "--port", ports[0], "--frame-port", ports[1], "--http-port", ports[2],
                         "--evict-after", EVICT_AFTER_S, *args)
        self.join = self.wait_for(r"grpc://(\S+)")
        self.url = self.wait_for(r"pergola://\S+")
        self.http = self.wait_for(r"http://\S+")

    def get(self, path, accept="application/json"):
        request = urllib.request.Request(self.http + path, headers={"Accept": accept})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def wait_until(self, condition):
        """Waits until /v1/grid is as wanted; asks it again and again, for nobody tells."""
        end = time.monotonic() + PATIENCE_S
        while True:
            grid = json.loads(self.get("/v1/grid")[1])
            if condition(grid):
                return grid
            assert time.monotonic() < end, grid
            time.sleep(0.02)


def run(*args, code=0):
    done = subprocess.run([str(arg) for arg in args], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, (args, done.returncode, done.stderr)
    return done


def serve(pergola, router, role, model, *args):
    return Process(pergola, "serve", "--role", role, "--model", model, "--frame-port", "0", "--threads", "1", "--port",
                   "0", "--join", router.join, *args)


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

    # Nobody there, then a gap: never an answer, always the layers.
    assert "no server has joined" in grid(code=4).stderr
    embed = started(serve(pergola, router, "embed", folder / "all" / "embed", *keyed))
    low = started(serve(pergola, router, "ffn", folder / "low", *keyed))
    for server in (embed, low):
        server.wait_for(r"joined \S+")
    assert "feed-forward layers 2" in grid(code=4).stderr
    status, text = router.get("/readyz")
    assert status == 503 and "feed-forward layers 2" in text, (status, text)
    # Without a key, and of another model: refused, with the reason.
    keyless = started(serve(pergola, router, "ffn", folder / "high"))
    keyless.wait_for("needs a key")
    keyless.kill()
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
    assert grid().stdout == local
    state = json.loads(router.get("/v1/grid")[1])
    assert len(state["members"]) == 4 and all(member["calls"] > 0 for member in state["members"]), state

    # A shard is killed while a text is made: the other one with its layers goes on.
    long = ("--prompt", texts[0], "--max-tokens", "400", "--context", "512", "--ignore-end", "--json", "--threads", "1")
    whole = run(pergola, "predict", "--model", model, *long).stdout
    client = subprocess.Popen([str(each) for each in (pergola, "predict", "--model", folder / "all" / "client",
                                                      "--attention-only", "--grid", router.url, *long)],
                              stdout=subprocess.PIPE, text=True)
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

    # A server that is told to stop leaves first; then there is a gap.
    assert spare.stop() == 0
    router.wait_until(lambda grid: not grid["complete"])
    assert "feed-forward layers 0, 1" in grid(code=4).stderr
    for process in (embed, high, router):
        assert process.stop() == 0, process.said


def main():
    pergola, golden = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as temp, contextlib.ExitStack() as stack:
        def started(process):
            stack.callback(process.kill)
            return process
        check_grid(pergola, golden, pathlib.Path(temp), started)
    print("ok")


if __name__ == "__main__":
    main()
