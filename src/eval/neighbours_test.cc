#include "eval/neighbours.h"

#include <gtest/gtest.h>

namespace pergola::eval {
namespace {

using Lists = std::vector<std::vector<uint32_t>>;

const std::vector<float> kRows = {
    1, 0, 0, 0, 0,  0,  0,  0,      // 0
    9, 1, 0, 0, 0,  0,  0,  0,      // 1: near 0
    0, 0, 5, 0, 0,  0,  0,  0,      // 2
    1, 1, 1, 1, -1, -1, -1, -1,     // 3
    2, 2, 2, 2, -2, -2, -2, -2.5f,  // 4: near 3
};

TEST(NeighboursTest, NearestByCosineWithoutTheTextItself) {
  const VectorSet set = VectorSet::Make(8, kRows, Encoding::kFloat);
  const Lists nearest = NearestRows(set, set, 1, true);
  EXPECT_EQ(nearest, (Lists{{1}, {0}, {3}, {4}, {3}}));
  EXPECT_EQ(NearestRows(set, set, 1, false), (Lists{{0}, {1}, {2}, {3}, {4}}));
  EXPECT_EQ(NearestRows(set, set, 99, true)[0].size(), 4u);
}

TEST(NeighboursTest, BitsCountEqualSigns) {
  const VectorSet set = VectorSet::Make(8, kRows, Encoding::kBinary);
  EXPECT_EQ(set.Similarity(3, set, 4), 1.0f);
  EXPECT_EQ(set.Similarity(0, set, 1), 7.0f / 8.0f);
  EXPECT_EQ(set.Similarity(0, set, 2), 6.0f / 8.0f);
}

TEST(NeighboursTest, Int8IsNearTheCosine) {
  const VectorSet floats = VectorSet::Make(8, kRows, Encoding::kFloat);
  const VectorSet bytes = VectorSet::Make(8, kRows, Encoding::kInt8);
  for (size_t a = 0; a < 5; ++a) {
    for (size_t b = 0; b < 5; ++b) {
      EXPECT_NEAR(bytes.Similarity(a, bytes, b), floats.Similarity(a, floats, b), 0.01);
    }
  }
}

}  // namespace
}  // namespace pergola::eval
