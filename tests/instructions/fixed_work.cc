// Fixed pieces of work, whose instructions run.py counts under callgrind.
//
//   fixed_work           lists them
//   fixed_work NAME      does one: once to warm up, once inside FixedWork()
//
// One thread and the avx2 kernels, whatever the machine: the counts then depend on sources and
// compiler alone. Each piece of work checks what it computed.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/sequence.h"
#include "engine/local_runner.h"
#include "engine/model.h"
#include "kernels/ops.h"
#include "kernels/select.h"
#include "kernels/testing/random_tensors.h"
#include "tokenizers/tokenizer.h"

namespace {

using namespace pergola;
using kernels::testing::OwnedMatrix;
using kernels::testing::OwnedTensor;
using kernels::testing::Random;

const std::function<void()>* current_work = nullptr;

// Runs `work` twice, the second time counted.
void Count(const std::function<void()>& work);

std::unique_ptr<kernels::Ops> MakeSet(const char* name) {
  return kernels::MakeOps({.num_threads = 1, .isa = name}).value();
}

// Differences relative to the largest expected value.
bool Agree(ConstF32Matrix actual, ConstF32Matrix expected, float tolerance) {
  float largest = 0, error = 0;
  for (int64_t row = 0; row < expected.rows; ++row) {
    for (int64_t col = 0; col < expected.cols; ++col) {
      const float want = expected.row(row)[col];
      largest = std::max(largest, std::abs(want));
      error = std::max(error, std::abs(actual.row(row)[col] - want));
    }
  }
  return largest > 0 && error <= tolerance * largest;
}

// 40 rows: whole tiles and a smaller one.
bool Linear(DType dtype, const kernels::LinearOptions& options, float tolerance) {
  constexpr int64_t kRows = 40, kOutputs = 384, kInputs = 768;
  Random random(1);
  const auto ops = MakeSet("avx2"), oracle = MakeSet("reference");
  const OwnedTensor weight(random, dtype, kOutputs, kInputs);
  const auto prepared = ops->PrepareLinear(weight.view(), options).value();
  const OwnedMatrix x = OwnedMatrix::Of(random, kRows, kInputs);
  OwnedMatrix y(kRows, kOutputs), expected(kRows, kOutputs);
  Count([&] { ops->Linear(x.view(), *prepared, nullptr, kernels::Epilogue::kGeluErf, y.view()); });
  oracle->Linear(x.view(), *oracle->PrepareLinear(weight.view(), {}).value(), nullptr,
                 kernels::Epilogue::kGeluErf, expected.view());
  return Agree(y.view(), expected.view(), tolerance);
}

bool Attention() {
  constexpr int64_t kTokens = 200, kHeads = 3, kWidth = 64;
  Random random(2);
  const auto ops = MakeSet("avx2"), oracle = MakeSet("reference");
  const OwnedMatrix q = OwnedMatrix::Of(random, kTokens, kHeads * kWidth);
  const OwnedMatrix k = OwnedMatrix::Of(random, kTokens, kWidth);
  const OwnedMatrix v = OwnedMatrix::Of(random, kTokens, kWidth);
  OwnedMatrix out(kTokens, kHeads * kWidth), expected(kTokens, kHeads * kWidth);
  const std::vector<int32_t> cu_seqlens = {0, 37, 200};
  kernels::AttentionOptions options;
  options.num_heads = kHeads;
  options.num_kv_heads = 1;
  options.head_width = kWidth;
  options.scale = 0.125f;
  options.mask = {64, 64};
  const kernels::RaggedView batch{cu_seqlens};
  Count([&] { ops->Attention(q.view(), k.view(), v.view(), batch, options, out.view()); });
  oracle->Attention(q.view(), k.view(), v.view(), batch, options, expected.view());
  return Agree(out.view(), expected.view(), 1e-4f);
}

// The whole forward pass of a tiny model over two texts; the goldens say whether the vectors are
// right.
bool Encode(const std::string& folder) {
  auto model = engine::Model::Load(folder, {.ops = {.num_threads = 1, .isa = "avx2"}}).value();
  const auto vocabulary = static_cast<int32_t>(model->config().vocab_size);
  Sequence sequences[2];
  for (int32_t position = 0; position < 100; ++position) {
    sequences[0].ids.push_back((1000 + 7919 * position) % vocabulary);
  }
  sequences[1].ids.assign(10, 7);
  const engine::SequenceInput inputs[] = {{&sequences[0]}, {&sequences[1]}};
  engine::LocalRunner runner(*model);
  std::vector<std::vector<float>> vectors;
  Count([&] {
    const auto outputs = runner.Run(inputs).value();
    const ConstF32Matrix row = outputs->Rows(0, OutputKind::kEmbedding).value();
    vectors.emplace_back(row.data, row.data + row.cols);
  });
  const auto finite = [](float value) { return std::isfinite(value) && value != 0; };
  return vectors[0] == vectors[1] && std::all_of(vectors[0].begin(), vectors[0].end(), finite);
}

// A text of several scripts, forty times.
bool Tokenize(const std::string& path) {
  auto tokenizer = tokenizers::LoadTokenizerJson(path).value();
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text +=
        "Retrieval, 2024: na\u00efve caf\u00e9s don't e-mail \u6771\u4eac or "
        "\u041c\u043e\u0441\u043a\u0432\u0430";
    text += " \U0001f600 nr. " + std::to_string(i * 7919) + "; ";
  }
  std::vector<std::vector<int32_t>> ids;
  tokenizers::Encoding encoding;
  bool ok = true;
  Count([&] {
    ok = ok && tokenizer->Encode(text, {}, &encoding).ok();
    ids.push_back(encoding.ids);
  });
  return ok && ids[0] == ids[1] && ids[0].size() > text.size() / 20;
}

struct Work {
  std::string name;
  std::function<bool()> run;
};

std::vector<Work> AllWork() {
  const std::string golden = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/";
  const auto linear = [](DType dtype, float tolerance, kernels::LinearOptions options = {}) {
    return [=] { return Linear(dtype, options, tolerance); };
  };
  const auto encode = [&](const char* model) {
    return [=, folder = golden + model] { return Encode(folder); };
  };
  const auto tokenize = [&](const char* model) {
    return [=, path = golden + model + "/tokenizer.json"] { return Tokenize(path); };
  };
  return {{"linear-f32", linear(DType::kF32, 1e-5f)},
          {"linear-bf16", linear(DType::kBF16, 1e-5f)},
          {"linear-q8_0", linear(DType::kQ8_0, 1e-3f)},
          {"linear-q4_0", linear(DType::kQ4_0, 1e-3f)},
          {"linear-q4_0-up", linear(DType::kQ4_0, 2e-2f, {.role = kernels::LinearRole::kUp})},
          {"attention", Attention},
          {"encode-bert", encode("bert")},
          {"encode-gemma3", encode("gemma3-embed")},
          {"encode-qwen3", encode("qwen3-embed")},
          {"tokenize-wordpiece", tokenize("bert")},
          {"tokenize-bpe", tokenize("gemma3-embed")},
          {"tokenize-byte-level", tokenize("qwen3-embed")},
          {"tokenize-unigram", tokenize("xlm-roberta")}};
}

}  // namespace

// What callgrind counts; a name of its own for --toggle-collect.
extern "C" __attribute__((noinline)) void FixedWork() { (*current_work)(); }

namespace {

void Count(const std::function<void()>& work) {
  work();
  current_work = &work;
  FixedWork();
}

}  // namespace

int main(int argc, char** argv) {
  for (const Work& work : AllWork()) {
    if (argc < 2) {
      std::puts(work.name.c_str());
    } else if (work.name == argv[1]) {
      if (work.run()) return 0;
      std::fprintf(stderr, "%s: wrong result\n", argv[1]);
      return 1;
    }
  }
  if (argc < 2) return 0;
  std::fprintf(stderr, "no work named %s\n", argv[1]);
  return 2;
}
