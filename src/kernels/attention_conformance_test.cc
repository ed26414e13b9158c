// Ops::Attention of every kernel set against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/numeric_matcher.h"
#include "kernels/testing/kernel_sets.h"
#include "kernels/testing/random_distance_vectors.h"
#include "kernels/testing/random_tensors.h"

namespace pergola::kernels {
namespace {

using pergola::testing::DotProductBound;
using pergola::testing::kEpsilon;
using pergola::testing::Norm;
using pergola::testing::Within;
using testing::OwnedMatrix;
using testing::Random;

constexpr int32_t kUnlimited = AttentionMask::kUnlimited;

struct AttentionCase {
  std::vector<int32_t> lengths;
  int64_t heads = 1, kv_heads = 1, width = 16;
  AttentionMask mask;
  bool with_bias = false;
  float scale = 0;  // 0 = 1 / sqrt(W)
  bool distance_keys = false, distance_queries = false;
  int64_t distance_reach = 40;
  bool round_to_bf16 = false;
};

// Largest relative error of a value rounded to bf16.
constexpr double kBF16Epsilon = 1.0 / 512;

class AttentionConformanceTest : public testing::KernelSetTest {
 protected:
  void Check(const AttentionCase& c) {
    SCOPED_TRACE("H " + std::to_string(c.heads) + " G " + std::to_string(c.kv_heads) + " W " +
                 std::to_string(c.width) + " left " + std::to_string(c.mask.left) + " right " +
                 std::to_string(c.mask.right) + " first length " + std::to_string(c.lengths[0]));
    std::vector<int32_t> cu_seqlens = {0};
    for (int32_t length : c.lengths) cu_seqlens.push_back(cu_seqlens.back() + length);
    const int64_t tokens = cu_seqlens.back();
    Random random(static_cast<uint32_t>(tokens * 131 + c.width));
    const OwnedMatrix q = OwnedMatrix::Of(random, tokens, c.heads * c.width, c.heads * c.width + 3);
    // Keys and values in one buffer, as a fused projection leaves them.
    const int64_t kv_width = c.kv_heads * c.width;
    const OwnedMatrix kv = OwnedMatrix::Of(random, tokens, 2 * kv_width, 2 * kv_width + 1);
    const ConstF32Matrix k = kv.view().columns(0, kv_width);
    const ConstF32Matrix v = kv.view().columns(kv_width, kv_width);
    AttentionOptions options;
    options.num_heads = c.heads;
    options.num_kv_heads = c.kv_heads;
    options.head_width = c.width;
    options.scale = c.scale != 0 ? c.scale : 1 / std::sqrt(static_cast<float>(c.width));
    options.mask = c.mask;
    options.bias_reach = 9;
    const std::vector<float> bias = random.Values(c.heads * (2 * options.bias_reach + 1));
    if (c.with_bias) options.distance_bias = bias.data();
    options.round_to_bf16 = c.round_to_bf16;

    const testing::RandomDistanceVectors vectors(random, c.heads, c.width, c.distance_reach);
    const auto of_set = vectors.For(*set_, c.distance_keys, c.distance_queries);
    const auto of_oracle = vectors.For(*oracle_, c.distance_keys, c.distance_queries);
    const bool with_vectors = c.distance_keys || c.distance_queries;

    OwnedMatrix actual(tokens, c.heads * c.width, c.heads * c.width + 2);
    OwnedMatrix expected(tokens, c.heads * c.width);
    if (with_vectors) options.distance_vectors = &of_set.vectors;
    set_->Attention(q.view(), k, v, {cu_seqlens}, options, actual.view());
    if (with_vectors) options.distance_vectors = &of_oracle.vectors;
    oracle_->Attention(q.view(), k, v, {cu_seqlens}, options, expected.view());

    // A score off by d changes a weighted mean of values by at most 2 d times the largest value.
    double q_norm = 0, k_norm = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t head = 0; head < c.heads; ++head) {
        q_norm = std::max(q_norm, Norm(q.view().row(t) + head * c.width, c.width));
      }
      for (int64_t head = 0; head < c.kv_heads; ++head) {
        k_norm = std::max(k_norm, Norm(k.row(t) + head * c.width, c.width));
      }
    }
    double score = options.scale * DotProductBound(c.width, q_norm, k_norm) +
                   2 * kEpsilon * (options.scale * q_norm * k_norm + 1);
    if (with_vectors) {
      // Two products more, and two roundings of the sum of all three.
      const double product = vectors.norm() * std::max(q_norm, k_norm);
      score += 2 * options.scale *
               (DotProductBound(c.width, vectors.norm(), std::max(q_norm, k_norm)) +
                kEpsilon * (2 * product + q_norm * k_norm));
    }
    // Both factors of a score are rounded; then probabilities and values, which are at most 1.
    double rounded = 0;
    if (c.round_to_bf16) {
      score += options.scale * q_norm * k_norm * kBF16Epsilon * (2 + kBF16Epsilon);
      rounded = kBF16Epsilon * (2 + kBF16Epsilon);
    }
    const int64_t longest = *std::max_element(c.lengths.begin(), c.lengths.end());
    const double sums = 4 * std::sqrt(static_cast<double>(longest)) * kEpsilon;
    EXPECT_TRUE(Within(actual.view(), expected.view(), [&](int64_t, int64_t) {
      return 2 * score + sums + rounded + 4 * kEpsilon;
    }));
    EXPECT_TRUE(actual.MarkersIntact());
  }

  std::unique_ptr<Ops> set_ = MakeSet(2);
  std::unique_ptr<Ops> oracle_ = MakeOracle();
};

INSTANTIATE_TEST_SUITE_P(PerIsa, AttentionConformanceTest,
                         ::testing::ValuesIn(testing::TestedSets()), testing::SetName);

TEST_P(AttentionConformanceTest, EveryLengthAroundTheBlockSizes) {
  for (int32_t length : {1, 2, 15, 16, 17, 47, 48, 49, 63, 64, 65, 96, 97, 130, 200}) {
    Check({.lengths = {length}, .heads = 2, .kv_heads = 2, .width = 32, .mask = {}});
  }
}

TEST_P(AttentionConformanceTest, EveryHeadWidthAndGrouping) {
  for (int64_t width : {8, 12, 16, 24, 32, 64, 80, 96, 128, 256}) {
    Check({.lengths = {5, 70, 1, 33}, .heads = 4, .kv_heads = 4, .width = width, .mask = {}});
    Check({.lengths = {70, 2}, .heads = 3, .kv_heads = 1, .width = width, .mask = {}});
    Check({.lengths = {9, 66}, .heads = 6, .kv_heads = 2, .width = width, .mask = {}});
  }
}

TEST_P(AttentionConformanceTest, WindowsAndCausalMasks) {
  for (const AttentionMask& mask :
       {AttentionMask{0, 0}, AttentionMask{3, 3}, AttentionMask{kUnlimited, 0}, AttentionMask{5, 0},
        AttentionMask{0, 7}, AttentionMask{16, 16}, AttentionMask{64, 64}, AttentionMask{100, 1},
        AttentionMask{kUnlimited, 20}}) {
    Check({.lengths = {200, 3, 65}, .heads = 2, .kv_heads = 1, .width = 24, .mask = mask});
  }
}

TEST_P(AttentionConformanceTest, DistanceBias) {
  Check(
      {.lengths = {100, 4}, .heads = 3, .kv_heads = 3, .width = 16, .mask = {}, .with_bias = true});
  Check(
      {.lengths = {80}, .heads = 2, .kv_heads = 1, .width = 12, .mask = {6, 2}, .with_bias = true});
}

TEST_P(AttentionConformanceTest, DistanceVectors) {
  for (int32_t length : {1, 16, 17, 49, 65, 113}) {
    for (int64_t reach : {0, 7, 199}) {
      Check({.lengths = {length, 3},
             .heads = 2,
             .kv_heads = 2,
             .width = 12,
             .mask = {},
             .distance_keys = true,
             .distance_queries = true,
             .distance_reach = reach});
    }
  }
  Check({.lengths = {130, 9},
         .heads = 4,
         .kv_heads = 2,
         .width = 64,
         .mask = {},
         .distance_keys = true});
  Check({.lengths = {9, 130},
         .heads = 3,
         .kv_heads = 3,
         .width = 24,
         .mask = {20, 4},
         .with_bias = true,
         .distance_queries = true});
}

TEST_P(AttentionConformanceTest, RoundedToBF16) {
  for (int32_t length : {1, 2, 15, 16, 17, 48, 63, 64, 65, 97, 130}) {
    Check({.lengths = {length},
           .heads = 2,
           .kv_heads = 2,
           .width = 32,
           .mask = {},
           .round_to_bf16 = true});
  }
  for (int64_t width : {7, 8, 12, 24, 64, 256}) {
    Check({.lengths = {5, 70, 1, 33},
           .heads = 4,
           .kv_heads = 2,
           .width = width,
           .mask = {},
           .round_to_bf16 = true});
  }
  for (const AttentionMask& mask : {AttentionMask{kUnlimited, 0}, AttentionMask{16, 16},
                                    AttentionMask{5, 0}, AttentionMask{100, 1}}) {
    Check({.lengths = {3, 131, 64},
           .heads = 2,
           .kv_heads = 1,
           .width = 32,
           .mask = mask,
           .with_bias = true,
           .round_to_bf16 = true});
  }
  // With distance vectors nothing is rounded.
  Check({.lengths = {60}, .mask = {}, .distance_keys = true, .round_to_bf16 = true});
}

TEST_P(AttentionConformanceTest, RoundsWhereTheInstructionsAre) {
  Random random(12);
  const OwnedMatrix x = OwnedMatrix::Of(random, 40, 16);
  const std::vector<int32_t> cu_seqlens = {0, 40};
  AttentionOptions options;
  options.num_heads = options.num_kv_heads = 1;
  options.head_width = 16;
  OwnedMatrix exact(40, 16), rounded(40, 16);
  set_->Attention(x.view(), x.view(), x.view(), {cu_seqlens}, options, exact.view());
  options.round_to_bf16 = true;
  set_->Attention(x.view(), x.view(), x.view(), {cu_seqlens}, options, rounded.view());
  EXPECT_EQ(pergola::testing::BitEqual(exact.view(), rounded.view()),
            set_->name() != "avx512-bf16");
}

// What decoding row by row with a key/value cache gives is what one pass over all rows gives.
TEST_P(AttentionConformanceTest, CachedKeysGiveTheBitsOfOnePass) {
  Random random(11);
  const int64_t tokens = 150, width = 24, heads = 4, kv_heads = 2;
  const OwnedMatrix q = OwnedMatrix::Of(random, tokens, heads * width);
  const OwnedMatrix k = OwnedMatrix::Of(random, tokens, kv_heads * width);
  const OwnedMatrix v = OwnedMatrix::Of(random, tokens, kv_heads * width);
  for (const auto& [left, round] :
       {std::pair{kUnlimited, false}, {7, false}, {64, false}, {kUnlimited, true}, {7, true}}) {
    AttentionOptions options;
    options.round_to_bf16 = round;
    options.num_heads = heads;
    options.num_kv_heads = kv_heads;
    options.head_width = width;
    options.mask = {.left = left, .right = 0};
    OwnedMatrix whole(tokens, heads * width), parts(tokens, heads * width);
    const std::vector<int32_t> all = {0, static_cast<int32_t>(tokens)};
    set_->Attention(q.view(), k.view(), v.view(), {all}, options, whole.view());
    for (int64_t count = 0; options.past < tokens; options.past += count) {
      // A prefill of 50, then pieces of a few rows, then one by one.
      count = options.past == 0 ? 50 : options.past < 60 ? 5 : 1;
      const std::vector<int32_t> rows = {0, static_cast<int32_t>(count)};
      const int64_t keys = options.past + count;
      set_->Attention(q.view().slice(options.past, count), k.view().slice(0, keys),
                      v.view().slice(0, keys), {rows}, options,
                      parts.view().slice(options.past, count));
    }
    EXPECT_TRUE(pergola::testing::BitEqual(parts.view(), whole.view())) << "left " << left;
    OwnedMatrix oracle(1, heads * width);
    options.past = tokens - 1;
    const std::vector<int32_t> last = {0, 1};
    oracle_->Attention(q.view().slice(tokens - 1, 1), k.view(), v.view(), {last}, options,
                       oracle.view());
    EXPECT_TRUE(Within(parts.view().slice(tokens - 1, 1), oracle.view(),
                       [&](int64_t, int64_t) { return round ? 0.05 : 1e-5; }));
  }
}

// Scores of hundreds: one key wins, all others underflow to exactly nothing.
TEST_P(AttentionConformanceTest, LargeScoresNeitherOverflowNorCancel) {
  Check({.lengths = {120}, .heads = 2, .kv_heads = 2, .width = 64, .mask = {}, .scale = 60.0f});
}

// What a masked key or its value holds may not matter at all.
TEST_P(AttentionConformanceTest, MaskedKeysAddExactlyNothing) {
  Random random(9);
  const int64_t tokens = 90, width = 32;
  const std::vector<int32_t> cu_seqlens = {0, 90};
  const OwnedMatrix q = OwnedMatrix::Of(random, tokens, width);
  OwnedMatrix k = OwnedMatrix::Of(random, tokens, width),
              v = OwnedMatrix::Of(random, tokens, width);
  AttentionOptions options;
  options.num_heads = options.num_kv_heads = 1;
  options.head_width = width;
  options.mask = {.left = kUnlimited, .right = 0};
  OwnedMatrix before(tokens, width), after(tokens, width);
  set_->Attention(q.view(), k.view(), v.view(), {cu_seqlens}, options, before.view());
  OwnedMatrix rounded_before(tokens, width), rounded_after(tokens, width);
  AttentionOptions rounded = options;
  rounded.round_to_bf16 = true;
  set_->Attention(q.view(), k.view(), v.view(), {cu_seqlens}, rounded, rounded_before.view());
  for (int64_t col = 0; col < width; ++col) {
    k.view().row(60)[col] = 1e6f;
    v.view().row(60)[col] = 1e6f;
  }
  set_->Attention(q.view(), k.view(), v.view(), {cu_seqlens}, options, after.view());
  EXPECT_TRUE(pergola::testing::BitEqual(after.view().slice(0, 60), before.view().slice(0, 60)));
  EXPECT_FALSE(pergola::testing::BitEqual(after.view().slice(60, 30), before.view().slice(60, 30)));
  set_->Attention(q.view(), k.view(), v.view(), {cu_seqlens}, rounded, rounded_after.view());
  EXPECT_TRUE(pergola::testing::BitEqual(rounded_after.view().slice(0, 60),
                                         rounded_before.view().slice(0, 60)));
}

}  // namespace
}  // namespace pergola::kernels
