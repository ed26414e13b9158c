// From logits to tokens: the best few, and one drawn at random.
//
//   TopTokens top = SelectTop(logits, 5);
//   Sampler sampler({.temperature = 0.8f, .top_p = 0.9f, .seed = 7});
//   int32_t next = sampler.Draw(logits);
//
// Deterministic: the same logits, settings and seed give the same tokens on every machine whose
// logits are the same. Letters: V vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pergola::engine {

struct TokenScore {
  int32_t id = 0;
  float logit = 0;
  friend bool operator==(const TokenScore&, const TokenScore&) = default;
};

// The best tokens, best first; of equals the lower id.
struct TopTokens {
  std::vector<TokenScore> tokens;
  // log(sum(exp(logits / temperature))) over the whole vocabulary, in double.
  double log_sum_exp = 0;

  // Of tokens[index], at the temperature that log_sum_exp was taken at.
  double Probability(size_t index, float temperature = 1) const;
};

// One pass over `logits` (f32 [V], finite), without sorting them. `count` at least 1; at most V
// are returned. `temperature` > 0 divides in log_sum_exp alone.
TopTokens SelectTop(std::span<const float> logits, int64_t count, float temperature = 1);

struct SamplingOptions {
  float temperature = 0;  // 0: always the best token
  int64_t top_k = 0;      // of the best so many; 0: of all
  float top_p = 1;        // of the fewest that together have this probability
  uint64_t seed = 0;
};

// Thread-confined.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  // True when the best token is always taken, so that no other logit is needed.
  bool greedy() const { return options_.temperature <= 0; }
  // Token by `logits`, f32 [V].
  int32_t Draw(std::span<const float> logits);

 private:
  double Uniform();  // [0, 1)

  SamplingOptions options_;
  uint64_t state_;
};

}  // namespace pergola::engine
