#include "formats/layout.h"

#include <gtest/gtest.h>

#include <limits>

#include "formats/quoted.h"

namespace pergola::formats {
namespace {

constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();

TEST(LayoutTest, AcceptsTheLargestShapeThatFits) {
  const uint64_t dims[] = {kMax, 1};
  const Result<Shape> shape = CheckedShape(dims);
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->elements(), static_cast<int64_t>(kMax));
  EXPECT_EQ(*CheckedBytes(DType::kI8, *shape), kMax);
  EXPECT_FALSE(CheckedBytes(DType::kF16, *shape).ok());
}

TEST(LayoutTest, RefusesOneMoreThanFits) {
  const uint64_t dims[] = {2, kMax / 2 + 1};
  EXPECT_FALSE(CheckedShape(dims).ok());
}

TEST(LayoutTest, CountsQuantisedBlocks) {
  EXPECT_EQ(*CheckedBytes(DType::kQ6_K, {3, 512}), 1260u);
  EXPECT_FALSE(CheckedBytes(DType::kQ6_K, {512, 3}).ok());
  EXPECT_FALSE(CheckedBytes(DType::kQ8_0, Shape()).ok());
  EXPECT_EQ(*CheckedBytes(DType::kF32, Shape()), 4u);
}

TEST(LayoutTest, TouchingExtentsDoNotOverlap) {
  const std::string a = "a", b = "b", c = "c";
  std::vector<Extent> extents = {{8, 12, &c}, {0, 4, &a}, {4, 8, &b}};
  EXPECT_TRUE(CheckDisjoint(&extents).ok());
  EXPECT_EQ(*extents[1].name, "b");
  extents.push_back({11, 13, &a});
  EXPECT_EQ(CheckDisjoint(&extents).message(),
            "tensor 'a' at offset 11: overlaps tensor 'c' at offset 8, which ends at 12");
}

TEST(QuotedTest, IsSafeToShow) {
  EXPECT_EQ(Quoted("weight ü"), "'weight ü'");
  EXPECT_EQ(Quoted("a\x1b[1m\n"), "'a\\x1b[1m\\x0a'");
  EXPECT_EQ(Quoted("\xfc is Latin-1"), "'\\xfc is Latin-1'");
}

TEST(QuotedTest, CutsBetweenCharacters) {
  std::string text(199, 'x');
  EXPECT_EQ(Quoted(text + "üüü"), "'" + text + "...'");
  EXPECT_EQ(Quoted(text + "y"), "'" + text + "y'");
}

}  // namespace
}  // namespace pergola::formats
