#include "engine/token_choice.h"

#include <algorithm>
#include <cmath>

namespace pergola::engine {
namespace {

bool Better(const TokenScore& a, const TokenScore& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

double LogSumExp(std::span<const float> logits, float largest, float temperature) {
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp((static_cast<double>(logit) - largest) / temperature);
  }
  return std::log(sum) + static_cast<double>(largest) / temperature;
}

}  // namespace

double TopTokens::Probability(size_t index, float temperature) const {
  return std::exp(static_cast<double>(tokens[index].logit) / temperature - log_sum_exp);
}

TopTokens SelectTop(std::span<const float> logits, int64_t count, float temperature) {
  TopTokens top;
  const auto limit = std::min(static_cast<size_t>(count), logits.size());
  std::vector<TokenScore>& heap = top.tokens;  // the worst that is kept stands in front
  heap.reserve(limit);
  for (size_t id = 0; id < logits.size(); ++id) {
    if (heap.size() == limit && logits[id] <= heap.front().logit) continue;
    if (heap.size() == limit) {
      std::pop_heap(heap.begin(), heap.end(), Better);
      heap.pop_back();
    }
    heap.push_back({static_cast<int32_t>(id), logits[id]});
    std::push_heap(heap.begin(), heap.end(), Better);
  }
  std::sort_heap(heap.begin(), heap.end(), Better);
  if (!heap.empty()) top.log_sum_exp = LogSumExp(logits, heap.front().logit, temperature);
  return top;
}

Sampler::Sampler(const SamplingOptions& options) : options_(options), state_(options.seed) {}

// SplitMix64 (Steele, Lea, Flood 2014): one multiply-xorshift chain per number, any seed is good.
double Sampler::Uniform() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t bits = state_;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  bits ^= bits >> 31;
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

int32_t Sampler::Draw(std::span<const float> logits) {
  const auto all = static_cast<int64_t>(logits.size());
  if (greedy()) return SelectTop(logits, 1).tokens.front().id;
  const int64_t kept = options_.top_k > 0 ? std::min(options_.top_k, all) : all;
  const TopTokens top = SelectTop(logits, kept);
  std::vector<double> weights;
  double total = 0;
  for (const TokenScore& token : top.tokens) {
    weights.push_back(std::exp((static_cast<double>(token.logit) - top.tokens.front().logit) /
                               options_.temperature));
    total += weights.back();
  }
  // The fewest of the best whose share reaches top_p: at least one.
  const double wanted = total * std::clamp(static_cast<double>(options_.top_p), 0.0, 1.0);
  double share = 0;
  size_t count = 0;
  while (count < weights.size() && (count == 0 || share < wanted)) share += weights[count++];
  double left = Uniform() * share;
  for (size_t index = 0; index < count; ++index) {
    left -= weights[index];
    if (left < 0) return top.tokens[index].id;
  }
  return top.tokens[count - 1].id;
}

}  // namespace pergola::engine
