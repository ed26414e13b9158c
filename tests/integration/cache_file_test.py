#!/usr/bin/env python3
"""`--cache-file` of `pergola serve` and `pergola gateway` as processes: rows outlive kill -9, with the same bits.

Usage: cache_file_test.py PERGOLA MODEL
"""

import pathlib
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fault"))
import tier  # noqa: E402

PERGOLA = MODEL = None
TEXTS = [tier.text_of(number) for number in range(50)]


class CacheFileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "results"

    def serve(self, *flags):
        process = tier.Process(PERGOLA, "serve", "--model", MODEL, "--host", "127.0.0.1",
                               "--cache-file", str(self.path), *flags)
        self.addCleanup(lambda: process.process.poll() is None and process.kill())
        return process

    def embed(self, process):
        status, _, rows = tier.embed(tier.connect(process.url), TEXTS)
        self.assertEqual(status, 200)
        return rows

    def metric(self, process, name):
        with urllib.request.urlopen(process.url + "/metrics", timeout=tier.WAIT) as answer:
            line, = (line for line in answer.read().decode().splitlines() if line.startswith(name + "{"))
        return float(line.split()[-1])

    def test_rows_outlive_a_kill(self):
        first = self.serve()
        rows = self.embed(first)
        tier.wait_until(lambda: self.metric(first, "pergola_cache_file_written_total") >= len(TEXTS), "writes")
        first.kill()
        with open(self.path, "ab") as file:
            file.write(b"torn")
        second = self.serve()
        self.assertIn("are cut off", second.said)
        self.assertEqual(self.embed(second), rows)
        self.assertEqual(self.metric(second, "pergola_cache_hits_total"), len(TEXTS))

    def test_rows_of_a_gateway_outlive_a_kill(self):
        def start(kind, *flags):
            process = tier.Process(PERGOLA, kind, "--model", MODEL, *flags)
            self.addCleanup(lambda: process.process.poll() is None and process.kill())
            return process

        def gateway(server):
            process = start("gateway", "--backend", f"127.0.0.1:{server.port}", "--cache-file", self.path)
            tier.wait_until(lambda: process.says("keeps rows"), "the server's identity")
            return process

        server = start("server")
        first = gateway(server)
        rows = self.embed(first)
        tier.wait_until(lambda: self.metric(first, "pergola_cache_file_written_total") >= len(TEXTS), "writes")
        first.kill()
        second = gateway(server)
        self.assertEqual(self.metric(second, "pergola_cache_file_loaded_total"), len(TEXTS))
        self.assertEqual(self.embed(second), rows)
        self.assertEqual(self.metric(second, "pergola_cache_hits_total"), len(TEXTS))
        second.kill()
        # Servers that compute otherwise.
        third = gateway(start("server", "--weights", "int8"))
        self.assertIn("begun anew", third.said)
        self.assertEqual(self.metric(third, "pergola_cache_file_loaded_total"), 0)

    def test_another_numeric_class_begins_anew(self):
        first = self.serve()
        self.embed(first)
        self.assertEqual(first.stop(), 0)
        second = self.serve("--weights", "int8")
        self.assertIn("begun anew", second.said)
        self.assertEqual(self.metric(second, "pergola_cache_file_loaded_total"), 0)


if __name__ == "__main__":
    PERGOLA, MODEL = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
