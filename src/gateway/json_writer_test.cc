#include "gateway/json_writer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

namespace pergola::gateway {
namespace {

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(text, &out);
  return out;
}

TEST(JsonWriterTest, EscapesWhatJsonDemandsAndNothingElse) {
  EXPECT_EQ(Quoted("a\"b\\c/\n\r\t"), R"("a\"b\\c/\n\r\t")");
  EXPECT_EQ(Quoted(std::string_view("\0\x1f\x7f", 3)), R"("\u0000\u001f\u007f")");
  EXPECT_EQ(Quoted("é漢😀"), "\"é漢😀\"");
}

TEST(JsonWriterTest, ReplacesEachMaximalBadPartOfUtf8) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(Quoted("a\xffz"), "\"a" + bad + "z\"");
  EXPECT_EQ(Quoted("\xe6\xbc"), "\"" + bad + "\"");
  EXPECT_EQ(Quoted("\xe6\xbc"
                   "a"),
            "\"" + bad + "a\"");
  EXPECT_EQ(Quoted("\xc0\x80"), "\"" + bad + bad + "\"");
  EXPECT_EQ(Quoted("\xed\xa0\x80"), "\"" + bad + bad + bad + "\"");
  EXPECT_EQ(Quoted("\xf0\x9f\x98"), "\"" + bad + "\"");
}

TEST(JsonWriterTest, FloatsReadBackToTheSameBits) {
  std::mt19937 random(7);
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               -1.5f,
                               0.1f,
                               std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::lowest()};
  while (values.size() < 20'000) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(value)) values.push_back(value);
  }
  std::string out;
  AppendJsonFloats(values, &out);
  ASSERT_EQ(out.front(), '[');
  ASSERT_EQ(out.back(), ']');
  const char* at = out.c_str() + 1;
  for (const float value : values) {
    char* end = nullptr;
    const float read = std::strtof(at, &end);
    ASSERT_EQ(std::bit_cast<uint32_t>(read), std::bit_cast<uint32_t>(value)) << value;
    at = end + 1;
  }
  EXPECT_EQ(at, out.c_str() + out.size());
}

TEST(JsonWriterTest, WritesNumbers) {
  std::string out;
  AppendJsonFloat(0.6f, &out);
  out.push_back(' ');
  AppendJsonFixed(1.25, 3, &out);
  out.push_back(' ');
  AppendJsonInteger(std::numeric_limits<int64_t>::min(), &out);
  out.push_back(' ');
  AppendJsonInt8s(std::vector<int8_t>{-128, 0, 127}, &out);
  AppendJsonUint8s(std::vector<uint8_t>{255}, &out);
  AppendJsonFloats({}, &out);
  EXPECT_EQ(out, "0.6 1.250 -9223372036854775808 [-128,0,127][255][]");
}

TEST(JsonWriterTest, Base64HasTheVectorsOfRfc4648) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "\"\""},
      {"f", "\"Zg==\""},
      {"fo", "\"Zm8=\""},
      {"foo", "\"Zm9v\""},
      {"foob", "\"Zm9vYg==\""},
      {"fooba", "\"Zm9vYmE=\""},
      {"foobar", "\"Zm9vYmFy\""},
      {"\xff\xfe\xfb", "\"//77\""},
  };
  for (const auto& [text, coded] : cases) {
    std::string out;
    AppendJsonBase64({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, &out);
    EXPECT_EQ(out, coded);
  }
}

TEST(JsonWriterTest, ExcerptCutsAtACharacter) {
  EXPECT_EQ(Excerpt("short"), "short");
  EXPECT_EQ(Excerpt("ééé", 5), "éé...");
  EXPECT_EQ(Excerpt("a\xff", 10), "a\xEF\xBF\xBD");
}

}  // namespace
}  // namespace pergola::gateway
