#!/usr/bin/env python3
"""LoRA adapters beside their base in one process: a request chooses one by the model's name, and a gateway before
such servers does the same.

Usage: adapter_test.py PERGOLA TINY_MODELS
"""

import json
import pathlib
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fault"))
import tier  # noqa: E402

PERGOLA = MODELS = None


class AdapterTest(unittest.TestCase):
    def start(self, command, *flags):
        process = tier.Process(PERGOLA, command, *flags)
        self.addCleanup(lambda: process.process.poll() is None and process.kill())
        return process

    def ask(self, process, path, body=None):
        request = urllib.request.Request(process.url + path, body and json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=tier.WAIT) as answer:
            return json.load(answer)

    def row(self, process, model):
        answer = self.ask(process, "/v1/embeddings", {"model": model, "input": "Hello, world"})
        self.assertEqual(answer["model"], model)
        return answer["data"][0]["embedding"]

    def flags(self):
        base, adapter = MODELS / "qwen2", MODELS / "qwen2-lora"
        return ["--model", base, "--adapter", f"a={adapter}", "--adapter", f"qwen2:b={adapter}"]

    def test_a_request_chooses_by_name(self):
        served = self.start("serve", *self.flags())
        alone = self.start("serve", "--model", MODELS / "qwen2-lora")
        self.assertEqual([model["id"] for model in self.ask(served, "/v1/models")["data"]],
                         ["qwen2", "qwen2:a", "qwen2:b"])
        expected = self.row(alone, "qwen2-lora")
        self.assertEqual(self.row(served, "qwen2:a"), expected)
        self.assertEqual(self.row(served, "qwen2:b"), expected)
        self.assertNotEqual(self.row(served, "qwen2"), expected)
        with self.assertRaises(urllib.error.HTTPError) as unknown:
            self.row(served, "qwen2:c")
        self.assertEqual(unknown.exception.code, 404)

    def test_a_gateway_passes_the_name_on(self):
        server = self.start("server", *self.flags())
        gateway = self.start("gateway", *self.flags(), "--backend", f"127.0.0.1:{server.port}")
        tier.wait_until(lambda: self.ready(gateway), "the gateway")
        self.assertNotEqual(self.row(gateway, "qwen2:a"), self.row(gateway, "qwen2"))
        self.assertEqual(self.row(gateway, "qwen2:a"), self.row(gateway, "qwen2:b"))

    def ready(self, process):
        try:
            return self.ask(process, "/v1/models") is not None
        except urllib.error.HTTPError:
            return False

    def refused(self, *flags):
        result = subprocess.run([PERGOLA, "serve", "--port", "0", "--model", MODELS / "qwen2", *flags], text=True,
                                capture_output=True, timeout=tier.WAIT)
        self.assertIn(result.returncode, (1, 4), result.stderr)  # 4: not found
        return result.stderr

    def test_what_cannot_be_served_is_refused(self):
        adapter = MODELS / "qwen2-lora"
        self.assertIn("no --model is called 'other'", self.refused("--adapter", f"other:a={adapter}"))
        self.assertIn("of which model?", self.refused("--model", MODELS / "bert", "--adapter", f"a={adapter}"))
        self.assertIn("two models are called 'qwen2:a'",
                      self.refused("--adapter", f"a={adapter}", "--adapter", f"a={adapter}"))
        self.assertIn("is no folder with adapter_config.json", self.refused("--adapter", f"a={MODELS / 'bert'}"))


if __name__ == "__main__":
    PERGOLA, MODELS = sys.argv[1], pathlib.Path(sys.argv[2])
    del sys.argv[1:3]
    unittest.main()
