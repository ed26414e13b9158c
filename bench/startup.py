#!/usr/bin/env python3
"""From starting the process to the first vector over HTTP, with a warm page cache.

    bench/startup.py [MODEL] [ROUNDS] [FLAGS OF SERVE...]      # PERGOLA names the binary

Prints the best and the median of the rounds, the CPU time until then (which other work on the machine disturbs less),
the binary's size and the server's memory: after the answer, and after 200 more, all of one length.
Fails if the best is above 0.1 s for all-MiniLM-L6-v2 or 0.5 s for another model, or if memory grew by more than 4 MiB.
"""
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time

PERGOLA = os.environ.get("PERGOLA", "build/release/pergola")
MODEL = sys.argv[1] if len(sys.argv) > 1 else "all-MiniLM-L6-v2"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 10
FLAGS = sys.argv[3:]
LIMIT_S = 0.1 if MODEL == "all-MiniLM-L6-v2" else 0.5
MORE = 200


def memory(pid):
    """(resident, private) in MiB."""
    with open(f"/proc/{pid}/status") as lines:
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return [int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon")]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as line:
        fields = line.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def embed(connection, text):
    connection.request("POST", "/v1/embeddings", json.dumps({"model": "m", "input": text}),
                       {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    if len(answer["data"][0]["embedding"]) < 2:
        raise SystemExit(f"no vector: {answer}")


def one_round(more):
    """(seconds, CPU seconds, memory after the first answer, memory after `more` further ones)"""
    start = time.perf_counter()
    server = subprocess.Popen([PERGOLA, "serve", "--offline", "--model", MODEL, "--port", "0",
                               "--cache-mib", "0", *FLAGS],
                              stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            found = re.match(r"listening on http://([^:]+):(\d+)", line)
            if found:
                break
        else:
            raise SystemExit("the server did not start")
        connection = http.client.HTTPConnection(found.group(1), int(found.group(2)), timeout=30)
        embed(connection, "first light")
        seconds = time.perf_counter() - start
        cpu, first = cpu_seconds(server.pid), memory(server.pid)
        for _ in range(more):
            embed(connection, "first light")
        return seconds, cpu, first, memory(server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)


rounds = [one_round(MORE if last else 0) for last in [False] * (ROUNDS - 1) + [True]]
times = [seconds for seconds, *_ in rounds]
cpu = min(seconds for _, seconds, *_ in rounds)
(resident, private), (later, later_private) = rounds[-1][2:]
print(f"{MODEL} {' '.join(FLAGS)}: first vector after {min(times) * 1000:.0f} ms (median "
      f"{statistics.median(times) * 1000:.0f} ms), CPU time {cpu * 1000:.0f} ms, binary "
      f"{os.path.getsize(PERGOLA) / 1e6:.1f} MB, resident {resident:.0f} MiB of which private {private:.0f} MiB, after "
      f"{MORE} more {later:.0f} and {later_private:.0f} MiB; load {os.getloadavg()[0]:.0f}")
checks = [min(times) <= LIMIT_S, later_private <= private + 4]
print(f"{sum(checks)} passed, {len(checks) - sum(checks)} failed")
sys.exit(not all(checks))
