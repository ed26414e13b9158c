// Speed of the operations of every usable kernel set, on one thread and on all usable cores.
//
//   kernels_benchmark --benchmark_filter='BM_Linear/F32/.*/avx2'
//
// Each case checks its result against the reference once before its time counts, and reports
// GFLOP/s (two per multiply-add) and the share of the peak that a chain-free loop of multiply-adds
// of the same instruction set reached on this machine in this run ("peak").
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cpu_features.h"
#include "core/thread_pool.h"
#include "kernels/cpu/aligned_buffer.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/ops.h"
#include "kernels/select.h"
#include "kernels/testing/random_tensors.h"

namespace pergola::kernels {
namespace {

using testing::OwnedMatrix;
using testing::OwnedTensor;
using testing::Random;

std::unique_ptr<Ops> MakeSet(const std::string& name, int threads) {
  auto ops = MakeOps({.num_threads = threads, .isa = name});
  return ops.ok() ? std::move(ops).value() : nullptr;
}

// Best GFLOP/s of a product that stays in the first-level cache: what one core can multiply and
// add.
double PeakGflops(const std::string& name) {
  static std::map<std::string, double> peaks;
  if (auto found = peaks.find(name); found != peaks.end()) return found->second;
  constexpr int64_t kRows = 12, kOutputs = 32, kInputs = 192, kRepeats = 2000;
  Random random(1);
  auto ops = MakeSet(name, 1);
  const OwnedTensor weight(random, DType::kF32, kOutputs, kInputs);
  auto prepared = ops->PrepareLinear(weight.view(), {}).value();
  const OwnedMatrix x = OwnedMatrix::Of(random, kRows, kInputs);
  OwnedMatrix y(kRows, kOutputs);
  double best = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < kRepeats; ++i) {
      ops->Linear(x.view(), *prepared, nullptr, Epilogue::kNone, y.view());
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2e-9 * kRows * kOutputs * kInputs * kRepeats / seconds.count());
  }
  return peaks[name] = best;
}

// Largest difference relative to the largest expected value.
double RelativeError(ConstF32Matrix actual, ConstF32Matrix expected) {
  double error = 0, largest = 1e-30;
  for (int64_t row = 0; row < expected.rows; ++row) {
    for (int64_t col = 0; col < expected.cols; ++col) {
      const double want = expected.row(row)[col];
      error = std::max(error, std::abs(actual.row(row)[col] - want));
      largest = std::max(largest, std::abs(want));
    }
  }
  return error / largest;
}

void Report(benchmark::State& state, const std::string& name, double multiply_adds) {
  const double flops = 2 * multiply_adds;
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["peak"] = benchmark::Counter(flops * 1e-9 / PeakGflops(name),
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void Linear(benchmark::State& state, const std::string& name, int threads, DType dtype,
            const LinearOptions& options, int64_t rows, int64_t outputs, int64_t inputs) {
  Random random(2);
  auto ops = MakeSet(name, threads);
  auto oracle = MakeSet("reference", 1);
  const OwnedTensor weight(random, dtype, outputs, inputs);
  auto prepared = ops->PrepareLinear(weight.view(), options).value();
  const OwnedMatrix x = OwnedMatrix::Of(random, rows, inputs);
  OwnedMatrix y(rows, outputs), expected(1, outputs);
  oracle->Linear(x.view().slice(0, 1), *oracle->PrepareLinear(weight.view(), {}).value(), nullptr,
                 Epilogue::kNone, expected.view());
  ops->Linear(x.view(), *prepared, nullptr, Epilogue::kNone, y.view());
  // Of rows rounded to 8 bits; a wrong product is off by more.
  if (RelativeError(y.view().slice(0, 1), expected.view()) > 2e-2) {
    return state.SkipWithError("wrong result");
  }
  const ThreadPool::Pass pass(ops->threads());
  for (auto _ : state) {
    ops->Linear(x.view(), *prepared, nullptr, Epilogue::kNone, y.view());
    benchmark::ClobberMemory();
  }
  Report(state, name, static_cast<double>(rows * outputs * inputs));
}

// Seconds to read a weight once, with the threads of `ops`: what bounds a product of few rows.
double ReadSeconds(Ops& ops, const cpu::KernelTable& table, const TensorView& weight) {
  constexpr int64_t kItemBytes = int64_t{1} << 17;
  const auto start = std::chrono::steady_clock::now();
  ops.threads().ParallelFor(weight.bytes() / kItemBytes, [&](int64_t item) {
    benchmark::DoNotOptimize(table.read_bytes(weight.data + item * kItemBytes, kItemBytes));
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of one type at a time: it is large, and the cases of a type follow each other.
const OwnedTensor& Vocabulary(DType dtype, int64_t outputs, int64_t inputs) {
  static std::unique_ptr<OwnedTensor> tensor;
  if (tensor != nullptr && tensor->view().dtype == dtype) return *tensor;
  Random random(2);
  tensor = std::make_unique<OwnedTensor>(random, dtype, outputs, inputs);
  return *tensor;
}

// A vocabulary's projection, read where it lies. "read" is the share of the speed at which the same
// memory is only read, in turns with the product.
void LinearInPlace(benchmark::State& state, const KernelSet& set, int threads, DType dtype,
                   int64_t rows, int64_t outputs, int64_t inputs) {
  Random random(3);
  auto ops = MakeSet(std::string(set.name), threads);
  auto oracle = MakeSet("reference", 1);
  const OwnedTensor& weight = Vocabulary(dtype, outputs, inputs);
  auto prepared = ops->PrepareLinear(weight.view(), {.in_place = true}).value();
  // Where an encoder has its rows: vectors that lie across cache lines cost eight rows a third.
  const OwnedMatrix anywhere = OwnedMatrix::Of(random, rows, inputs);
  cpu::AlignedBuffer memory;
  const F32Matrix x(memory.Reserve<float>(rows * inputs), rows, inputs);
  std::copy_n(anywhere.view().data, rows * inputs, x.data);
  constexpr int64_t kChecked = 1000;
  OwnedMatrix y(rows, outputs), expected(rows, kChecked);
  TensorView first = weight.view();
  first.shape = {kChecked, inputs};
  oracle->Linear(x, *oracle->PrepareLinear(first, {}).value(), nullptr, Epilogue::kNone,
                 expected.view());
  ops->Linear(x, *prepared, nullptr, Epilogue::kNone, y.view());
  if (RelativeError(y.view(), expected.view()) > 1e-5) return state.SkipWithError("wrong result");
  const ThreadPool::Pass pass(ops->threads());
  double read = 0, multiply = 0;
  for (auto _ : state) {
    read += ReadSeconds(*ops, *set.table, weight.view());
    const auto start = std::chrono::steady_clock::now();
    ops->Linear(x, *prepared, nullptr, Epilogue::kNone, y.view());
    benchmark::ClobberMemory();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(seconds.count());
    multiply += seconds.count();
  }
  state.SetBytesProcessed(state.iterations() * weight.view().bytes());
  state.counters["read"] = read / multiply;
}

struct AttentionShape {
  int64_t heads, kv_heads, width, length, sequences;
};

void Attention(benchmark::State& state, const std::string& name, int threads,
               const AttentionShape& shape, bool round_to_bf16) {
  Random random(3);
  auto ops = MakeSet(name, threads);
  auto oracle = MakeSet("reference", 1);
  const int64_t tokens = shape.length * shape.sequences;
  const OwnedMatrix q = OwnedMatrix::Of(random, tokens, shape.heads * shape.width);
  const OwnedMatrix k = OwnedMatrix::Of(random, tokens, shape.kv_heads * shape.width);
  const OwnedMatrix v = OwnedMatrix::Of(random, tokens, shape.kv_heads * shape.width);
  std::vector<int32_t> cu_seqlens = {0};
  for (int64_t seq = 0; seq < shape.sequences; ++seq) {
    cu_seqlens.push_back(cu_seqlens.back() + static_cast<int32_t>(shape.length));
  }
  AttentionOptions options;
  options.num_heads = shape.heads;
  options.num_kv_heads = shape.kv_heads;
  options.head_width = shape.width;
  options.scale = 1 / std::sqrt(static_cast<float>(shape.width));
  options.round_to_bf16 = round_to_bf16;
  OwnedMatrix out(tokens, q.view().cols), expected(shape.length, q.view().cols);
  const std::vector<int32_t> first = {0, cu_seqlens[1]};
  oracle->Attention(q.view().slice(0, shape.length), k.view().slice(0, shape.length),
                    v.view().slice(0, shape.length), {first}, options, expected.view());
  ops->Attention(q.view(), k.view(), v.view(), {cu_seqlens}, options, out.view());
  const double tolerance = round_to_bf16 ? 2e-2 : 1e-4;
  if (RelativeError(out.view().slice(0, shape.length), expected.view()) > tolerance) {
    return state.SkipWithError("wrong result");
  }
  const ThreadPool::Pass pass(ops->threads());
  for (auto _ : state) {
    ops->Attention(q.view(), k.view(), v.view(), {cu_seqlens}, options, out.view());
    benchmark::ClobberMemory();
  }
  Report(state, name, 2.0 * static_cast<double>(tokens * shape.length * shape.width * shape.heads));
}

// Operations without products report the bytes that they read and write.
void Rowwise(benchmark::State& state, const std::string& name, int threads,
             const std::string& operation, int64_t rows, int64_t cols) {
  Random random(4);
  auto ops = MakeSet(name, threads);
  auto oracle = MakeSet("reference", 1);
  const OwnedMatrix x = OwnedMatrix::Of(random, rows, cols);
  const std::vector<float> weight = random.Values(cols), bias = random.Values(cols);
  const auto run = [&](Ops& on, F32Matrix y) {
    if (operation == "LayerNorm") {
      on.LayerNorm(x.view(), weight.data(), bias.data(), 1e-5f, y);
    } else if (operation == "RmsNorm") {
      on.RmsNorm(x.view(), weight.data(), cols, 1e-6f, y);
    } else if (operation == "Add") {
      on.Add(x.view(), y);
    } else if (operation == "GeluErf") {
      on.GatedActivation(Epilogue::kGeluErf, y, x.view());
    } else {
      on.GatedActivation(Epilogue::kGeluTanh, y, x.view());
    }
  };
  OwnedMatrix y = OwnedMatrix::Of(random, rows, cols), expected = OwnedMatrix::Copy(y.view());
  run(*ops, y.view());
  run(*oracle, expected.view());
  if (RelativeError(y.view(), expected.view()) > 1e-4) return state.SkipWithError("wrong result");
  const ThreadPool::Pass pass(ops->threads());
  for (auto _ : state) {
    run(*ops, y.view());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * rows * cols * 8);
}

void RegisterInPlace(const KernelSet& set, int threads, DType dtype) {
  for (int64_t rows : {1, 8}) {
    const std::string text = "BM_LinearInPlace/" + std::string(DTypeName(dtype)) + "/" +
                             std::to_string(rows) + "x65536x640/" + std::string(set.name) +
                             "/threads:" + std::to_string(threads);
    benchmark::RegisterBenchmark(text.c_str(), LinearInPlace, set, threads, dtype, rows, 65536, 640)
        ->UseManualTime();
  }
}

void Register(const std::string& name, int threads) {
  const std::string suffix = "/" + name + "/threads:" + std::to_string(threads);
  struct Kind {
    const char* label;
    DType dtype;
    LinearOptions options = {};
  };
  for (const auto& [label, dtype, options] :
       {Kind{"F32", DType::kF32}, Kind{"F16", DType::kF16}, Kind{"BF16", DType::kBF16},
        Kind{"Q8_0", DType::kQ8_0}, Kind{"Q4_0", DType::kQ4_0},
        Kind{"Q4_0-ffn", DType::kQ4_0, {.role = LinearRole::kUp}},
        Kind{"F32-int8", DType::kF32, {.weights = WeightType::kInt8}}}) {
    for (int64_t rows : {1, 8, 32, 120, 512}) {
      for (auto [outputs, inputs] : {std::pair<int64_t, int64_t>{384, 384},
                                     {1536, 384},
                                     {384, 1536},
                                     {768, 768},
                                     {1152, 768},
                                     {768, 1152},
                                     {3072, 768}}) {
        const std::string shape =
            std::to_string(rows) + "x" + std::to_string(outputs) + "x" + std::to_string(inputs);
        const std::string title = "BM_Linear/" + std::string(label) + "/" + shape + suffix;
        benchmark::RegisterBenchmark(title.c_str(), Linear, name, threads, dtype, options, rows,
                                     outputs, inputs)
            ->UseRealTime();
      }
    }
  }
  for (const AttentionShape& shape :
       {AttentionShape{12, 12, 32, 16, 32}, AttentionShape{12, 12, 32, 256, 2},
        AttentionShape{12, 12, 64, 512, 1}, AttentionShape{3, 1, 256, 32, 16},
        AttentionShape{3, 1, 256, 512, 1}, AttentionShape{3, 1, 256, 2048, 1}}) {
    const std::string text = std::to_string(shape.heads) + "h" + std::to_string(shape.width) + "w" +
                             std::to_string(shape.sequences) + "x" + std::to_string(shape.length);
    for (const bool rounded : {false, true}) {
      const std::string title = std::string("BM_Attention/") + (rounded ? "BF16/" : "F32/") + text;
      benchmark::RegisterBenchmark((title + suffix).c_str(), Attention, name, threads, shape,
                                   rounded)
          ->UseRealTime();
    }
  }
  for (const char* operation : {"LayerNorm", "RmsNorm", "Add", "GeluErf", "GeluTanh"}) {
    benchmark::RegisterBenchmark(("BM_" + std::string(operation) + "/F32/128x768" + suffix).c_str(),
                                 Rowwise, name, threads, operation, 128, 768)
        ->UseRealTime();
  }
}

const bool kRegistered = [] {
  std::vector<KernelSet> sets = ListKernelSets();
  std::erase_if(sets, [](const KernelSet& set) { return !set.usable || set.table == nullptr; });
  for (const KernelSet& set : sets) {
    Register(std::string(set.name), 1);
    if (UsableCores() > 1) Register(std::string(set.name), UsableCores());
  }
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0}) {
    for (const KernelSet& set : sets) {
      RegisterInPlace(set, 1, dtype);
      if (UsableCores() > 1) RegisterInPlace(set, UsableCores(), dtype);
    }
  }
  return true;
}();

}  // namespace
}  // namespace pergola::kernels
