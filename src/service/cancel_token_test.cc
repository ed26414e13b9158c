#include "service/cancel_token.h"

#include <gtest/gtest.h>

#include <memory>

namespace pergola::service {
namespace {

TEST(CancelTokenTest, CallsListenersOnceWhenCancelled) {
  CancelToken token;
  int calls = 0;
  token.Listen([&] { ++calls; });
  token.Listen([&] { ++calls; });
  EXPECT_FALSE(token.cancelled());
  EXPECT_EQ(calls, 0);
  token.Cancel();
  token.Cancel();
  EXPECT_TRUE(token.cancelled());
  EXPECT_EQ(calls, 2);
}

TEST(CancelTokenTest, CallsALateListenerAtOnce) {
  CancelToken token;
  token.Cancel();
  int calls = 0;
  token.Listen([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(CancelTokenTest, ForgottenListenersAreNotCalledAndLetGoOfWhatTheyOwn) {
  CancelToken token;
  auto owned = std::make_shared<int>(0);
  const auto id = token.Listen([owned] { ++*owned; });
  token.Forget(id);
  EXPECT_EQ(owned.use_count(), 1);
  token.Forget(id);
  token.Cancel();
  EXPECT_EQ(*owned, 0);
}

TEST(CancelTokenTest, AListenerMayForgetAndCancel) {
  CancelToken token;
  int calls = 0;
  const auto other = token.Listen([] {});
  token.Listen([&] {
    ++calls;
    token.Forget(other);
    token.Cancel();
  });
  token.Cancel();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace pergola::service
