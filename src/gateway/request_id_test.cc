#include "gateway/request_id.h"

#include <gtest/gtest.h>

#include <set>

namespace pergola::gateway {
namespace {

TEST(RequestIdTest, TakesOverSaneTokensOnly) {
  EXPECT_EQ(RequestIdFor("req_7f3c-9A.1"), "req_7f3c-9A.1");
  EXPECT_EQ(RequestIdFor(std::string(128, 'a')), std::string(128, 'a'));
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("<b>"), std::string(129, 'a'),
        std::string("a\r\nb"), std::string("\xc3\xa9")}) {
    const std::string made = RequestIdFor(bad);
    EXPECT_NE(made, bad);
    EXPECT_TRUE(IsSaneRequestId(made));
  }
  EXPECT_TRUE(IsSaneRequestId(RequestIdFor(std::nullopt)));
}

TEST(RequestIdTest, MadeIdsDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 10'000; ++i) ids.insert(MakeRequestId());
  EXPECT_EQ(ids.size(), 10'000u);
  EXPECT_EQ(ids.begin()->size(), 20u);
}

}  // namespace
}  // namespace pergola::gateway
