#include "core/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace pergola {
namespace {

std::string Json(float value) {
  std::string out;
  AppendJsonFloat(value, &out);
  return out;
}

TEST(JsonTextTest, EscapesWhatJsonDemands) {
  EXPECT_EQ(JsonString("a\"b\\c\n\x01\xc3\xa9"), "\"a\\\"b\\\\c\\u000a\\u0001\xc3\xa9\"");
}

TEST(JsonTextTest, FloatsReadBackAsThemselvesAndAreShort) {
  EXPECT_EQ(Json(0.1f), "0.1");
  EXPECT_EQ(Json(-0.0f), "-0");
  for (const float value : {1.0f / 3, 1e-30f, 3.4e38f, std::numeric_limits<float>::denorm_min(),
                            -0.052734375f, 16777217.0f}) {
    EXPECT_EQ(std::strtof(Json(value).c_str(), nullptr), value) << Json(value);
  }
  EXPECT_EQ(Json(std::nanf("")), "null");
  EXPECT_EQ(Json(std::numeric_limits<float>::infinity()), "null");
}

}  // namespace
}  // namespace pergola
