#!/usr/bin/env python3
"""What networks, disks and clocks may do to a serving tier: half-open connections, slow, garbled and reset ones, names
that change, a cable that is pulled, a full disk, a calendar that jumps, and a restart of everything in turn.

Usage: system_faults_test.py PERGOLA MODEL [--requests N] [unittest options]

Pulled cables, full disks and names need namespaces of the kernel, so root; without it these tests are skipped.
"""

import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import tier

PERGOLA = MODEL = None
EXPECTED = []
HERE = pathlib.Path(__file__).resolve().parent


def may(*command):
    """Whether the kernel lets us do that."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class Relay:
    """A stretch of network to one server. `mode` may change at any time:
    pass; hold (delivers nothing, closes nothing: half-open); slow (0.3 s late); garble; reset."""

    def __init__(self, port):
        self.target, self.mode = port, "pass"
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.pairs = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            for each in (near, far):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pairs.append((near, far))
            for source, sink, back in ((near, far, False), (far, near, True)):
                threading.Thread(target=self.carry, args=(source, sink, back), daemon=True).start()

    def carry(self, source, sink, back):
        try:
            while data := source.recv(65536):
                while self.mode == "hold":
                    time.sleep(0.02)
                if self.mode == "slow" and back:
                    time.sleep(0.3)
                if self.mode == "garble" and back:
                    data = bytes(byte ^ 0x5A for byte in data)
                if self.mode == "reset":
                    for each in (source, sink):  # no farewell: a reset
                        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                sink.sendall(data)
        except OSError:
            pass
        for each in (source, sink):
            each.close()

    def close(self):
        self.mode = "pass"
        self.listener.close()
        for pair in self.pairs:
            for each in pair:
                each.close()


class SystemFaultsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def process(self, command, *arguments, **options):
        started = tier.Process(PERGOLA, command, "--model", MODEL, *arguments, **options)
        self.addCleanup(lambda: started.process.poll() is None and started.kill())
        return started

    def gateway(self, backends, *arguments, **options):
        started = self.process("gateway", "--cache-mib", 0, *arguments, "--backend", ",".join(backends), **options)
        tier.wait_until(lambda: tier.status_of(started.url + "/readyz") == 200, "the gateway to be ready")
        return started

    def metric(self, process, name, **labels):
        with urllib.request.urlopen(process.url + "/metrics", timeout=tier.WAIT) as answer:
            text = answer.read().decode()
        wanted = "".join(f'(?=[^}}]*{key}="{re.escape(value)}")' for key, value in labels.items())
        found = re.search(rf"(?m)^{name}(?:{{{wanted}.*}})? (\S+)$", text)
        return float(found.group(1)) if found else None

    def check(self, load):
        load.join()
        self.assertEqual(load.errors, [])
        self.assertEqual(load.wrong, [])
        self.assertEqual(sorted(load.done), list(range(len(EXPECTED))))

    def through_relay(self, mode, *arguments, ejected=True):
        servers = [self.process("server") for _ in range(3)]
        relay = Relay(servers[0].port)
        self.addCleanup(relay.close)
        relayed = f"127.0.0.1:{relay.port}"
        gateway = self.gateway([relayed, *(f"127.0.0.1:{each.port}" for each in servers[1:])], *arguments)
        load = tier.Load(gateway.url, EXPECTED)
        load.await_share(0.2)
        relay.mode = mode
        load.await_share(0.6)
        if ejected:
            connection = tier.connect(gateway.url)

            def given_up():  # a replica is given up by what is asked of it: the load may have ended before
                self.assertEqual(tier.embed(connection, ["ask on"])[0], 200)
                return self.metric(gateway, "pergola_replica_ejections_total", replica=relayed) >= 1

            tier.wait_until(given_up, "the replica to be given up")
            connection.close()
        relay.mode = "pass"
        self.check(load)
        tier.wait_until(lambda: self.metric(gateway, "pergola_replica_healthy", replica=relayed) == 1, "its return")
        return gateway

    def test_a_connection_that_is_half_open(self):
        self.through_relay("hold")

    def test_answers_that_are_garbled(self):
        self.through_relay("garble")

    def test_connections_that_are_reset(self):
        self.through_relay("reset")

    def test_a_replica_that_answers_slowly_is_hedged(self):
        gateway = self.through_relay("slow", "--hedge-after-ms", 50, ejected=False)
        self.assertGreater(self.metric(gateway, "pergola_hedges_total"), 0)

    def test_a_cable_that_is_pulled(self):
        space = f"pgfault{os.getpid()}"
        if not may("ip", "netns", "add", space):
            self.skipTest("no network namespaces")
        self.addCleanup(lambda: may("ip", "netns", "del", space))
        near, far = f"pgn{os.getpid()}", f"pgf{os.getpid()}"
        subnet = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        for command in (f"ip link add {near} type veth peer name {far}", f"ip link set {far} netns {space}",
                        f"ip addr add {subnet}.1/24 dev {near}", f"ip link set {near} up",
                        f"ip netns exec {space} ip addr add {subnet}.2/24 dev {far}",
                        f"ip netns exec {space} ip link set {far} up"):
            if not may(*command.split()):
                self.skipTest(f"not permitted: {command}")
        away = self.process("server", "--host", f"{subnet}.2", wrapper=("ip", "netns", "exec", space))
        here = self.process("server")
        there = f"{subnet}.2:{away.port}"
        gateway = self.gateway([there, f"127.0.0.1:{here.port}"])
        load = tier.Load(gateway.url, EXPECTED)
        load.await_share(0.2)
        subprocess.run(["ip", "link", "set", near, "down"], check=True)
        connection = tier.connect(gateway.url)

        def lost():  # noticed by what is asked: the load may have ended before
            self.assertEqual(tier.embed(connection, ["ask on"])[0], 200)
            return self.metric(gateway, "pergola_replica_healthy", replica=there) == 0

        tier.wait_until(lost, "the loss")
        connection.close()
        subprocess.run(["ip", "link", "set", near, "up"], check=True)
        self.check(load)
        tier.wait_until(lambda: self.metric(gateway, "pergola_replica_healthy", replica=there) == 1, "its return")

    def test_a_name_whose_addresses_change(self):
        if not may("unshare", "-m", "true"):
            self.skipTest("no mount namespaces")
        hosts = self.folder / "hosts"

        def name(*addresses):
            with open(hosts, "r+" if hosts.exists() else "w", encoding="ascii") as file:
                file.write("127.0.0.1 localhost\n" + "".join(f"{each} tier.test\n" for each in addresses))
                file.truncate()

        name("127.0.0.2", "127.0.0.3")
        servers = [self.process("server", "--host", "127.0.0.2")]
        port = servers[0].port
        servers += [self.process("server", "--host", address, port=port) for address in ("127.0.0.3", "127.0.0.4")]
        gateway = self.gateway([f"dns:///tier.test:{port}"], "--dns-refresh", 0.05, wrapper=(
            "unshare", "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$0" "$@"'))
        load = tier.Load(gateway.url, EXPECTED)
        load.await_share(0.2)
        name("127.0.0.3", "127.0.0.4")
        tier.wait_until(lambda: self.metric(gateway, "pergola_replica_healthy", replica=f"127.0.0.4:{port}") == 1,
                        "the new address")
        servers[0].kill()  # whoever left the name is not missed
        load.await_share(0.6)
        name("127.0.0.4")
        self.check(load)
        connection = tier.connect(gateway.url)

        def asked_the_last():  # the load may have ended before
            self.assertEqual(tier.embed(connection, ["ask on"])[0], 200)
            return self.metric(gateway, "pergola_replica_requests_total", replica=f"127.0.0.4:{port}") > 0

        tier.wait_until(asked_the_last, "a request to the new address")
        connection.close()

    def test_a_disk_that_is_full(self):
        if not may("unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size=64k none {self.folder}"):
            self.skipTest("no mount namespaces")
        disk = ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=64k none {self.folder} && exec "$0" "$@"')
        flags = ("--cache-file", self.folder / "rows")
        serve = self.process("serve", *flags, wrapper=disk)
        server = self.process("server", "--cache-mib", 0)
        gateway = self.process("gateway", *flags, "--backend", f"127.0.0.1:{server.port}", wrapper=disk)
        tier.wait_until(lambda: gateway.says("keeps rows"), "the servers' identity")
        for process in (serve, gateway):
            with self.subTest(command=process.command[-1]):
                self.check(tier.Load(process.url, EXPECTED, clients=4))
                tier.wait_until(lambda p=process: self.metric(p, "pergola_cache_file_writable") == 0, "the full disk")
                self.assertEqual(process.said.count("cache file"), 1, process.said)
                self.check(tier.Load(process.url, EXPECTED, clients=4))
                self.assertEqual(process.stop(), 0)

    def test_a_calendar_that_jumps(self):
        if shutil.which("gcc") is None:
            self.skipTest("no compiler")
        shim = self.folder / "clock_jump.so"
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", shim, HERE / "clock_jump.c", "-ldl"], check=True)
        offset = self.folder / "offset"
        offset.write_text("0")
        wrapper = ("env", "ASAN_OPTIONS=verify_asan_link_order=0", f"LD_PRELOAD={shim}", f"CLOCK_OFFSET_FILE={offset}")
        servers = [self.process("server", wrapper=wrapper) for _ in range(2)]
        gateway = self.gateway([f"127.0.0.1:{each.port}" for each in servers], wrapper=wrapper)
        load = tier.Load(gateway.url, EXPECTED)
        for step, seconds in enumerate((86_400, -86_400, 10 * 365 * 86_400, -3600, 0)):
            load.await_share(0.1 + 0.15 * step)
            offset.write_text(str(seconds))
            with urllib.request.urlopen(gateway.url + "/healthz", timeout=tier.WAIT) as answer:
                date = answer.headers["Date"]
        self.check(load)
        self.assertIsNotNone(date)
        for each in servers:
            self.assertEqual(self.metric(gateway, "pergola_replica_ejections_total",
                                         replica=f"127.0.0.1:{each.port}"), 0)

    def test_a_rolling_restart_of_both_tiers(self):
        servers = [self.process("server") for _ in range(3)]
        backends = [f"127.0.0.1:{each.port}" for each in servers]
        gateways = [self.gateway(backends) for _ in range(2)]
        load = Rolling([each.url for each in gateways], EXPECTED)
        for number, server in enumerate(servers):
            load.await_share(0.1 + 0.15 * number)
            self.assertEqual(server.stop(), 0)
            server.start()
            for gateway in gateways:
                tier.wait_until(lambda g=gateway, s=server: self.metric(
                    g, "pergola_replica_healthy", replica=f"127.0.0.1:{s.port}") == 1, "its return")
        for number, gateway in enumerate(gateways):
            load.await_share(0.6 + 0.15 * number)
            self.assertEqual(gateway.stop(), 0)
            load.urls.remove(gateway.url)
            gateway.start()
            tier.wait_until(lambda g=gateway: tier.status_of(g.url + "/readyz") == 200, "readiness")
            load.urls.append(gateway.url)
        self.check(load)


class Rolling(tier.Load):
    """Clients behind a balancer of TCP: one that is refused by a gateway asks at another. No request is sent twice."""

    def __init__(self, urls, expected):
        self.urls = list(urls)  # of those that are ready, or were and drain
        super().__init__(urls[0], expected)

    def connect(self, number):
        urls = list(self.urls)
        for attempt in range(len(urls)):
            connection = tier.connect(urls[(number + attempt) % len(urls)])
            try:
                connection.connect()
                return connection
            except ConnectionRefusedError:
                continue
        raise OSError("no gateway listens")

    def run(self):
        while (number := next(self.next)) < len(self.expected):
            try:
                connection = self.connect(number)
                status, _, rows = tier.embed(connection, [tier.text_of(number)])
                connection.close()
            except OSError as problem:
                with self.lock:
                    self.errors.append((number, repr(problem)))
                continue
            self.settle(number, status, rows)


def begin(pergola, model, requests):
    global PERGOLA, MODEL, EXPECTED
    PERGOLA, MODEL = pergola, model
    EXPECTED = tier.expected_rows(PERGOLA, MODEL, requests)


if __name__ == "__main__":
    tier.run_suite(begin, "requests", 1500)
