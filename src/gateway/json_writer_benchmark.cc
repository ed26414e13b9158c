// Rows of numbers as JSON text.
//
//   gateway_benchmark --benchmark_filter=BM_JsonRows
#include <benchmark/benchmark.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include "gateway/json_writer.h"

namespace pergola::gateway {
namespace {

// Reports bytes of text a second. Every number must read back as itself. As many numbers as an
// answer of 512 x 384 has: of few thousand, again and again, the processor learns which way each
// branch goes.
void BM_JsonRows(benchmark::State& state) {
  std::vector<float> row(512 * 384);
  uint32_t bits = 5;
  for (float& value : row) {
    bits = bits * 1664525u + 1013904223u;
    value = static_cast<float>(bits >> 8) / 8388608.0f - 1;
  }
  std::string text;
  AppendJsonFloats(row, &text);
  const char* at = text.data() + 1;
  for (const float value : row) {
    float read = 0;
    at = std::from_chars(at, text.data() + text.size(), read).ptr + 1;
    if (read != value) return state.SkipWithError("wrong number");
  }
  for (auto _ : state) {
    text.clear();
    AppendJsonFloats(row, &text);
    benchmark::DoNotOptimize(text.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(row.size()));
}
BENCHMARK(BM_JsonRows);

}  // namespace
}  // namespace pergola::gateway
