#include "pergola/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace pergola {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgumentError("value " + std::to_string(value) + " is odd");
  return value / 2;
}

Status Quarter(int value, int* out) {
  PERGOLA_ASSIGN_OR_RETURN(const int half, Half(value));
  PERGOLA_ASSIGN_OR_RETURN(*out, Half(half));
  return OkStatus();
}

TEST(StatusTest, DefaultIsOk) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().ToString(), "OK");
}

TEST(StatusTest, ContextGoesBeforeTheMessageAndKeepsTheCode) {
  const Status status = NotFoundError("no tensor 'x'").WithContext("model.gguf");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.ToString(), "NOT_FOUND: model.gguf: no tensor 'x'");
  EXPECT_TRUE(OkStatus().WithContext("anything").ok());
}

TEST(ResultTest, MacrosPassValuesAndErrors) {
  int out = 0;
  EXPECT_TRUE(Quarter(12, &out).ok());
  EXPECT_EQ(out, 3);
  EXPECT_EQ(Quarter(6, &out).message(), "value 3 is odd");
}

TEST(ResultTest, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  ASSERT_TRUE(result.ok());
  std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

}  // namespace
}  // namespace pergola
