// Configurations of the BERT family, which bert.h runs.
#pragma once

#include "models/config_reader.h"

namespace pergola::models {

// From a config.json of `model_type` bert, roberta, xlm-roberta, camembert, electra, distilbert
// or mpnet.
Result<ModelConfig> ReadBertConfig(const JsonObject& json);
// deberta-v2, as v3 calls itself too.
Result<ModelConfig> ReadDebertaConfig(const JsonObject& json);
// nomic_bert, in the original spelling (n_embd) and in that of transformers 5.
Result<ModelConfig> ReadNomicBertConfig(const JsonObject& json);
// `new`, as GTE v1.5 models call themselves, and `gte`.
Result<ModelConfig> ReadGteConfig(const JsonObject& json);
// llama.cpp's `bert` (RoBERTa and its kin too, which its converter makes alike), `nomic-bert` and
// `jina-bert-v2` (UNIMPLEMENTED with norms of queries and keys, or a gate apart from `ffn_up`).
Result<ModelConfig> ReadBertGguf(const GgufKeys& keys);
Result<ModelConfig> ReadNomicBertGguf(const GgufKeys& keys);
Result<ModelConfig> ReadJinaBertGguf(const GgufKeys& keys);

}  // namespace pergola::models
