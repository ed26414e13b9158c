#include "service/bearer_key.h"

#include <gtest/gtest.h>

namespace pergola::service {
namespace {

TEST(BearerKeyTest, IsWhatStandsBehindTheSchemeInAnyCase) {
  for (const std::string_view given :
       {"Bearer key", "bearer key", "BEARER key", "bEaReR \t key \t"}) {
    EXPECT_EQ(BearerKey(given), "key") << given;
  }
  EXPECT_EQ(BearerKey("Bearer Two Words"), "Two Words");
  const std::string_view given = "Bearer key";
  EXPECT_EQ(BearerKey(given).data(), given.data() + 7);
}

TEST(BearerKeyTest, IsEmptyWithoutOne) {
  for (const std::string_view given :
       {"", "B", "key", "Bearer", "Bearer ", "Bearer \t ", "Bearerkey", "Basic key", " Bearer key",
        "Bearer\tkey", "[earer key"}) {
    EXPECT_EQ(BearerKey(given), "") << given;
  }
}

}  // namespace
}  // namespace pergola::service
