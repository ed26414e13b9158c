// Loading and encoding. BM_<what>/<model>; with PERGOLA_REAL_MODELS (a folder of models, of which
// those named below are taken) the real vocabularies are measured too. PERGOLA_BENCH_TEXTS, a JSON
// array of strings, takes the place of the golden texts.
#include <benchmark/benchmark.h>
#include <simdjson.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/check.h"
#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {
namespace {

struct Model {
  std::string name;
  std::string path;
};

std::vector<Model> Models() {
  const std::string golden = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/";
  std::vector<Model> models = {{"tiny-bert", golden + "bert/tokenizer.json"},
                               {"tiny-gemma3", golden + "gemma3-embed/tokenizer.json"},
                               {"tiny-qwen3", golden + "qwen3-embed/tokenizer.json"},
                               {"tiny-xlm-roberta", golden + "xlm-roberta/tokenizer.json"}};
  const char* real = std::getenv("PERGOLA_REAL_MODELS");
  if (real == nullptr) return models;
  for (const char* name : {"all-MiniLM-L6-v2", "embeddinggemma-300m", "qwen", "xlm-roberta"}) {
    const std::string path = std::string(real) + "/" + name + "/tokenizer.json";
    if (std::filesystem::exists(path)) models.push_back({name, path});
  }
  return models;
}

std::unique_ptr<Tokenizer> Load(const std::string& path) {
  auto tokenizer = LoadTokenizerJson(path);
  PERGOLA_CHECK(tokenizer.ok());
  return std::move(*tokenizer);
}

// The golden texts: many languages, and all that is odd.
std::vector<std::string> Texts() {
  simdjson::dom::parser parser;
  std::vector<std::string> texts;
  if (const char* path = std::getenv("PERGOLA_BENCH_TEXTS")) {
    const simdjson::dom::array entries = parser.load(path);
    for (const simdjson::dom::element entry : entries) texts.emplace_back(std::string_view(entry));
    return texts;
  }
  const simdjson::dom::array entries =
      parser.load(std::string(PERGOLA_TEST_DATA) + "/golden/texts.json");
  for (const simdjson::dom::element entry : entries) {
    texts.emplace_back(std::string_view(entry["text"]));
  }
  return texts;
}

void BM_Load(benchmark::State& state, const Model& model) {
  PERGOLA_CHECK(Load(model.path)->vocab_size() > 0);
  for (auto _ : state) benchmark::DoNotOptimize(Load(model.path));
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * std::filesystem::file_size(model.path)));
}

void EncodeTexts(benchmark::State& state, const Model& model, const std::vector<std::string>& texts,
                 const EncodeOptions& options) {
  const auto tokenizer = Load(model.path);
  Encoding encoding;
  int64_t bytes = 0;
  int64_t tokens = 0;
  for (const std::string& text : texts) {
    PERGOLA_CHECK(tokenizer->Encode(text, options, &encoding).ok());
    bytes += static_cast<int64_t>(text.size());
    tokens += static_cast<int64_t>(encoding.ids.size());
  }
  for (auto _ : state) {
    for (const std::string& text : texts) {
      benchmark::DoNotOptimize(tokenizer->Encode(text, options, &encoding).ok());
    }
  }
  state.SetBytesProcessed(state.iterations() * bytes);
  state.SetItemsProcessed(state.iterations() * tokens);
}

void BM_Encode(benchmark::State& state, const Model& model) {
  EncodeTexts(state, model, Texts(), {});
}

void BM_EncodeWithOffsets(benchmark::State& state, const Model& model) {
  EncodeTexts(state, model, Texts(), {.with_offsets = true});
}

// 32 MB of text, 512 tokens wanted: what stopping early costs.
void BM_EncodeHugeTruncated(benchmark::State& state, const Model& model, TruncationSide side) {
  std::string text;
  while (text.size() < (size_t{32} << 20)) {
    for (const std::string& part : Texts()) text += part + " ";
  }
  EncodeTexts(state, model, {text}, {.max_tokens = 512, .side = side});
}

void RegisterAll() {
  for (const Model& model : Models()) {
    const auto add = [&](const std::string& name, auto function, auto... arguments) {
      benchmark::RegisterBenchmark((name + "/" + model.name).c_str(), function, model,
                                   arguments...);
    };
    add("BM_Load", BM_Load);
    add("BM_Encode", BM_Encode);
    add("BM_EncodeWithOffsets", BM_EncodeWithOffsets);
    add("BM_EncodeHugeTruncated/right", BM_EncodeHugeTruncated, TruncationSide::kRight);
    add("BM_EncodeHugeTruncated/left", BM_EncodeHugeTruncated, TruncationSide::kLeft);
  }
}

const bool kRegistered = (RegisterAll(), true);

}  // namespace
}  // namespace pergola::tokenizers
