#!/usr/bin/env python3
"""Makes qwen3-contextual: a tiny random Qwen 3 without causal mask that embeds the chunks of a document
in the light of each other, as pplx-embed-context does: chunks joined by <|endoftext|>, one pass, the
mean over each chunk's own tokens, no unit length. golden.json holds documents and ids, golden.f32 a row
per chunk, in order. Needs torch, transformers, tokenizers, safetensors; seed and versions in manifest.json.
"""
import hashlib
import json
import shutil

import tokenizers
import torch
import transformers as tf
from make_tiny_goldens import DECODER, HERE, randomise, small, write_floats

SEED = 2011
DOCUMENTS = [
    ["The tide turns at noon.", "Before that it is too shallow.", "Boats wait."],
    ["A single chunk stands alone."],
    ["naive café résumé", "国際会議 12:30", "a", "SELECT * FROM t WHERE id = 7;"],
]


@torch.no_grad()
def main():
    directory = HERE / "qwen3-contextual"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    shutil.copy(HERE / "qwen3-bidir" / "tokenizer.json", directory)
    encoder = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    separator = encoder.token_to_id("<|endoftext|>")
    torch.manual_seed(SEED)
    network = tf.Qwen3Model(tf.Qwen3Config(
        vocab_size=encoder.get_vocab_size(), tie_word_embeddings=True, is_causal=False,
        pad_token_id=None, bos_token_id=separator, eos_token_id=separator, **DECODER, **small())).eval()
    randomise(network, SEED)
    network.save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text())
    config |= {"architectures": ["PPLXQwen3ContextualModel"], "model_type": "bidirectional_pplx_qwen3"}
    (directory / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True))
    rows, all_ids = [], []
    for chunks in DOCUMENTS:
        ids, spans = [], []
        for chunk in chunks:
            ids += [separator] if ids else []
            begin = len(ids)
            ids += encoder.encode(chunk, add_special_tokens=False).ids
            spans.append((begin, len(ids)))
        everything = torch.zeros(1, 1, len(ids), len(ids))  # added to the scores: nothing is hidden
        hidden = network(input_ids=torch.tensor([ids]), attention_mask=everything).last_hidden_state[0]
        rows += [hidden[begin:end].mean(0).numpy() for begin, end in spans]
        all_ids.append(ids)
    write_floats(directory / "golden.f32", rows)
    (directory / "golden.json").write_text(json.dumps(
        {"documents": DOCUMENTS, "ids": all_ids, "shape": [len(rows), len(rows[0])]}, ensure_ascii=False))
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    (directory / "manifest.json").write_text(json.dumps({
        "script": "make_contextual_goldens.py", "class": "Qwen3Model", "seed": SEED,
        "torch": torch.__version__, "transformers": tf.__version__, "tokenizers": tokenizers.__version__,
        "bound": "cosine 0.99999",
        "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}}, indent=1))


main()
