#include "engine/step_speed.h"

#include <algorithm>

namespace pergola::engine {
namespace {

using Clock = std::chrono::steady_clock;

// Ids from all over the vocabulary, other ones for each sequence.
std::vector<Sequence> MakeSequences(int64_t tokens, int64_t length, int64_t vocab_size) {
  std::vector<Sequence> sequences;
  int64_t count = 0;
  for (int64_t left = tokens; left > 0; left -= length) {
    Sequence& sequence = sequences.emplace_back();
    for (int64_t token = 0; token < std::min(left, length); ++token) {
      sequence.ids.push_back(static_cast<int32_t>(++count * 7919 % vocab_size));
    }
  }
  return sequences;
}

}  // namespace

Result<std::vector<StepSpeed>> MeasureSteps(Runner& runner, int64_t vocab_size, int64_t max_tokens,
                                            std::chrono::nanoseconds each) {
  constexpr int64_t kSequenceTokens = 32;
  constexpr int64_t kSmallest = 32;
  constexpr int64_t kLargest = 2048;
  const int64_t length = std::max<int64_t>(1, std::min(kSequenceTokens, max_tokens));
  std::vector<StepSpeed> speeds;
  for (int64_t tokens = kSmallest; tokens <= kLargest; tokens *= 2) {
    const std::vector<Sequence> sequences = MakeSequences(tokens, length, vocab_size);
    std::vector<SequenceInput> batch;
    for (const Sequence& sequence : sequences)
      batch.push_back({&sequence, {OutputKind::kEmbedding}});
    StepSpeed speed{tokens, 0};
    const Clock::time_point begin = Clock::now();
    for (int run = 0; run < 2 || Clock::now() - begin < each; ++run) {
      const Clock::time_point start = Clock::now();
      PERGOLA_RETURN_IF_ERROR(runner.Run(batch).status());
      const std::chrono::duration<double> took = Clock::now() - start;
      speed.tokens_per_s =
          std::max(speed.tokens_per_s, static_cast<double>(tokens) / std::max(took.count(), 1e-9));
    }
    speeds.push_back(speed);
  }
  return speeds;
}

int64_t SmallestStep(std::span<const StepSpeed> speeds, double share) {
  double highest = 0;
  for (const StepSpeed& speed : speeds) highest = std::max(highest, speed.tokens_per_s);
  for (const StepSpeed& speed : speeds) {
    if (speed.tokens_per_s >= share * highest) return speed.tokens;
  }
  return 0;
}

}  // namespace pergola::engine
