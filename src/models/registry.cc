#include "models/registry.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "models/bert.h"
#include "models/bert_config.h"
#include "models/decoder.h"
#include "models/decoder_config.h"
#include "models/embedding_gemma2.h"
#include "models/modernbert.h"

namespace pergola::models {
namespace {

// GGUF names stand at the first of the architectures that llama.cpp writes under it.
constexpr std::array kArchitectures = {
    Architecture{"bert", "bert", ReadBertConfig, ReadBertGguf, BertEncoder::Load},
    Architecture{"roberta", "", ReadBertConfig, nullptr, BertEncoder::Load},
    Architecture{"xlm-roberta", "", ReadBertConfig, nullptr, BertEncoder::Load},
    Architecture{"camembert", "", ReadBertConfig, nullptr, BertEncoder::Load},
    Architecture{"electra", "", ReadBertConfig, nullptr, BertEncoder::Load},
    Architecture{"distilbert", "", ReadBertConfig, nullptr, BertEncoder::Load},
    Architecture{"mpnet", "", ReadBertConfig, nullptr, BertEncoder::Load},
    Architecture{"deberta-v2", "", ReadDebertaConfig, nullptr, BertEncoder::Load},
    Architecture{"jina_bert", "jina-bert-v2", ReadBertConfig, ReadJinaBertGguf, BertEncoder::Load},
    Architecture{"nomic_bert", "nomic-bert", ReadNomicBertConfig, ReadNomicBertGguf,
                 BertEncoder::Load},
    Architecture{"new", "", ReadGteConfig, nullptr, BertEncoder::Load},
    Architecture{"gte", "", ReadGteConfig, nullptr, BertEncoder::Load},
    Architecture{"modernbert", "modern-bert", ReadModernBertConfig, ReadModernBertGguf,
                 ModernBertEncoder::Load},
    Architecture{"gemma3_text", "gemma-embedding", ReadGemma3Config, ReadGemmaEmbeddingGguf,
                 DecoderEncoder::Load},
    Architecture{"embedding_gemma2", "", ReadEmbeddingGemma2Config, nullptr,
                 EmbeddingGemma2Encoder::Load},
    Architecture{"embedding_gemma2_text", "", ReadEmbeddingGemma2Config, nullptr,
                 EmbeddingGemma2Encoder::Load},
    Architecture{"gemma3_text", "gemma3", ReadGemma3Config, ReadGemma3Gguf, DecoderEncoder::Load},
    Architecture{"qwen2", "qwen2", ReadQwenConfig, ReadQwen2Gguf, DecoderEncoder::Load},
    Architecture{"qwen3", "qwen3", ReadQwenConfig, ReadQwen3Gguf, DecoderEncoder::Load},
    Architecture{"bidirectional_pplx_qwen3", "", ReadQwenConfig, nullptr, DecoderEncoder::Load},
    Architecture{"llama", "llama", ReadLlamaConfig, ReadLlamaGguf, DecoderEncoder::Load},
    Architecture{"llama", "llama-embed", ReadLlamaConfig, ReadLlamaEmbedGguf, DecoderEncoder::Load},
    Architecture{"eurobert", "eurobert", ReadLlamaConfig, ReadEuroBertGguf, DecoderEncoder::Load},
    Architecture{"mistral", "", ReadLlamaConfig, nullptr, DecoderEncoder::Load},
};

// Levenshtein's distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t col = 0; col < b.size(); ++col) {
      const size_t replaced = diagonal + (a[i] == b[col] ? 0 : 1);
      diagonal = row[col + 1];
      row[col + 1] = std::min({replaced, row[col] + 1, row[col + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::span<const Architecture> ListArchitectures() { return kArchitectures; }

std::string DescribeUnknownArchitecture(std::string_view what, std::string_view found,
                                        std::span<const std::string_view> names) {
  const auto nearest =
      std::min_element(names.begin(), names.end(), [&](std::string_view a, std::string_view b) {
        return EditDistance(found, a) < EditDistance(found, b);
      });
  std::string text = std::string(what) + " '" + std::string(found) +
                     "' is not supported: no forward pass for it; nearest supported: '" +
                     std::string(*nearest) + "' (all:";
  for (const std::string_view name : names) text += " " + std::string(name);
  return text + ")";
}

Result<std::unique_ptr<Encoder>> LoadEncoder(const ModelConfig& config,
                                             const formats::TensorSource& source, kernels::Ops& ops,
                                             kernels::LinearOptions options) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type == config.architecture) {
      return architecture.load(config, source, ops, options);
    }
  }
  return UnimplementedError("architecture '" + config.architecture + "' is not supported");
}

}  // namespace pergola::models
