#include "cli/bench_engine.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "core/sequence.h"
#include "engine/local_runner.h"
#include "engine/model.h"
#include "service/scores.h"

namespace pergola::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Rows = std::vector<std::vector<float>>;

// Least cosine to the reference kernels on the same weights: quantised activations cost digits,
// f32 ones none (docs/numerics.md).
constexpr double kLeastCosine = 0.9985;

constexpr int64_t kSpecialTokensFrom = 3;  // two of them and a word

Result<std::unique_ptr<engine::Model>> LoadModel(const EngineBenchOptions& options, int threads,
                                                 const std::string& isa) {
  engine::ModelOptions model;
  model.ops.num_threads = threads;
  model.ops.isa = isa;
  model.activations = options.activations;
  model.weights = options.weights;  // of the reference too: what is checked are the kernels
  return engine::Model::Load(options.path, model);
}

// Texts of exactly `length` tokens; shorter ones than a model's special tokens leave room for have
// none.
Result<std::vector<Sequence>> MakeTexts(const tokenizers::Tokenizer& tokenizer, int64_t length,
                                        int64_t count) {
  std::vector<Sequence> texts;
  tokenizers::EncodeOptions options;
  options.max_tokens = static_cast<size_t>(length);
  options.add_special_tokens = length >= kSpecialTokensFrom;
  tokenizers::Encoding encoding;
  for (int64_t index = 0; index < count; ++index) {
    PERGOLA_RETURN_IF_ERROR(tokenizer.Encode(BenchText(index, length), options, &encoding));
    if (static_cast<int64_t>(encoding.ids.size()) != length) {
      return InternalError("a text of " + std::to_string(length) + " words gave only " +
                           std::to_string(encoding.ids.size()) + " tokens");
    }
    texts.push_back({.ids = encoding.ids});
  }
  return texts;
}

Result<Rows> RunTexts(engine::LocalRunner& runner, std::span<const engine::SequenceInput> texts) {
  PERGOLA_ASSIGN_OR_RETURN(const auto outputs, runner.Run(texts));
  Rows rows;
  for (size_t index = 0; index < texts.size(); ++index) {
    PERGOLA_ASSIGN_OR_RETURN(const ConstF32Matrix row,
                             outputs->Rows(static_cast<int64_t>(index), OutputKind::kEmbedding));
    rows.emplace_back(row.data, row.data + row.cols);
  }
  return rows;
}

class EngineBench {
 public:
  EngineBench(const EngineBenchOptions& options,
              const std::function<void(const EngineBenchCell&)>& report)
      : options_(options), report_(report) {}

  Status Run() {
    if (options_.checked) {
      PERGOLA_ASSIGN_OR_RETURN(reference_, LoadModel(options_, 0, "reference"));
    }
    for (const int threads : options_.threads) {
      PERGOLA_ASSIGN_OR_RETURN(const auto model, LoadModel(options_, threads, ""));
      engine::LocalRunner runner(*model);
      for (const int64_t length : options_.lengths) {
        if (length > model->pipeline().max_tokens) continue;
        for (const int64_t batch : options_.batches) {
          EngineBenchCell cell;
          cell.length = length;
          cell.batch = batch;
          cell.threads = threads;
          cell.numeric_class = model->facts().numeric_class;
          const Status status = RunCell(*model->tokenizer(), runner, &cell);
          if (!status.ok()) {
            return status.WithContext("length " + std::to_string(length) + ", batch " +
                                      std::to_string(batch) + ", threads " +
                                      std::to_string(threads));
          }
          report_(cell);
        }
      }
    }
    return OkStatus();
  }

 private:
  Status RunCell(const tokenizers::Tokenizer& tokenizer, engine::LocalRunner& runner,
                 EngineBenchCell* cell) {
    PERGOLA_ASSIGN_OR_RETURN(const auto texts, MakeTexts(tokenizer, cell->length, cell->batch));
    std::vector<engine::SequenceInput> inputs;
    for (const Sequence& text : texts) inputs.push_back({.sequence = &text});
    PERGOLA_RETURN_IF_ERROR(Check(runner, inputs, cell));
    for (const Sequence& text : texts) cell->ids.push_back(text.ids);
    std::vector<double> seconds;
    double total = 0;
    while (total < options_.seconds.count() || seconds.size() < 3) {
      const auto began = Clock::now();
      PERGOLA_RETURN_IF_ERROR(runner.Run(inputs).status());
      seconds.push_back(std::chrono::duration<double>(Clock::now() - began).count());
      total += seconds.back();
    }
    const auto calls = static_cast<double>(seconds.size());
    cell->tokens_per_s = static_cast<double>(cell->length * cell->batch) * calls / total;
    std::sort(seconds.begin(), seconds.end());
    cell->ms_p50 = seconds[seconds.size() / 2] * 1e3;
    cell->ms_p99 = seconds[seconds.size() * 99 / 100] * 1e3;
    return OkStatus();
  }

  Status Check(engine::LocalRunner& runner, std::span<const engine::SequenceInput> inputs,
               EngineBenchCell* cell) {
    PERGOLA_ASSIGN_OR_RETURN(cell->vectors, RunTexts(runner, inputs));
    const Rows& together = cell->vectors;
    for (size_t index = 0; index < inputs.size(); ++index) {
      PERGOLA_ASSIGN_OR_RETURN(const Rows alone, RunTexts(runner, inputs.subspan(index, 1)));
      if (alone[0] != together[index]) {
        return InternalError("the vector of text " + std::to_string(index) +
                             " depends on its batch");
      }
    }
    if (!options_.checked) return OkStatus();
    std::vector<float>& expected = reference_rows_[cell->length];
    if (expected.empty()) {
      engine::LocalRunner reference(*reference_);
      PERGOLA_ASSIGN_OR_RETURN(Rows rows, RunTexts(reference, inputs.first(1)));
      expected = std::move(rows[0]);
    }
    cell->cosine = service::Cosine(together[0], expected);
    if (!(*cell->cosine >= kLeastCosine)) {
      return InternalError("cosine to the reference kernels is " + std::to_string(*cell->cosine) +
                           ", expected at least " + std::to_string(kLeastCosine));
    }
    return OkStatus();
  }

  const EngineBenchOptions& options_;
  const std::function<void(const EngineBenchCell&)>& report_;
  std::unique_ptr<engine::Model> reference_;              // null when nothing is checked
  std::map<int64_t, std::vector<float>> reference_rows_;  // of text 0, by length
};

}  // namespace

std::string BenchText(int64_t index, int64_t words) {
  std::string text = "text " + std::to_string(index) + ":";
  uint64_t state = static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u + 1;
  for (int64_t word = 0; word < words; ++word) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text.append(" ").append(kBenchWords[state >> 58]);
  }
  return text;
}

Status BenchEngine(const EngineBenchOptions& options,
                   const std::function<void(const EngineBenchCell& cell)>& report) {
  return EngineBench(options, report).Run();
}

}  // namespace pergola::cli
