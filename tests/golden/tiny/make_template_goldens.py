#!/usr/bin/env python3
"""Logits of qwen3-reranker for pairs in Qwen3-Reranker's chat format, by transformers: templated.json.

The format is the one that the model's card gives: prefix, "<Instruct>: ...", "<Query>: ...",
"<Document>: ...", suffix; the logit is that of "as" less that of "no" at the last token (the tiny
vocabulary has no "yes"). Needs torch, transformers, tokenizers.
"""
import json
import pathlib

import tokenizers
import torch
import transformers as tf

HERE = pathlib.Path(__file__).parent / "qwen3-reranker"
PREFIX = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the '
          'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


@torch.no_grad()
def main():
    encoder = tokenizers.Tokenizer.from_file(str(HERE / "tokenizer.json"))
    network = tf.Qwen3ForCausalLM.from_pretrained(HERE).eval()
    limit = network.config.max_position_embeddings
    plain = lambda text: encoder.encode(text, add_special_tokens=False).ids
    prefix, suffix = plain(PREFIX), plain(SUFFIX)
    pairs = json.loads((HERE / "golden.json").read_text())["pairs"]
    # One that has to be cut: the body is, on the right.
    pairs = pairs[:8] + [{"query": pairs[0]["query"], "passage": " ".join(pair["passage"] for pair in pairs)}]
    rows = []
    for pair in pairs:
        body = plain(f"<Instruct>: {INSTRUCTION}\n<Query>: {pair['query']}\n<Document>: {pair['passage']}")
        cut = body[:limit - len(prefix) - len(suffix)]
        logits = network(input_ids=torch.tensor([prefix + cut + suffix])).logits[0, -1]
        logit = logits[encoder.token_to_id("as")] - logits[encoder.token_to_id("no")]
        rows.append(pair | {"logit": float(logit), "cut": len(cut) < len(body)})
    assert rows[-1]["cut"] and not rows[0]["cut"]
    (HERE / "templated.json").write_text(json.dumps(
        {"script": "make_template_goldens.py", "torch": torch.__version__, "transformers": tf.__version__,
         "pairs": rows}, ensure_ascii=False, indent=1) + "\n")


main()
