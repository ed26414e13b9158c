#include "core/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace pergola {
namespace {

TEST(FiniteTest, FindsWhatIsNot) {
  EXPECT_TRUE(AllFinite({}));
  EXPECT_TRUE(AllFinite(std::vector<float>{0.0f, -1e38f}));
  EXPECT_FALSE(AllFinite(std::vector<float>{0.0f, std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_FALSE(AllFinite(std::vector<float>{-std::numeric_limits<float>::infinity()}));
}

TEST(FiniteTest, LooksAtEveryPlace) {
  for (const size_t size : {1u, 16u, 35u}) {
    for (size_t at = 0; at < size; ++at) {
      std::vector<float> row(size, 3e38f);
      ASSERT_TRUE(AllFinite(row));
      row[at] = std::numeric_limits<float>::infinity();
      EXPECT_FALSE(AllFinite(row)) << at << " of " << size;
    }
  }
}

}  // namespace
}  // namespace pergola
