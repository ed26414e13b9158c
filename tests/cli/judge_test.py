#!/usr/bin/env python3
"""`pergola compare`, `eval` and `quantize` as processes, on tiny models. Usage: judge_test.py PERGOLA TINY_FOLDER"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PERGOLA = None
TINY = None
WORDS = ["cat", "dog", "rain", "vine", "stone", "river", "lamp", "glass", "paper", "salt"]


class JudgeTest(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.folder = pathlib.Path(self.temp.name)
        self.env = {"PATH": os.environ["PATH"], "HOME": self.temp.name, "PERGOLA_OFFLINE": "1"}
        self.texts = [f"{a} and {b}" for a in WORDS for b in WORDS if a < b]

    def run_pergola(self, *arguments, expect=0):
        done = subprocess.run([PERGOLA, *map(str, arguments)], capture_output=True, text=True,
                              env=self.env, timeout=120)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stdout, done.stderr

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def test_weights_of_one_model_are_compared(self):
        texts = self.write("texts.txt", "\n".join(self.texts) + "\n")
        out, _ = self.run_pergola("compare", TINY / "bert", TINY / "bert", "--texts", texts, "--json",
                                  "--weights-a", "f32", "--weights-b", "int4")
        coarse = json.loads(out)
        self.assertLess(coarse["cosine_min"], 0.99999)
        self.assertGreater(coarse["cosine_min"], 0.5)
        self.run_pergola("compare", TINY / "bert", TINY / "bert", "--texts", texts, "--weights-b", "int3",
                         expect=2)

    def test_a_model_agrees_with_itself(self):
        texts = self.write("texts.txt", "\n".join(self.texts) + "\n")
        out, _ = self.run_pergola("compare", TINY / "bert", TINY / "bert", "--texts", texts, "--json",
                                  "--min-cosine", "0.999999")
        answer = json.loads(out)
        self.assertEqual(answer["texts"], len(self.texts))
        self.assertAlmostEqual(answer["cosine_min"], 1, places=6)
        self.assertEqual(answer["neighbour_agreement"], 1)

    def test_other_models_are_far(self):
        texts = self.write("texts.txt", "\n".join(self.texts) + "\n")
        out, _ = self.run_pergola("compare", TINY / "bert", TINY / "distilbert", "--texts", texts, "--json")
        far = json.loads(out)
        self.assertLess(far["neighbour_agreement"], 0.9)
        self.assertLess(far["cosine_min"], 0.9)
        _, err = self.run_pergola("compare", TINY / "bert", TINY / "distilbert", "--texts", texts,
                                  "--min-cosine", "0.99", expect=1)
        self.assertIn("wanted at least 0.99", err)

    def test_quantize_measures_and_chooses(self):
        texts = self.write("texts.txt", "\n".join(self.texts) + "\n")
        source, output, report = TINY / "bert" / "model.gguf", self.folder / "q.gguf", self.folder / "r.json"
        out, _ = self.run_pergola("quantize", source, "--type", "q4_0", "-o", output, "--calibration", texts,
                                  "--report", report)
        self.assertIn("held out", out)
        plain = json.loads(report.read_text())
        self.assertLess(plain["bytes_after"], plain["bytes_before"])
        self.assertEqual(plain["texts"], len(self.texts) // 2)
        types = {each["name"]: each["after"] for each in plain["tensors"]}
        self.assertEqual(types["token_embd.weight"], "Q8_0")
        self.assertEqual(types["blk.0.attn_q.weight"], "Q4_0")
        self.assertEqual(types["blk.0.attn_q.bias"], "F32")
        self.assertLess(plain["cosine_min"], 0.9999)
        # Nearer than 4 bits give, and than 8 bits of the whole model do.
        first = output.read_bytes()
        self.run_pergola("quantize", source, "--type", "q4_0", "-o", output, "--calibration", texts,
                         "--min-cosine", "0.9999", "--report", report)
        chosen = json.loads(report.read_text())
        self.assertGreater(chosen["cosine_min"], plain["cosine_min"])
        self.assertGreater(chosen["bytes_after"], plain["bytes_after"])
        self.assertNotEqual(output.read_bytes(), first)
        again = self.folder / "again.gguf"
        self.run_pergola("quantize", source, "--type", "q4_0", "-o", again, "--calibration", texts,
                         "--min-cosine", "0.9999")
        self.assertEqual(again.read_bytes(), output.read_bytes())
        self.assertEqual({path.name for path in self.folder.iterdir()},
                         {"texts.txt", "q.gguf", "r.json", "again.gguf"})

    def test_quantize_makes_a_gguf_file_of_a_folder(self):
        texts = self.write("texts.txt", "\n".join(self.texts) + "\n")
        made, converted = self.folder / "made.gguf", TINY / "bert" / "model.gguf"
        self.run_pergola("quantize", TINY / "bert", "--type", "as-is", "-o", made)
        vectors = {}
        for model in (TINY / "bert", made):
            rows = self.folder / "rows.f32"
            self.run_pergola("embed", "--model", model, "--input", texts, "--format", "f32", "--output", rows)
            vectors[model] = rows.read_bytes()
            rows.unlink()
        self.assertEqual(vectors[TINY / "bert"], vectors[made])
        # From the folder or from llama.cpp's file of it: the same 8 bits.
        sizes = {}
        for source in (TINY / "bert", converted):
            report = self.folder / "r.json"
            out, _ = self.run_pergola("quantize", source, "--type", "int8", "-o", self.folder / "q.gguf",
                                      "--calibration", texts, "--report", report)
            self.assertIn("nearest texts are the same", out)
            figures = json.loads(report.read_text())
            self.assertGreater(figures["cosine_min"], 0.99)
            sizes[source] = figures["bytes_after"]
        self.assertEqual(sizes[TINY / "bert"], sizes[converted])

    def test_quantize_refuses(self):
        out = self.folder / "q.gguf"
        _, err = self.run_pergola("quantize", TINY / "deberta", "--type", "q8_0", "-o", out, expect=1)
        self.assertIn("'deberta-v2'", err)
        self.run_pergola("quantize", TINY / "bert" / "model.gguf", "--type", "q5_0", "-o", out, expect=2)
        self.run_pergola("quantize", TINY / "bert" / "model.gguf", "--type", "q8_0", "-o", out,
                         "--min-cosine", "0.9", expect=2)
        _, err = self.run_pergola("quantize", TINY / "bert" / "model.gguf", "--type", "q8_0", "-o",
                                  TINY / "bert" / "model.gguf", expect=1)
        self.assertIn("is the model itself", err)
        texts = self.write("texts.txt", "\n".join(self.texts) + "\n")
        _, err = self.run_pergola("quantize", TINY / "bert" / "model.gguf", "--type", "q8_0", "-o", out,
                                  "--calibration", texts, "--min-cosine", "1", expect=1)
        self.assertIn("at best, wanted at least 1", err)
        out, _ = self.run_pergola("quantize", TINY / "bert" / "model.gguf", "--type", "int8", "--dry-run")
        self.assertIn("Q8_0", out)
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"texts.txt"})

    def test_too_few_texts(self):
        texts = self.write("texts.txt", "one\n")
        _, err = self.run_pergola("compare", TINY / "bert", TINY / "bert", "--texts", texts, expect=1)
        self.assertIn("fewer than two texts", err)

    def test_a_text_is_found_by_itself(self):
        """Each query is a document's own text, so the first place is always right."""
        self.write("set/corpus.jsonl", "".join(
            json.dumps({"_id": f"d{i}", "title": "", "text": text}) + "\n" for i, text in enumerate(self.texts)))
        self.write("set/queries.jsonl", "".join(
            json.dumps({"_id": f"q{i}", "text": self.texts[i]}) + "\n" for i in range(10)))
        self.write("set/qrels/test.tsv", "query-id\tcorpus-id\tscore\n" + "".join(
            f"q{i}\td{i}\t1\n" for i in range(10)))
        out, _ = self.run_pergola("eval", "retrieval", self.folder / "set", "-m", TINY / "bert", "--json")
        rows = {row["vectors"]: row for row in map(json.loads, out.splitlines())}
        self.assertEqual(rows["float"]["queries"], 10)
        for measure in ("ndcg_at_10", "recall_at_100", "mrr_at_10"):
            self.assertEqual(rows["float"][measure], 1)
        self.assertGreater(rows["int8"]["ndcg_at_10"], 0.9)
        table, _ = self.run_pergola("eval", "retrieval", self.folder / "set", "-m", TINY / "bert")
        self.assertIn("nDCG@10", table)

    def test_similarity_follows_the_grades(self):
        pairs = [("cat and dog", "cat and dog", 5), ("cat and dog", "cat and rain", 3),
                 ("cat and dog", "a theory of everything else", 0)]
        path = self.write("pairs.tsv", "".join(f"{a}\t{b}\t{grade}\n" for a, b, grade in pairs))
        out, _ = self.run_pergola("eval", "sts", path, "-m", TINY / "bert", "--json")
        self.assertEqual(json.loads(out)["pairs"], 3)
        self.assertGreater(json.loads(out)["spearman"], 0.4)
        self.run_pergola("eval", "sts", path, "-m", TINY / "qwen3-reranker", "--json")
        _, err = self.run_pergola("eval", "sts", self.folder / "none", "-m", TINY / "bert", expect=4)
        self.assertIn("none", err)


if __name__ == "__main__":
    PERGOLA, TINY = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
    unittest.main()
