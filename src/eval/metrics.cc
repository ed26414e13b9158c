#include "eval/metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/check.h"

namespace pergola::eval {
namespace {

double DiscountedGain(std::span<const double> gains, size_t depth) {
  double sum = 0.0;
  for (size_t place = 0; place < std::min(depth, gains.size()); ++place) {
    sum += gains[place] / std::log2(static_cast<double>(place) + 2.0);
  }
  return sum;
}

std::vector<double> Ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double shared = static_cast<double>(begin + end - 1) / 2.0;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = shared;
    begin = end;
  }
  return ranks;
}

}  // namespace

double Ndcg(std::span<const double> gains, std::span<const double> all_gains, size_t depth) {
  std::vector<double> best(all_gains.begin(), all_gains.end());
  std::sort(best.begin(), best.end(), std::greater<>());
  const double ideal = DiscountedGain(best, depth);
  return ideal == 0.0 ? 0.0 : DiscountedGain(gains, depth) / ideal;
}

double Recall(std::span<const double> gains, size_t num_relevant, size_t depth) {
  if (num_relevant == 0) return 0.0;
  const auto first = gains.subspan(0, std::min(depth, gains.size()));
  const auto found =
      std::count_if(first.begin(), first.end(), [](double gain) { return gain > 0.0; });
  return static_cast<double>(found) / static_cast<double>(num_relevant);
}

double ReciprocalRank(std::span<const double> gains, size_t depth) {
  for (size_t place = 0; place < std::min(depth, gains.size()); ++place) {
    if (gains[place] > 0.0) return 1.0 / (static_cast<double>(place) + 1.0);
  }
  return 0.0;
}

double Pearson(std::span<const double> a, std::span<const double> b) {
  PERGOLA_DCHECK(a.size() == b.size());
  if (a.size() < 2) return 0.0;
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double ab = 0.0;
  double aa = 0.0;
  double bb = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa == 0.0 || bb == 0.0 ? 0.0 : ab / std::sqrt(aa * bb);
}

double Spearman(std::span<const double> a, std::span<const double> b) {
  return Pearson(Ranks(a), Ranks(b));
}

double Agreement(const std::vector<std::vector<uint32_t>>& a,
                 const std::vector<std::vector<uint32_t>>& b) {
  PERGOLA_DCHECK(a.size() == b.size());
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].empty()) continue;
    const auto shared = std::count_if(a[i].begin(), a[i].end(), [&](uint32_t entry) {
      return std::find(b[i].begin(), b[i].end(), entry) != b[i].end();
    });
    sum += static_cast<double>(shared) / static_cast<double>(a[i].size());
  }
  return a.empty() ? 0.0 : sum / static_cast<double>(a.size());
}

double Quantile(std::vector<double> values, double p) {
  PERGOLA_DCHECK(!values.empty());
  const auto last = static_cast<double>(values.size() - 1);
  const auto place = static_cast<std::ptrdiff_t>(std::clamp(std::round(p * last), 0.0, last));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<size_t>(place)];
}

}  // namespace pergola::eval
