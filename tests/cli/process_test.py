#!/usr/bin/env python3
"""What only the program as a process shows: configuration, environment, signals, exit codes.

Usage: process_test.py PERGOLA MODEL_FOLDER [options]
"""

import http.server
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

PERGOLA = None
MODEL = None
EXIT_OK, EXIT_FAILURE, EXIT_USAGE, EXIT_UNAVAILABLE = 0, 1, 2, 4


class ProcessTest(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.folder = pathlib.Path(self.temp.name)
        self.env = {"PATH": os.environ["PATH"], "HOME": self.temp.name, "PERGOLA_OFFLINE": "1"}

    def run_it(self, *arguments, env=None, **options):
        options.setdefault("stdout", subprocess.PIPE)
        return subprocess.run([PERGOLA, *map(str, arguments)], env={**self.env, **(env or {})}, timeout=120,
                              stderr=subprocess.PIPE, text=True, **options)

    def serve(self, *arguments, env=None):
        """(process, address, all it said until it listened)"""
        process = subprocess.Popen([PERGOLA, "serve", *map(str, arguments)], env={**self.env, **(env or {})},
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        said = ""
        for line in process.stderr:
            said += line
            if line.startswith("listening on "):
                return process, line.split()[-1], said
        self.fail("not listening: " + said)

    def config(self, text):
        path = self.folder / "pergola.toml"
        path.write_text(text)
        return path

    def test_serve_reads_the_configuration_file(self):
        path = self.config(f'model = ["{MODEL}"]\nport = 0\nhost = ["127.0.0.1"]\nstrict-model = true  # yes\n')
        process, address, _ = self.serve("--config", path)
        with urllib.request.urlopen(address + "/v1/models") as answer:
            self.assertEqual(json.load(answer)["data"][0]["id"], pathlib.Path(MODEL).name)
        body = json.dumps({"model": "another", "input": "a"}).encode()
        request = urllib.request.Request(address + "/v1/embeddings", body, {"Content-Type": "application/json"})
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        refused.exception.close()
        self.assertEqual(refused.exception.code, 404)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), EXIT_OK)

    def test_flags_win_then_the_environment_then_the_file(self):
        path = self.config(f'model = "{MODEL}"\nport = 0\nmax-batch-inputs = 1\ncache-mib = 1\n')
        _, address, _ = self.serve("--config", path, "--max-batch-inputs", 3,
                                   env={"PERGOLA_MAX_BATCH_INPUTS": "2", "PERGOLA_MODEL": MODEL})
        with urllib.request.urlopen(address + "/info") as answer:
            self.assertEqual(json.load(answer)["max_client_batch_size"], 3)
        _, address, _ = self.serve("--config", path, env={"PERGOLA_MAX_BATCH_INPUTS": "2"})
        with urllib.request.urlopen(address + "/info") as answer:
            self.assertEqual(json.load(answer)["max_client_batch_size"], 2)

    def test_wrong_settings_are_refused_before_anything_is_loaded(self):
        self.assertEqual(self.run_it("serve", "--config", self.folder / "none.toml").returncode, EXIT_UNAVAILABLE)
        self.assertEqual(self.run_it("serve", "--config", self.config("pirt = 1\n")).returncode, EXIT_USAGE)
        for flags in (["--request-timeout", "nan"], ["--request-timeout", "0"], ["--drain-timeout", "1e300"],
                      ["--host", ""], ["--max-batch-inputs", "0"], ["--max-promised-mib", "99999999999999"],
                      ["--keepalive-max-requests", "-1"], ["--max-queued-tokens", "-1"],
                      ["--keep-alive", "soon"], ["--memory-budget", "-1"]):
            with self.subTest(flags=flags):
                self.assertEqual(self.run_it("serve", "--model", MODEL, "--port", 0, *flags).returncode, EXIT_USAGE)

    def test_serve_loads_on_demand_and_unloads_when_told_to(self):
        path = self.config(f'model = "{MODEL}"\nport = 0\nload-on-demand = true\nmemory-budget = 1000000000\n')
        process, address, _ = self.serve("--config", path, "--keep-alive", "-1")

        def running():
            with urllib.request.urlopen(address + "/api/ps") as answer:
                return json.load(answer)["models"]

        def embed(text, **fields):
            body = json.dumps({"input": text, **fields}).encode()
            request = urllib.request.Request(address + "/api/embed", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)

        self.assertEqual(running(), [])
        first = embed("a text")
        self.assertGreater(first["load_duration"], 0)
        self.assertEqual([model["expires_at"] for model in running()], ["9999-12-31T23:59:59Z"])
        self.assertEqual(embed("another", keep_alive=0)["load_duration"], 0)
        self.assertTrue(any(": unloaded" in line for line in process.stderr))
        self.assertEqual(running(), [])
        self.assertEqual(embed("a text")["embeddings"], first["embeddings"])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), EXIT_OK)

    def test_a_stop_is_told_at_once_to_who_waits_for_memory(self):
        for name in ("busy", "other"):
            shutil.copytree(MODEL, self.folder / name)
        budget = (pathlib.Path(MODEL) / "model.safetensors").stat().st_size * 9 // 4  # for one
        process, address, _ = self.serve("--model", self.folder / "busy", "--model", self.folder / "other", "--port", 0,
                                         "--load-on-demand", "--memory-budget", budget, "--cache-mib", 0,
                                         "--drain-timeout", 300, env={"PERGOLA_FORCE_ISA": "scalar"})  # at work for long
        answers = queue.Queue()

        def embed(model, count):
            texts = [f"{i} " + "many words of one text " * 60 for i in range(count)]
            body = json.dumps({"model": model, "input": texts}).encode()
            request = urllib.request.Request(address + "/api/embed", body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request) as answer:
                    answers.put((model, answer.status, len(json.load(answer)["embeddings"])))
            except urllib.error.HTTPError as error:
                with error:
                    answers.put((model, error.code, error.headers["Retry-After"]))
            except OSError as error:
                answers.put((model, 0, repr(error)))

        def await_metric(name, model, least):
            limit = time.monotonic() + 60
            while time.monotonic() < limit:
                with urllib.request.urlopen(address + "/metrics") as answer:
                    found = re.search(rf'(?m)^{name}{{model="{model}"}} (\S+)$', answer.read().decode())
                if float(found.group(1)) >= least:
                    return
                if not answers.empty():
                    break
                time.sleep(0.01)
            self.fail(f"{name} of {model} stays below {least}; answered: {list(answers.queue)}")

        def begin(*arguments):
            thread = threading.Thread(target=embed, args=arguments)
            thread.start()
            self.addCleanup(thread.join)

        embed("busy", 1)
        embed("other", 1)  # "busy" goes for it
        self.assertEqual([answers.get(timeout=60)[1] for _ in range(2)], [200, 200])
        begin("busy", 400)
        await_metric("pergola_queue_sequences", "busy", 1)
        begin("other", 1)
        await_metric("pergola_model_waiting", "other", 1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(answers.get(timeout=60), ("other", 503, "1"))
        self.assertEqual(answers.get(timeout=300), ("busy", 200, 400))
        self.assertEqual(process.wait(60), EXIT_OK)

    def test_a_budget_too_small_for_a_model_is_told_at_the_start(self):
        result = self.run_it("serve", "--model", MODEL, "--port", 0, "--memory-budget", 1000)
        self.assertEqual(result.returncode, EXIT_FAILURE)
        self.assertIn("more than the memory budget of 1000", result.stderr)

    def test_the_environment_of_serve_is_not_read_by_other_commands(self):
        self.assertEqual(self.run_it("version", env={"PERGOLA_PORT": "x"}).returncode, EXIT_OK)
        self.assertEqual(self.run_it("serve", env={"PERGOLA_PORT": "x"}).returncode, EXIT_USAGE)

    def test_a_stop_ends_a_fetch_at_once(self):
        asked = threading.Event()

        class Silent(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.set()
                done.wait()

        done = threading.Event()
        self.addCleanup(done.set)
        hub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)
        hub.daemon_threads = True
        self.addCleanup(hub.server_close)
        self.addCleanup(hub.shutdown)
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        env = {"PERGOLA_OFFLINE": "0", "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}"}
        process = subprocess.Popen([PERGOLA, "serve", "--model", "some/model"], env={**self.env, **env},
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(asked.wait(60))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(5), EXIT_OK)

    def test_output_that_cannot_be_written_is_no_success(self):
        for command in (["version"], ["--help"], ["models"], ["tokenize", "--model", MODEL, "a"], ["inspect", MODEL]):
            with self.subTest(command=command), open("/dev/full", "w") as full:
                result = self.run_it(*command, stdout=full)
                self.assertEqual(result.returncode, EXIT_FAILURE)
                self.assertIn("No space left on device", result.stderr)

    def test_a_reader_that_leaves_is_said_and_exit_code_4(self):
        texts = self.folder / "texts.txt"
        texts.write_text("a text\n" * 100000)  # more than a pipe holds
        process = subprocess.Popen([PERGOLA, "tokenize", "--model", MODEL, "--input", texts], env=self.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        self.assertIn(b"nobody reads stdout any more", process.stderr.read())
        process.stderr.close()
        self.assertEqual(process.wait(60), EXIT_UNAVAILABLE)

    def test_bulk_tokenize_keeps_the_order_on_any_number_of_threads(self):
        texts = self.folder / "texts.txt"
        lines = [f"text {i} " + "and more " * (i % 7) for i in range(5000)]
        texts.write_text("\n".join(lines) + "\n")
        one = self.run_it("tokenize", "--model", MODEL, "--input", texts, "--threads", "1").stdout
        self.assertEqual(len(one.splitlines()), len(lines))
        self.assertEqual(self.run_it("tokenize", "--model", MODEL, "--input", texts, "--threads", "4").stdout, one)
        few = self.run_it("tokenize", "--model", MODEL, *lines[1000:1003]).stdout
        self.assertEqual(one.splitlines()[1000:1003], few.splitlines())
        packed = self.folder / "ids.u32"
        result = self.run_it("tokenize", "--model", MODEL, "--input", texts, "--format", "u32", "-o", packed)
        self.assertEqual(result.returncode, EXIT_OK)
        values = memoryview(packed.read_bytes()).cast("I")
        at = 0
        for line in one.splitlines():
            ids = json.loads(line)["ids"]
            self.assertEqual(values[at], len(ids))
            self.assertEqual(list(values[at + 1:at + 1 + len(ids)]), ids)
            at += 1 + len(ids)
        self.assertEqual(at, len(values))

    def test_bulk_tokenize_stops_at_a_bad_line(self):
        texts = self.folder / "texts.jsonl"
        texts.write_text('{"text": "good"}\n' * 3000 + "{bad\n" + '{"text": "good"}\n' * 3000)
        output = self.folder / "ids.jsonl"
        result = self.run_it("tokenize", "--model", MODEL, "--input", texts, "-o", output)
        self.assertEqual(result.returncode, EXIT_FAILURE)
        self.assertIn("texts.jsonl:3001", result.stderr)
        self.assertFalse(output.exists())
        result = self.run_it("tokenize", "--model", MODEL, "--input", texts)
        self.assertEqual(len(result.stdout.splitlines()), 3000)
        self.assertEqual(self.run_it("tokenize", "--model", MODEL, "--format", "u32", "--offsets", "a").returncode,
                         EXIT_USAGE)

    def test_an_unknown_command_is_named(self):
        result = self.run_it("embedd")
        self.assertEqual(result.returncode, EXIT_USAGE)
        self.assertIn("unknown command 'embedd'", result.stderr)


if __name__ == "__main__":
    PERGOLA, MODEL = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    unittest.main()
