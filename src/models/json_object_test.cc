#include "models/json_object.h"

#include <gtest/gtest.h>

namespace pergola::models {
namespace {

JsonObject Parsed(std::string_view json) {
  auto object = JsonObject::Parse(json, "config.json");
  EXPECT_TRUE(object.ok()) << object.status().ToString();
  return std::move(object).value();
}

TEST(JsonObjectTest, ReadsTypedMembers) {
  const JsonObject object = Parsed(
      R"({"i": 7, "f": 1e-6, "whole": 512.0, "b": true, "s": "x", "n": null, "l": ["a", "b"]})");
  EXPECT_EQ(object.Int("i"), 7);
  EXPECT_EQ(object.Int("whole"), 512);
  EXPECT_EQ(object.Int("f"), std::nullopt);
  EXPECT_EQ(object.Number("f"), 1e-6);
  EXPECT_EQ(object.Number("i"), 7.0);
  EXPECT_EQ(object.Bool("b"), true);
  EXPECT_EQ(object.String("s"), "x");
  EXPECT_EQ(object.String("n"), std::nullopt);
  EXPECT_EQ(object.Strings("l")->size(), 2u);
  EXPECT_EQ(object.Int("absent"), std::nullopt);
}

TEST(JsonObjectTest, NestedObjectsKeepTheDocumentAlive) {
  std::optional<JsonObject> inner;
  {
    const JsonObject outer = Parsed(R"({"a": {"b": {"c": 3}}, "p": {"q": "query: ", "r": 1}})");
    inner = outer.Object("a")->Object("b");
    EXPECT_EQ(outer.Object("p")->StringMembers().size(), 1u);
  }
  EXPECT_EQ(inner->Int("c"), 3);
  EXPECT_EQ(inner->name(), "config.json.a.b");
}

TEST(JsonObjectTest, ErrorsNameFileKeyAndRange) {
  EXPECT_EQ(JsonObject::Parse("[1]", "x.json").status().message(), "x.json: not a JSON object");
  EXPECT_EQ(JsonObject::Parse("{", "x.json").status().code(), StatusCode::kInvalidArgument);
  const JsonObject object = Parsed(R"({"layers": 0, "name": "n"})");
  EXPECT_EQ(object.RequireInt("layers", 1, 9).status().message(),
            "config.json: 'layers' is 0, allowed is 1 to 9");
  EXPECT_EQ(object.RequireInt("name", 1, 9).status().message(),
            "config.json: 'name' is missing or no integer");
  EXPECT_EQ(JsonObject::Read("/nonexistent/config.json").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace pergola::models
