#include "gateway/json_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/fields.h"

namespace pergola::gateway {
namespace {

std::string Nested(size_t depth, const std::string& open, const std::string& close,
                   const std::string& innermost = "1") {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  text += innermost;
  for (size_t i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(JsonReaderTest, RefusesWhatIsNotStrictJson) {
  using std::string_literals::operator""s;
  const std::string refused[] = {
      "",
      " ",
      "{",
      "nul",
      "{'a':1}",
      "{\"a\":1,}",
      "{a:1}",
      "[1,]",
      "{\"a\":1 \"b\":2}",
      "{\"a\":1}x",
      "{\"a\":1}{}",
      "{\"a\":1},",
      "{\"a\":1}\0"s,
      "\xEF\xBB\xBF{}",  // byte order mark
      "\"tab\there\"",   // raw control character
      "\"nul\0\""s,      // raw NUL
      R"("\q")",
      R"("\u12")",
      R"("\ud800")",  // lone surrogates
      R"("\ud800\u0041")",
      R"("\udc00")",
      "\"\xff\"",
      "\"\xc0\x80\"",          // overlong
      "\"\xe6\xbc\"",          // cut short
      "\"\xed\xa0\x80\"",      // a surrogate in UTF-8
      "\"\xf4\x90\x80\x80\"",  // above U+10FFFF
      "01",
      "+1",
      ".5",
      "1.",
      "0x10",
      "--1",
      "NaN",
      "Infinity",
      "1e",
      "123456789012345678901234567890x",
      Nested(65, "[", "]"),
      Nested(65, "{\"a\":", "}"),
      Nested(64, "[", "]", "[]"),
      Nested(64, "{\"a\":", "}", "{}"),
      Nested(64, "[", "]", "1e999,[]"),
      Nested(65, "[", "]", "[]"),
      Nested(100'000, "[", "]"),
  };
  for (const std::string& text : refused) {
    const auto document = JsonDocument::Parse(text);
    ASSERT_FALSE(document.ok()) << text.substr(0, 80);
    EXPECT_EQ(document.status().code(), StatusCode::kInvalidArgument);
    EXPECT_LT(document.status().message().size(), 100u);
  }
}

TEST(JsonReaderTest, TakesWhatIsStrictJson) {
  const std::string taken[] = {
      " \r\n\t{\"a\":1}\n ",
      "[]",
      "null",
      "-0",
      "1e308",
      R"("\u0000")",
      R"("\uD83D\uDE00")",
      "1e400",
      "-1e400",
      "123456789012345678901234567890",
      "[1,99999999999999999999999,2]",
      Nested(64, "[", "]"),
      Nested(64, "{\"a\":", "}"),
      Nested(63, "[", "]", "[]"),
      Nested(63, "{\"a\":", "}", "{}"),
      Nested(64, "[", "]", "1e999"),
  };
  for (const std::string& text : taken) {
    EXPECT_TRUE(JsonDocument::Parse(text).ok()) << text.substr(0, 80);
  }
}

TEST(JsonReaderTest, ReadsEachKind) {
  auto document = JsonDocument::Parse(
      R"([null, true, -7, 1.5, "x\u00e9\u0000", [1, 2], {"k": 1}, 9223372036854775808])");
  ASSERT_TRUE(document.ok());
  std::vector<JsonKind> kinds;
  (*document)->root().EachItem([&](size_t index, JsonValue value) {
    kinds.push_back(value.kind());
    if (index == 1) {
      EXPECT_TRUE(value.boolean());
    }
    if (index == 2) {
      EXPECT_EQ(value.integer(), -7);
    }
    if (index == 4) {
      EXPECT_EQ(value.string(), std::string_view("x\xC3\xA9\0", 4));
    }
    if (index == 5) {
      EXPECT_EQ(value.size(), 2u);
    }
    return true;
  });
  EXPECT_EQ(kinds, (std::vector<JsonKind>{JsonKind::kNull, JsonKind::kBool, JsonKind::kInteger,
                                          JsonKind::kNumber, JsonKind::kString, JsonKind::kArray,
                                          JsonKind::kObject, JsonKind::kNumber}));
}

TEST(JsonReaderTest, HugeNumbersLeaveTheirNeighboursAlone) {
  auto document = JsonDocument::Parse(
      R"({"a":12345678901234567890123, "text":"123456789012345678901234 \" 1e999", "b":-1e999, "c":7})");
  ASSERT_TRUE(document.ok());
  Fields fields((*document)->root(), {"a", "text", "b", "c"});
  EXPECT_EQ(fields.String("text"), "123456789012345678901234 \" 1e999");
  EXPECT_EQ(fields.Integer("c"), 7);
  EXPECT_FALSE(fields.failure());
  EXPECT_FALSE(fields.Integer("a"));
  EXPECT_TRUE(fields.failure());
}

TEST(FieldsTest, NullIsNotGivenAndATwiceGivenFieldFails) {
  auto document = JsonDocument::Parse(R"({"a":null,"b":true,"x":1,"x":2})");
  ASSERT_TRUE(document.ok());
  Fields fields((*document)->root(), {"a", "b", "c"});
  EXPECT_FALSE(fields.Has("a"));
  EXPECT_FALSE(fields.Has("c"));
  EXPECT_EQ(fields.Bool("b"), true);
  EXPECT_FALSE(fields.failure());  // x is nobody's field

  auto twice = JsonDocument::Parse(R"({"a":1,"a":null})");
  ASSERT_TRUE(twice.ok());
  EXPECT_TRUE(Fields((*twice)->root(), {"a"}).failure());
}

TEST(FieldsTest, NamesFieldAndTypeAndKeepsTheFirstFailure) {
  auto document = JsonDocument::Parse(R"({"a":"x","b":1})");
  ASSERT_TRUE(document.ok());
  Fields fields((*document)->root(), {"a", "b"}, "options.");
  EXPECT_FALSE(fields.Integer("a"));
  EXPECT_FALSE(fields.String("b"));
  ASSERT_TRUE(fields.failure());
  EXPECT_EQ(fields.failure()->status.message(), "options.a is a string, it must be an integer");
  EXPECT_EQ(fields.failure()->param, "options.a");
}

}  // namespace
}  // namespace pergola::gateway
