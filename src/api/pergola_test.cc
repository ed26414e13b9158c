#include "pergola/pergola.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

namespace pergola {
namespace {

std::string TinyModel(const std::string& name) {
  return std::string(PERGOLA_TEST_DATA) + "/golden/tiny/" + name;
}

Engine OpenTiny(const std::string& name) {
  Result<Engine> engine = Engine::Open(TinyModel(name));
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
  return std::move(engine).value();
}

TEST(EngineTest, EmbedsInOrderWithUnitLength) {
  const Engine engine = OpenTiny("bert");
  const auto rows = engine.Embed({"a cat", "a dog", "a cat"});
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  ASSERT_EQ(rows->size(), 3u);
  EXPECT_EQ(rows->width(), engine.width());
  EXPECT_NEAR(Dot((*rows)[0], (*rows)[0]), 1, 1e-6);
  for (int64_t col = 0; col < rows->width(); ++col) EXPECT_EQ((*rows)[0][col], (*rows)[2][col]);
  EXPECT_LT(Dot((*rows)[0], (*rows)[1]), 0.9999f);
}

TEST(EngineTest, DimensionsAreCutThenNormalised) {
  const Engine engine = OpenTiny("bert");
  EmbedOptions options;
  options.dimensions = 8;
  const auto cut = engine.Embed({"a cat"}, options);
  const auto whole = engine.Embed({"a cat"});
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->width(), 8);
  EXPECT_NEAR(Dot((*cut)[0], (*cut)[0]), 1, 1e-6);
  EXPECT_NEAR((*cut)[0][0] / (*cut)[0][1], (*whole)[0][0] / (*whole)[0][1], 1e-5);
  options.dimensions = engine.width() + 1;
  EXPECT_EQ(engine.Embed({"a"}, options).status().code(), StatusCode::kInvalidArgument);
}

TEST(EngineTest, LongTextsAreRefusedOrCut) {
  const Engine engine = OpenTiny("bert");
  std::string text;
  for (int word = 0; word < 200; ++word) text += "word ";
  const auto refused = engine.Embed({"short", text});
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(refused.status().message().starts_with("text 1: ")) << refused.status().message();
  EmbedOptions options;
  options.truncate = true;
  const auto cut = engine.Embed({"short", text}, options);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->truncated(), 1);
  EXPECT_LE(cut->tokens(), 2 * engine.max_tokens());
}

TEST(EngineTest, PromptsChangeTheVectorAndUnknownOnesAreRefused) {
  const Engine engine = OpenTiny("gemma3-embed");
  ASSERT_TRUE(engine.prompts().contains("query"));
  EmbedOptions query;
  query.prompt_name = "query";
  EmbedOptions free_text;
  free_text.prompt = engine.prompts().find("query")->second;
  const auto plain = engine.Embed({"a cat"});
  const auto named = engine.Embed({"a cat"}, query);
  const auto spelled = engine.Embed({"a cat"}, free_text);
  ASSERT_TRUE(named.ok() && spelled.ok() && plain.ok());
  EXPECT_NE((*plain)[0][0], (*named)[0][0]);
  EXPECT_EQ((*spelled)[0][0], (*named)[0][0]);
  query.prompt_name = "no such prompt";
  EXPECT_EQ(engine.Embed({"a"}, query).status().code(), StatusCode::kInvalidArgument);
}

TEST(EngineTest, ThreadsShareOneEngineAndGetTheSameBits) {
  const Engine engine = OpenTiny("bert");
  const auto expected = engine.Embed({"one", "two", "three"});
  ASSERT_TRUE(expected.ok());
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (size_t caller = 0; caller < right.size(); ++caller) {
    threads.emplace_back([&, caller] {
      for (int round = 0; round < 20; ++round) {
        const auto rows = engine.Embed({"three", "noise " + std::to_string(round), "one"});
        if (rows.ok() && (*rows)[0][5] == (*expected)[2][5] && (*rows)[2][3] == (*expected)[0][3]) {
          ++right[caller];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : right) EXPECT_EQ(count, 20);
}

TEST(EngineTest, ErrorsNameThePath) {
  EXPECT_EQ(Engine::Open("/nonexistent/model").status().code(), StatusCode::kNotFound);
  const auto folder = Engine::Open(std::string(PERGOLA_TEST_DATA) + "/golden");
  EXPECT_NE(folder.status().message().find("config.json"), std::string::npos);
  EngineOptions options;
  options.isa = "sparc";
  EXPECT_EQ(Engine::Open(TinyModel("bert"), options).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pergola
