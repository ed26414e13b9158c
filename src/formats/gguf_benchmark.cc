#include <benchmark/benchmark.h>

#include <span>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"

namespace pergola::formats {
namespace {

// A file with a vocabulary of so many tokens: texts, scores and types, as a Gemma model has them.
std::string FileWithVocabulary(int64_t num_tokens) {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (int64_t i = 0; i < num_tokens; ++i) {
    texts.push_back("token" + std::to_string(i * 7919 % 1000003));
    scores.push_back(static_cast<float>(-i));
    types.push_back(1);
  }
  GgufWriter writer;
  writer.SetStrings("tokenizer.ggml.tokens", texts);
  writer.SetFloat32s("tokenizer.ggml.scores", scores);
  writer.SetInt32s("tokenizer.ggml.token_type", types);
  return writer.Bytes();
}

void BM_ParseGguf(benchmark::State& state) {
  const std::string file = FileWithVocabulary(state.range(0));
  const auto bytes = std::as_bytes(std::span<const char>(file));
  const auto once = ParseGguf(bytes, "benchmark");
  if (!once.ok() ||
      (*once)->GetStrings("tokenizer.ggml.tokens")->size() != static_cast<size_t>(state.range(0))) {
    state.SkipWithError("the vocabulary is not read back");
    return;
  }
  for (auto _ : state) {
    auto source = ParseGguf(bytes, "benchmark");
    benchmark::DoNotOptimize(source);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(file.size()));
}
BENCHMARK(BM_ParseGguf)->ArgName("tokens")->Arg(262144)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pergola::formats
