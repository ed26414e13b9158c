#include "core/host_addresses.h"

#include <gtest/gtest.h>

namespace pergola {
namespace {

TEST(HostAddressesTest, AnAddressStandsForItself) {
  const auto v4 = ResolveHost("127.0.0.1");
  ASSERT_TRUE(v4.ok()) << v4.status().ToString();
  EXPECT_EQ(*v4, std::vector<std::string>{"127.0.0.1"});
  const auto v6 = ResolveHost("::1");
  ASSERT_TRUE(v6.ok()) << v6.status().ToString();
  EXPECT_EQ(*v6, std::vector<std::string>{"[::1]"});
}

TEST(HostAddressesTest, WhatIsNoNameIsAnErrorThatNamesIt) {
  const auto none = ResolveHost("no name has blanks");
  EXPECT_EQ(none.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(none.status().message().find("no name has blanks"), std::string::npos);
}

}  // namespace
}  // namespace pergola
