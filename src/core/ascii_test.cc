#include "core/ascii.h"

#include <gtest/gtest.h>

namespace pergola {
namespace {

TEST(AsciiTest, OnlyAsciiLettersChangeCase) {
  EXPECT_EQ(LowerCase("Content-Type: X@[`{\xc3\x84"), "content-type: x@[`{\xc3\x84");
  EXPECT_TRUE(EqualsIgnoringCase("Bearer", "bEARER"));
  EXPECT_FALSE(EqualsIgnoringCase("bearer", "bearers"));
  EXPECT_FALSE(EqualsIgnoringCase("@", "`"));  // 32 apart, as letters of two cases are
  EXPECT_TRUE(EqualsIgnoringCase("", ""));
}

TEST(AsciiTest, BlanksAndTabsAreTrimmedAndNothingElse) {
  EXPECT_EQ(Trimmed(" \t a b\t "), "a b");
  EXPECT_EQ(Trimmed("\r\n"), "\r\n");
  EXPECT_EQ(Trimmed(" \t "), "");
  EXPECT_EQ(Trimmed(""), "");
}

}  // namespace
}  // namespace pergola
