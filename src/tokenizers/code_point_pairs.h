// A set of neighbours (a, b) that may say yes too often: exact for ASCII, hashed into bits for the
// rest.
//
//   CodePointPairs pairs;
//   pairs.Insert('t', 'h');
//   if (!pairs.Contains(a, b)) CutBetween(a, b);
//
// Answers "may a text be cut here?", where yes must be certain and no may be a mistake. Filled
// once, then immutable and thread-safe.
#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

namespace pergola::tokenizers {

class CodePointPairs {
 public:
  // 2^`log2_bits` bits for pairs outside ASCII; 10 bits a pair keep mistakes below 10 %.
  explicit CodePointPairs(int log2_bits = 12)
      : shift_(64 - log2_bits), bits_(size_t{1} << (log2_bits - 6)) {}

  void Insert(char32_t first, char32_t second) {
    if (first < 128 && second < 128) {
      ascii_[first * 128 + second] = true;
    } else {
      const uint64_t bit = BitOf(first, second);
      bits_[bit / 64] |= uint64_t{1} << bit % 64;
    }
  }
  bool Contains(char32_t first, char32_t second) const {
    if (first < 128 && second < 128) return ascii_[first * 128 + second];
    const uint64_t bit = BitOf(first, second);
    return (bits_[bit / 64] >> bit % 64 & 1) != 0;
  }

 private:
  uint64_t BitOf(char32_t first, char32_t second) const {
    return ((static_cast<uint64_t>(first) << 21 | second) * 0x9E3779B97F4A7C15u) >> shift_;
  }

  int shift_;
  std::vector<uint64_t> bits_;
  std::bitset<size_t{128} * 128> ascii_;
};

}  // namespace pergola::tokenizers
