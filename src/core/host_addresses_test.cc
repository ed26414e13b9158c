#include "core/host_addresses.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace pergola {
namespace {

TEST(HostAddressesTest, AnAddressStandsForItself) {
  const auto v4 = ResolveHost("127.0.0.1", {});
  ASSERT_TRUE(v4.ok()) << v4.status().ToString();
  EXPECT_EQ(*v4, std::vector<std::string>{"127.0.0.1"});
  const auto v6 = ResolveHost("::1", {});
  ASSERT_TRUE(v6.ok()) << v6.status().ToString();
  EXPECT_EQ(*v6, std::vector<std::string>{"[::1]"});
}

TEST(HostAddressesTest, WhatIsNoNameIsAnErrorThatNamesIt) {
  const auto none = ResolveHost("no name has blanks", {});
  EXPECT_EQ(none.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(none.status().message().find("no name has blanks"), std::string::npos);
}

TEST(HostAddressesTest, WhoStopsIsNotHeldUpByTheResolver) {
  std::promise<void> asked;
  std::promise<void> answer;
  std::promise<void> ended;
  std::stop_source stop;
  std::thread stopper([&] {
    asked.get_future().wait();
    stop.request_stop();
  });
  const auto addresses = ResolveHost("slow", stop.get_token(),
                                     [&](const std::string&) -> Result<std::vector<std::string>> {
                                       asked.set_value();
                                       answer.get_future().wait();
                                       ended.set_value_at_thread_exit();
                                       return std::vector<std::string>{"10.0.0.7"};
                                     });
  EXPECT_EQ(addresses.status().code(), StatusCode::kCancelled);
  stopper.join();
  answer.set_value();
  ended.get_future().wait();
}

}  // namespace
}  // namespace pergola
