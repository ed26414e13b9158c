"""A gateway and its servers as real processes, and load that checks every answer. For the tests beside it."""

import argparse
import base64
import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

WAIT = 60  # seconds for what takes a moment on a busy machine


class Process:
    """One `pergola` that listens. Restarted on the port that it had."""

    def __init__(self, pergola, command, *arguments, port=0, wrapper=(), variables=()):
        """`wrapper`: a command that runs it. `variables`: names of the environment that it shall see too."""
        self.command = [*map(str, wrapper), str(pergola), command, *map(str, arguments)]
        self.variables = ("PERGOLA_HOME", "PERGOLA_FORCE_ISA", *variables)
        self.port, self.process, self.said = port, None, ""
        self.start()

    def start(self):
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PERGOLA_OFFLINE": "1"}
        environment.update({name: os.environ[name] for name in self.variables if name in os.environ})
        self.process = subprocess.Popen([*self.command, "--port", str(self.port)], env=environment,
                                        stderr=subprocess.PIPE, text=True)
        said = ""
        for line in self.process.stderr:
            said += line
            if line.startswith("listening on "):
                self.url, self.said = line.split()[-1], said
                self.port = urllib.parse.urlsplit(self.url).port
                threading.Thread(target=self.listen, args=(self.process.stderr,), daemon=True).start()
                return
        raise AssertionError(f"{self.command} did not start: {said}")

    def listen(self, stream):
        """Reads on: the pipe must not fill."""
        for line in stream:
            self.said += line

    def says(self, words):
        return words in self.said

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """SIGTERM, and the exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(WAIT)

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024


class Tier:
    """A gateway before so many servers."""

    def __init__(self, pergola, model, servers, gateway=(), server=(), more_backends=()):
        self.servers, self.gateway = [], None
        try:
            for _ in range(servers):
                self.servers.append(Process(pergola, "server", "--model", model, *server))
            backends = [f"127.0.0.1:{each.port}" for each in self.servers] + list(more_backends)
            self.gateway = Process(pergola, "gateway", "--model", model, "--backend", ",".join(backends), *gateway)
            wait_until(lambda: status_of(self.gateway.url + "/readyz") == 200, "the gateway to be ready")
        except BaseException:
            self.close()
            raise

    def close(self):
        for process in [*self.servers, self.gateway]:
            if process is not None and process.process is not None and process.process.poll() is None:
                process.signal(signal.SIGCONT)
                process.kill()

    def metrics(self, name):
        """Of one metric: value by replica's number, or by None."""
        with urllib.request.urlopen(self.gateway.url + "/metrics", timeout=WAIT) as answer:
            text = answer.read().decode()
        ports = {f"127.0.0.1:{server.port}": number for number, server in enumerate(self.servers)}
        values = {}
        for labels, value in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.M):
            replica = re.search(r'replica="([^"]*)"', labels)
            values[ports.get(replica.group(1)) if replica else None] = float(value)
        return values

    def await_healthy(self, count):
        wait_until(lambda: sum(self.metrics("pergola_replica_healthy").values()) == count,
                   f"{count} healthy replicas")


def status_of(url):
    try:
        with urllib.request.urlopen(url, timeout=WAIT) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


def wait_until(condition, what):
    limit = time.monotonic() + WAIT
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(f"waited {WAIT} s for {what}")
        time.sleep(0.02)


def embed(connection, texts):
    """(status, headers, vectors as bytes) of one request."""
    body = json.dumps({"model": "m", "input": texts, "encoding_format": "base64"})
    connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    if answer.status != 200:
        return answer.status, answer.headers, []
    rows = sorted(json.loads(data)["data"], key=lambda row: row["index"])
    return 200, answer.headers, [base64.b64decode(row["embedding"]) for row in rows]


def connect(url):
    parts = urllib.parse.urlsplit(url)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=WAIT)


def text_of(number):
    return f"item {number} of the shelf {number % 7}, " + "word " * (number % 5)


def expected_rows(pergola, model, count):
    """The vector of each text, from one process that does everything itself."""
    serve = Process(pergola, "serve", "--model", model, "--host", "127.0.0.1")
    try:
        connection, rows = connect(serve.url), []
        for first in range(0, count, 256):
            texts = [text_of(number) for number in range(first, min(first + 256, count))]
            status, _, vectors = embed(connection, texts)
            assert status == 200, status
            rows += vectors
        return rows
    finally:
        serve.kill()


class Load:
    """Clients that embed text 0, 1, 2, ... each once, and compare every vector bit by bit."""

    def __init__(self, url, expected, clients=12):
        self.url, self.expected = url, expected
        self.next = itertools.count()
        self.lock = threading.Lock()
        self.done, self.wrong, self.errors = [], [], []
        self.threads = [threading.Thread(target=self.run) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self):
        connection = connect(self.url)
        while (number := next(self.next)) < len(self.expected):
            try:
                status, _, rows = embed(connection, [text_of(number)])
            except (OSError, http.client.HTTPException) as problem:
                connection.close()
                with self.lock:
                    self.errors.append((number, repr(problem)))
                return
            self.settle(number, status, rows)
        connection.close()

    def settle(self, number, status, rows):
        with self.lock:
            if status != 200:
                self.errors.append((number, status))
            elif rows != [self.expected[number]]:
                self.wrong.append(number)
            else:
                self.done.append(number)

    def await_share(self, share):
        wait_until(lambda: self.settled() >= share * len(self.expected) or not self.running(), "load")

    def settled(self):
        with self.lock:
            return len(self.done) + len(self.wrong) + len(self.errors)

    def running(self):
        return any(thread.is_alive() for thread in self.threads)

    def join(self):
        for thread in self.threads:
            thread.join()
        return self


def run_suite(begin, count, default):
    """Runs the tests of the program's main module after begin(pergola, model, number), all of its command line:
    `PERGOLA MODEL [--count N] [unittest options]`. Says how many passed and exits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pergola")
    parser.add_argument("model")
    parser.add_argument("--" + count, type=int, default=default)
    options, rest = parser.parse_known_args()
    begin(options.pergola, options.model, getattr(options, count))
    began = time.monotonic()
    result = unittest.main(module="__main__", argv=[sys.argv[0], *rest], exit=False).result
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    print(f"{time.monotonic() - began:.0f} s\n{result.testsRun - failed - skipped} passed, {failed} failed, "
          f"{skipped} skipped")
    sys.exit(failed > 0)
