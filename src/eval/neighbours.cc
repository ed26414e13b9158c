#include "eval/neighbours.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "core/check.h"

namespace pergola::eval {
namespace {

// Independent sums, so that the compiler may use vectors.
float Dot(const float* a, const float* b, size_t width) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> sums = {};
  size_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0.0f;
  for (const float lane : sums) sum += lane;
  for (; i < width; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

std::string_view EncodingName(Encoding encoding) {
  switch (encoding) {
    case Encoding::kFloat:
      return "float";
    case Encoding::kInt8:
      return "int8";
    case Encoding::kBinary:
      return "binary";
  }
  return "";
}

VectorSet VectorSet::Make(int64_t width, const std::vector<float>& values, Encoding encoding,
                          service::Int8Rule int8_rule) {
  VectorSet set;
  set.encoding_ = encoding;
  const auto row_width = static_cast<size_t>(width);
  PERGOLA_DCHECK(row_width > 0 && values.size() % row_width == 0);
  set.rows_ = values.size() / row_width;
  if (encoding == Encoding::kBinary) {
    PERGOLA_DCHECK(row_width % 8 == 0);
    set.width_ = row_width / 8;
    set.bits_.resize(set.rows_ * set.width_);
    for (size_t row = 0; row < set.rows_; ++row) {
      service::FormatBits(std::span(values).subspan(row * row_width, row_width),
                          service::BitOrder::kMsbFirst,
                          std::span(set.bits_).subspan(row * set.width_, set.width_));
    }
    return set;
  }
  set.width_ = row_width;
  set.floats_.resize(values.size());
  std::vector<int8_t> bytes(row_width);
  std::vector<float> numbers(row_width);
  for (size_t row = 0; row < set.rows_; ++row) {
    std::span<const float> source = std::span(values).subspan(row * row_width, row_width);
    if (encoding == Encoding::kInt8) {
      service::FormatInt8(source, int8_rule, bytes);
      std::copy(bytes.begin(), bytes.end(), numbers.begin());
      source = numbers;
    }
    service::FormatFloats(source, /*normalise=*/true,
                          std::span(set.floats_).subspan(row * row_width, row_width));
  }
  return set;
}

float VectorSet::Similarity(size_t row, const VectorSet& other, size_t other_row) const {
  if (encoding_ != Encoding::kBinary) {
    return Dot(floats_.data() + row * width_, other.floats_.data() + other_row * width_, width_);
  }
  const uint8_t* a = bits_.data() + row * width_;
  const uint8_t* b = other.bits_.data() + other_row * width_;
  int differing = 0;
  for (size_t i = 0; i < width_; ++i) {
    differing += std::popcount(static_cast<unsigned>(a[i] ^ b[i]));
  }
  return 1.0f - static_cast<float>(differing) / static_cast<float>(width_ * 8);
}

std::vector<std::vector<uint32_t>> NearestRows(const VectorSet& queries, const VectorSet& set,
                                               size_t count, bool skip_same_index) {
  struct Candidate {
    float similarity;
    uint32_t row;
  };
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.similarity != b.similarity ? a.similarity > b.similarity : a.row < b.row;
  };
  std::vector<std::vector<uint32_t>> nearest(queries.size());
  std::vector<Candidate> candidates;
  for (size_t query = 0; query < queries.size(); ++query) {
    candidates.clear();
    for (size_t row = 0; row < set.size(); ++row) {
      if (skip_same_index && row == query) continue;
      candidates.push_back({queries.Similarity(query, set, row), static_cast<uint32_t>(row)});
    }
    const auto kept = static_cast<std::ptrdiff_t>(std::min(count, candidates.size()));
    std::partial_sort(candidates.begin(), candidates.begin() + kept, candidates.end(), better);
    for (std::ptrdiff_t i = 0; i < kept; ++i) {
      nearest[query].push_back(candidates[static_cast<size_t>(i)].row);
    }
  }
  return nearest;
}

}  // namespace pergola::eval
