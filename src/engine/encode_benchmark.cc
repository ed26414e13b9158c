// Tokens per second of whole forward passes, one text at a time:
// BM_Encode/<model>/tokens:N/threads:T. PERGOLA_BENCHMARK_MODEL names a folder or a .gguf file;
// default: a tiny random model.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/local_runner.h"
#include "engine/model.h"

namespace pergola::engine {
namespace {

constexpr const char* kModelVariable = "PERGOLA_BENCHMARK_MODEL";

std::string ModelPath() {
  const char* path = std::getenv(kModelVariable);
  return path != nullptr ? path : std::string(PERGOLA_TEST_DATA) + "/golden/tiny/bert";
}

// The tiny model takes 128 tokens.
std::vector<int64_t> Lengths() {
  if (std::getenv(kModelVariable) == nullptr) return {8, 32, 128};
  return {8, 32, 128, 512};
}

// One vector of finite values, not all zero, and the same ids give it bit for bit again.
bool IsSound(LocalRunner& runner, const SequenceInput& input) {
  std::vector<float> first;
  for (int round = 0; round < 2; ++round) {
    auto outputs = runner.Run({&input, 1});
    if (!outputs.ok()) return false;
    const ConstF32Matrix row = *(*outputs)->Rows(0, OutputKind::kEmbedding);
    const std::vector<float> values(row.data, row.data + row.cols);
    if (round == 1) return values == first;
    double square = 0;
    for (const float value : values) square += double(value) * value;
    if (!std::isfinite(square) || square == 0) return false;
    first = values;
  }
  return true;
}

void Encode(benchmark::State& state) {
  auto model = Model::Load(ModelPath(), {.ops = {.num_threads = static_cast<int>(state.range(1))}});
  if (!model.ok()) {
    state.SkipWithError(model.status().ToString().c_str());
    return;
  }
  const int64_t tokens = state.range(0);
  if (tokens > (*model)->config().max_positions) {
    state.SkipWithError("longer than the model takes");
    return;
  }
  Sequence sequence;
  const auto vocab_size = static_cast<int32_t>((*model)->config().vocab_size);
  for (int32_t position = 0; position < tokens; ++position) {
    sequence.ids.push_back((1000 + 7919 * position % 20000) % vocab_size);
  }
  LocalRunner runner(**model);
  const SequenceInput input{&sequence};
  if (!IsSound(runner, input)) {
    state.SkipWithError("no vector, or not the same twice");
    return;
  }
  using Seconds = std::chrono::duration<double>;
  Seconds best = Seconds::max();
  for (auto _ : state) {
    const auto began = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(runner.Run({&input, 1}));
    best = std::min(best, Seconds(std::chrono::steady_clock::now() - began));
  }
  // On a shared machine the shortest pass says more than the mean.
  state.counters["best_s"] = best.count();
  state.counters["tokens/s"] = benchmark::Counter(static_cast<double>(tokens),
                                                  benchmark::Counter::kIsIterationInvariantRate);
}

[[maybe_unused]] const bool registered = [] {
  const std::string model = std::filesystem::path(ModelPath()).stem().string();
  benchmark::RegisterBenchmark(("BM_Encode/" + model).c_str(), Encode)
      ->ArgNames({"tokens", "threads"})
      ->ArgsProduct({Lengths(), {1, 2}})
      ->UseRealTime();
  return true;
}();

}  // namespace
}  // namespace pergola::engine
