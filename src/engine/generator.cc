#include "engine/generator.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

namespace pergola::engine {
namespace {

using models::Workspace;

// Adds the time of a scope to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(std::chrono::nanoseconds* sum) : sum_(sum) {}
  ~Stopwatch() { *sum_ += std::chrono::steady_clock::now() - start_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::chrono::nanoseconds* sum_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int64_t KeyWidth(const models::ModelConfig& config) {
  return config.num_kv_heads * config.head_width;
}

}  // namespace

Generator::Generator(const LanguageModel& model, const GeneratorPorts& ports)
    : model_(model), ports_(ports), cache_(model.config().num_layers, KeyWidth(model.config())) {}

Status Generator::Check(std::span<const int32_t> ids, int64_t more) const {
  const models::ModelConfig& config = model_.config();
  if (ids.empty()) return InvalidArgumentError("there are no tokens to go on from");
  for (size_t index = 0; index < ids.size(); ++index) {
    if (ids[index] < 0 || ids[index] >= config.vocab_size) {
      return InvalidArgumentError("token id " + std::to_string(ids[index]) + " at position " +
                                  std::to_string(index) + " is outside the vocabulary of " +
                                  std::to_string(config.vocab_size));
    }
  }
  const int64_t needed = cache_.length() + static_cast<int64_t>(ids.size()) + more;
  if (needed > config.max_positions) {
    return InvalidArgumentError("prompt and continuation take " + std::to_string(needed) +
                                " tokens, the limit is " + std::to_string(config.max_positions));
  }
  return OkStatus();
}

Status Generator::Feed(std::span<const int32_t> ids) {
  PERGOLA_RETURN_IF_ERROR(Check(ids, 0));
  const auto rows = static_cast<int64_t>(ids.size());
  const int64_t width = model_.config().hidden_size;
  positions_.resize(ids.size());
  std::iota(positions_.begin(), positions_.end(), static_cast<int32_t>(cache_.length()));
  const std::array<int32_t, 2> cu_seqlens = {0, static_cast<int32_t>(rows)};
  const std::array<models::KvCache*, 1> caches = {&cache_};
  models::Batch batch{
      .ids = ids, .positions = positions_, .type_ids = {}, .cu_seqlens = cu_seqlens};
  batch.caches = caches;
  batch.ffn = ports_.ffn;
  batch.final_norm = false;
  if (ports_.embed != nullptr) {
    const Stopwatch watch(&profile_.embed);
    embedded_.resize(static_cast<size_t>(rows * width));
    const F32Matrix embedded(embedded_.data(), rows, width);
    PERGOLA_RETURN_IF_ERROR(ports_.embed->Embed(ids, embedded));
    batch.ids = {};
    batch.embedded = embedded;
  }
  const F32Matrix hidden = workspace_.Get(Workspace::kHidden, rows, width);
  {
    const Stopwatch watch(&profile_.layers);
    const ThreadPool::Pass pass(model_.ops().threads());
    PERGOLA_RETURN_IF_ERROR(model_.encoder().Forward(batch, workspace_, hidden));
  }
  residual_.assign(hidden.row(rows - 1), hidden.row(rows - 1) + width);
  return OkStatus();
}

Result<std::span<const float>> Generator::Logits() {
  const Stopwatch watch(&profile_.head);
  const ConstF32Matrix residual(residual_.data(), 1, static_cast<int64_t>(residual_.size()));
  logits_.resize(static_cast<size_t>(model_.config().vocab_size));
  if (ports_.head != nullptr) {
    PERGOLA_RETURN_IF_ERROR(ports_.head->Logits(residual, logits_));
  } else {
    if (model_.head() == nullptr) {
      return FailedPreconditionError("the model was loaded without its head");
    }
    const ThreadPool::Pass pass(model_.ops().threads());
    model_.head()->Apply(model_.ops(), workspace_, residual,
                         F32Matrix(logits_.data(), 1, model_.config().vocab_size));
  }
  return std::span<const float>(logits_);
}

Result<TopTokens> Generator::Top(int64_t count) {
  if (ports_.head != nullptr) {
    const Stopwatch watch(&profile_.head);
    return ports_.head->Top(
        ConstF32Matrix(residual_.data(), 1, static_cast<int64_t>(residual_.size())), count);
  }
  PERGOLA_ASSIGN_OR_RETURN(const std::span<const float> logits, Logits());
  const Stopwatch watch(&profile_.head);
  return SelectTop(logits, count);
}

Result<int32_t> Generator::Choose(Sampler& sampler) {
  if (sampler.greedy()) {
    PERGOLA_ASSIGN_OR_RETURN(const TopTokens top, Top(1));
    return top.tokens.front().id;
  }
  PERGOLA_ASSIGN_OR_RETURN(const std::span<const float> logits, Logits());
  return sampler.Draw(logits);
}

Result<Generation> Generator::Generate(std::span<const int32_t> prompt,
                                       const GenerateOptions& options) {
  cache_.Truncate(0);
  profile_ = {};
  PERGOLA_RETURN_IF_ERROR(Check(prompt, options.max_tokens));
  Generation generation;
  {
    const Stopwatch total(&profile_.total);
    PERGOLA_RETURN_IF_ERROR(Feed(prompt));
    PERGOLA_ASSIGN_OR_RETURN(generation.next, Top(std::max<int64_t>(1, options.top_k)));
    profile_.prefill = profile_.embed + profile_.layers + profile_.head;
    Sampler sampler(options.sampling);
    const std::vector<int32_t>& ends = model_.config().end_ids;
    for (int64_t step = 0; step < options.max_tokens; ++step) {
      int32_t next = generation.next.tokens.front().id;
      if (step > 0) PERGOLA_RETURN_IF_ERROR(Feed(std::span(&generation.ids.back(), 1)));
      if (step > 0 || !sampler.greedy()) {
        PERGOLA_ASSIGN_OR_RETURN(next, Choose(sampler));
      }
      generation.ids.push_back(next);
      const bool ended = std::find(ends.begin(), ends.end(), next) != ends.end();
      if (ended && options.stop_at_end) break;
    }
  }
  generation.profile = profile_;
  return generation;
}

}  // namespace pergola::engine
