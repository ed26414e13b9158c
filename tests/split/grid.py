"""Processes of a grid on loopback, for the tests beside this file."""

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
    def __init__(self, pergola, *args, ports=(0, 0, 0), scheme="http"):
        super().__init__(pergola, "router", "--port", ports[0], "--frame-port", ports[1], "--http-port", ports[2],
                         "--evict-after", EVICT_AFTER_S, "--drain-timeout", "2", *args)
        self.join = self.wait_for(r"grpc://(\S+)")
        self.url = self.wait_for(r"pergolas?://\S+")
        self.http = self.wait_for(scheme + r"://\S+")

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


def main(check):
    """check(pergola, golden, folder, started) with the command line's arguments, a folder of its own, and what keeps a
    process until the end."""
    with tempfile.TemporaryDirectory() as temp, contextlib.ExitStack() as stack:
        def started(process):
            stack.callback(process.kill)
            return process
        check(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(temp), started)
    print("ok")
