#include "rpc/status.h"

#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

namespace pergola::rpc {
namespace {

TEST(RpcStatusTest, EveryCodeCrossesAndComesBack) {
  for (int number = 1; number <= static_cast<int>(StatusCode::kUnauthenticated); ++number) {
    const Status status(static_cast<StatusCode>(number), "why");
    const grpc::Status remote = ToGrpcStatus(status);
    EXPECT_EQ(remote.error_code(), number);
    EXPECT_EQ(FromGrpcStatus(remote), status);
  }
  EXPECT_TRUE(ToGrpcStatus(OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(RpcStatusTest, UnknownCodesAreUnknown) {
  const grpc::Status odd(static_cast<grpc::StatusCode>(20), "odd");
  EXPECT_EQ(FromGrpcStatus(odd).code(), StatusCode::kUnknown);
}

TEST(RpcStatusTest, LongMessagesAreCutBetweenCharacters) {
  std::string message(999, 'x');
  message += "\xC3\xA4";
  EXPECT_EQ(ToGrpcStatus(InternalError(message)).error_message(), std::string(999, 'x'));
}

TEST(RpcStatusTest, ABrokenPeerCannotPassInvalidText) {
  const grpc::Status broken(grpc::StatusCode::INTERNAL, "a\xFF\xC3");
  EXPECT_EQ(FromGrpcStatus(broken).message(), "a??");
}

}  // namespace
}  // namespace pergola::rpc
