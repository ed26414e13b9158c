#!/usr/bin/env python3
"""Makes bert/long.json: embeddings of texts longer than the model by parts, as docs/http.md states it. The
reference library tokenises the whole text without special tokens; 62 tokens at a time, each part within [CLS]
and [SEP] of its own, go through transformers' BertModel and mean pooling; numpy brings each to unit length,
averages with the parts' numbers of tokens as weights, and brings the mean to unit length. Needs torch,
transformers, tokenizers, numpy; versions stand in the file.
"""
import json
import pathlib

import numpy
import tokenizers
import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parent / "bert"
SENTENCE = "The third lamp watches the marsh until regulations demand salt, although nobody asked. "
TEXTS = ["A short text.", SENTENCE * 3, SENTENCE * 9 + "中文 Ünïcödé", "patience " * 300]


@torch.no_grad()
def main():
    limit = json.loads((FOLDER / "sentence_bert_config.json").read_text())["max_seq_length"]
    encoder = tokenizers.Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    network = transformers.BertModel.from_pretrained(FOLDER, add_pooling_layer=False).eval()
    cls, sep = encoder.token_to_id("[CLS]"), encoder.token_to_id("[SEP]")
    rows, parts = [], []
    for text in TEXTS:
        ids = encoder.encode(text, add_special_tokens=False).ids
        pieces = [ids[at:at + limit - 2] for at in range(0, len(ids), limit - 2)]
        vectors = []
        for piece in pieces:
            hidden = network(input_ids=torch.tensor([[cls, *piece, sep]])).last_hidden_state[0]
            vector = hidden.mean(0).numpy().astype(numpy.float64)
            vectors.append(vector / numpy.linalg.norm(vector))
        parts.append([len(piece) for piece in pieces])
        mean = numpy.average(vectors, axis=0, weights=parts[-1])
        rows.append((mean / numpy.linalg.norm(mean)).tolist())
    (FOLDER / "long.json").write_text(json.dumps({
        "script": "make_long_goldens.py", "torch": torch.__version__,
        "transformers": transformers.__version__, "tokenizers": tokenizers.__version__,
        "numpy": numpy.__version__, "texts": TEXTS, "parts": parts,
        "vectors": [[round(value, 9) for value in row] for row in rows]}, ensure_ascii=False))


main()
