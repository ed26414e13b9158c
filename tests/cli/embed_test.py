#!/usr/bin/env python3
"""`pergola embed` as a process, on a tiny model. Usage: embed_test.py PERGOLA MODEL_FOLDER [options]"""

import array
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PERGOLA = None
MODEL = None
EXIT_FAILURE, EXIT_USAGE, EXIT_BAD_INPUT, EXIT_UNAVAILABLE = 1, 2, 3, 4


class EmbedTest(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.folder = pathlib.Path(self.temp.name)
        self.env = {"PATH": os.environ["PATH"], "HOME": self.temp.name, "PERGOLA_OFFLINE": "1"}

    def start(self, *arguments, stdin=subprocess.DEVNULL):
        return subprocess.Popen([PERGOLA, "embed", "--model", MODEL, *map(str, arguments)],
                                stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.env)

    def embed(self, *arguments, stdin=None, expect=0):
        process = self.start(*arguments, stdin=subprocess.PIPE)
        out, err = process.communicate(stdin if stdin is not None else b"", timeout=120)
        self.assertEqual(process.returncode, expect, err)
        return out, err.decode()

    def rows(self, out):
        rows = [json.loads(line) for line in out.splitlines()]
        return {row["index"]: row["embedding"] for row in rows}

    def write(self, name, content):
        path = self.folder / name
        path.write_text(content)
        return path

    def lines(self, count):
        return "".join(f"text number {i} of {count}\n" for i in range(count))

    def test_texts_lines_and_json_lines_give_the_same_rows(self):
        texts = ["a cat", "", "two\tdogs"]
        expected, err = self.embed("--", *texts)
        self.assertEqual(err, "", "silent in a pipe")
        self.assertEqual(sorted(self.rows(expected)), [0, 1, 2])
        lines = "".join(text + "\n" for text in texts).encode()
        self.assertEqual(self.embed(stdin=lines)[0], expected)
        self.assertEqual(self.embed("--input", self.write("a.txt", lines.decode()))[0], expected)
        records = "".join(json.dumps({"body": text}) + "\n" for text in texts)
        self.assertEqual(self.embed("--field", "body", stdin=records.encode())[0], expected)

    def test_formats_hold_the_same_values(self):
        source = self.write("in.txt", self.lines(50))
        rows = self.rows(self.embed("-i", source)[0])
        flat = array.array("f", [value for i in range(50) for value in rows[i]]).tobytes()
        width = len(rows[0])
        raw = self.folder / "rows.f32"
        self.embed("-i", source, "--format", "f32", "-o", raw)
        self.assertEqual(raw.read_bytes(), flat)
        self.assertEqual(self.embed("-i", source, "--format", "f32")[0], flat)
        npy = self.folder / "rows.npy"
        self.embed("-i", source, "--format", "npy", "-o", npy)
        content = npy.read_bytes()
        self.assertEqual(content[128:], flat)
        self.assertIn(f"'shape': (50, {width})".encode(), content[:128])
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()),
                         ["in.txt", "rows.f32", "rows.npy"], "nothing else is left")

    def test_npy_needs_a_file(self):
        _, err = self.embed("--format", "npy", "text", expect=EXIT_FAILURE)
        self.assertIn("--output FILE", err)

    def test_dimensions_and_normalisation(self):
        full = self.rows(self.embed("text")[0])[0]
        short = self.rows(self.embed("--dimensions", "8", "--normalize", "text")[0])[0]
        self.assertEqual(len(short), 8)
        self.assertAlmostEqual(sum(value * value for value in short), 1, places=5)
        norm = sum(value * value for value in full[:8]) ** 0.5
        for a, b in zip(full, short):
            self.assertAlmostEqual(a / norm, b, places=5)
        _, err = self.embed("--dimensions", str(len(full) + 1), "text", expect=EXIT_FAILURE)
        self.assertIn(f"1 to {len(full)}", err)

    def test_prompt_is_put_before_the_text(self):
        self.assertEqual(self.embed("--prompt", "query: ", "cats")[0],
                         self.embed("query: cats")[0])
        _, err = self.embed("--prompt-name", "no-such-prompt", "cats", expect=EXIT_FAILURE)
        self.assertIn("no prompt 'no-such-prompt'", err)

    def test_too_long_text_is_cut_or_bad(self):
        text = b"word " * 20000 + b"\nshort\n"
        out, err = self.embed(stdin=text)
        self.assertEqual(len(self.rows(out)), 2)
        self.assertIn("1 texts were longer", err)
        _, err = self.embed("--no-truncate", stdin=text, expect=EXIT_FAILURE)
        self.assertIn("stdin:1: input has at least", err)

    def test_bad_lines_are_skipped_or_fatal(self):
        text = b"good\n\xff\xfe\ngood too\n"
        out, err = self.embed("--on-error", "skip", stdin=text, expect=EXIT_BAD_INPUT)
        self.assertEqual(sorted(self.rows(out)), [0, 2])
        self.assertIn("stdin:2: the line is not UTF-8; skipped", err)
        out, err = self.embed(stdin=text, expect=EXIT_FAILURE)
        self.assertEqual(sorted(self.rows(out)), [0])
        self.assertIn("pergola: stdin:2: the line is not UTF-8", err)

    def test_killed_run_is_resumed_without_a_lost_or_doubled_row(self):
        source = self.write("in.txt", self.lines(3000))
        for fmt in ("jsonl", "npy", "f32"):
            whole = self.folder / f"whole.{fmt}"
            self.embed("-i", source, "--format", fmt, "-o", whole)
            rows = self.folder / f"rows.{fmt}"
            arguments = ("-i", "-", "--format", fmt, "-o", rows)
            process = self.start(*arguments, stdin=subprocess.PIPE)
            # Two thirds of the input, so that it cannot end before it is killed.
            process.stdin.write(source.read_bytes()[: source.stat().st_size * 2 // 3])
            process.stdin.flush()
            deadline = time.monotonic() + 60
            while not rows.exists() or rows.stat().st_size < whole.stat().st_size // 4:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            self.assertNotEqual(rows.read_bytes(), whole.read_bytes())
            self.embed(*arguments, "--resume", stdin=source.read_bytes())
            self.assertEqual(rows.read_bytes(), whole.read_bytes(), fmt)
            self.assertFalse(pathlib.Path(f"{rows}.resume").exists())

    def test_reader_that_goes_away_ends_the_run(self):
        process = self.start("-i", self.write("in.txt", self.lines(20000)))
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read().decode()
        self.assertEqual(process.wait(timeout=120), EXIT_UNAVAILABLE, err)
        self.assertIn("nobody reads stdout any more", err)
        process.stderr.close()

    def test_usage_errors(self):
        self.embed("--resume", "text", expect=EXIT_USAGE)
        self.embed("text", "-i", "x", expect=EXIT_USAGE)
        self.embed("--format", "xml", "text", expect=EXIT_USAGE)
        self.embed("--dimensions", "0", "text", expect=EXIT_USAGE)
        path = self.write("same", "x\n")
        self.embed("-i", path, "-o", path, expect=EXIT_USAGE)
        self.assertEqual(path.read_text(), "x\n")

    def test_missing_things(self):
        _, err = self.embed("-i", "/nonexistent.txt", expect=EXIT_UNAVAILABLE)
        self.assertIn("/nonexistent.txt", err)
        process = subprocess.run([PERGOLA, "embed", "-m", "org/unheard-of", "x"], env=self.env,
                                 capture_output=True, text=True)
        self.assertEqual(process.returncode, EXIT_UNAVAILABLE)
        self.assertIn("pergola pull org/unheard-of", process.stderr)


if __name__ == "__main__":
    PERGOLA, MODEL = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    unittest.main()
