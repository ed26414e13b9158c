#include "pergola/pergola.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
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

// Parts by the reference library, their mean by numpy (make_long_goldens.py).
TEST(EngineTest, LongTextsAreAveragedAsTheReferenceDoes) {
  const Engine engine = OpenTiny("bert");
  simdjson::dom::parser parser;
  simdjson::dom::element golden;
  ASSERT_EQ(parser.load(TinyModel("bert") + "/long.json").get(golden), simdjson::SUCCESS);
  std::vector<std::string> texts;
  for (const auto text : golden["texts"]) texts.emplace_back(std::string_view(text));
  EmbedOptions options;
  options.average_long = true;
  const auto rows = engine.Embed(texts, options);
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  EXPECT_EQ(rows->truncated(), 0);
  size_t index = 0;
  int64_t tokens = 0;
  for (const auto vector : golden["vectors"]) {
    std::vector<float> expected;
    for (const auto value : vector) expected.push_back(static_cast<float>(double(value)));
    EXPECT_GT(Dot((*rows)[index], expected), 0.99999f) << "text " << index;
    // The same bits alone.
    const auto alone = engine.Embed({texts[index]}, options);
    ASSERT_TRUE(alone.ok());
    EXPECT_TRUE(std::equal((*alone)[0].begin(), (*alone)[0].end(), (*rows)[index].begin()));
    for (const auto part : golden["parts"].at(index)) tokens += int64_t(part) + 2;
    ++index;
  }
  EXPECT_EQ(index, texts.size());
  EXPECT_EQ(rows->tokens(), tokens);
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

TEST(EngineTest, WeightsAreComputedInTheTypeThatIsAskedFor) {
  const std::vector<std::string> texts = {"a cat sat on the mat"};
  const auto embed = [&](const char* weights) {
    EngineOptions options;
    options.weights = weights;
    Result<Engine> engine = Engine::Open(TinyModel("bert"), options);
    EXPECT_TRUE(engine.ok()) << engine.status().ToString();
    const Embeddings rows = engine->Embed(texts).value();
    return std::vector<float>(rows[0].begin(), rows[0].end());
  };
  const std::vector<float> plain = embed("auto");
  EXPECT_EQ(embed("f32"), plain);
  for (const char* weights : {"bf16", "int8"}) {
    const std::vector<float> rounded = embed(weights);
    double cosine = 0, square = 0, rounded_square = 0;
    for (size_t i = 0; i < plain.size(); ++i) {
      cosine += double(plain[i]) * rounded[i];
      square += double(plain[i]) * plain[i];
      rounded_square += double(rounded[i]) * rounded[i];
    }
    EXPECT_GT(cosine / std::sqrt(square * rounded_square), 0.999) << weights;
    EXPECT_NE(rounded, plain) << weights;
  }
  EngineOptions options;
  options.weights = "int3";
  EXPECT_EQ(Engine::Open(TinyModel("bert"), options).status().code(), StatusCode::kInvalidArgument);
}

TEST(EngineTest, ErrorsNameThePath) {
  EXPECT_EQ(Engine::Open("/nonexistent/model").status().code(), StatusCode::kNotFound);
  const auto folder = Engine::Open(std::string(PERGOLA_TEST_DATA) + "/golden");
  EXPECT_NE(folder.status().message().find("config.json"), std::string::npos);
  EngineOptions options;
  options.isa = "sparc";
  EXPECT_EQ(Engine::Open(TinyModel("bert"), options).status().code(), StatusCode::kInvalidArgument);
}

// What a golden.json beside a tiny model holds of pairs and texts.
simdjson::dom::element ReadGolden(simdjson::dom::parser& parser, const std::string& name) {
  return parser.load(TinyModel(name) + "/golden.json");
}

std::vector<float> ReadFloats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// From the two texts to the reference's logit, by way of the model's own words for a pair.
TEST(EngineTest, RerankersScorePairsAsTheReferenceDoes) {
  const Engine engine = OpenTiny("qwen3-reranker");
  EXPECT_EQ(engine.labels().size(), 1u);
  EXPECT_EQ(engine.width(), 0);
  simdjson::dom::parser parser;
  const simdjson::dom::element golden =
      parser.load(TinyModel("qwen3-reranker") + "/templated.json");
  size_t count = 0;
  for (const simdjson::dom::element pair : golden["pairs"].get_array()) {
    const std::string query{std::string_view(pair["query"])};
    const std::vector<std::string> documents = {std::string(std::string_view(pair["passage"]))};
    const double logit = pair["logit"];
    const auto raw = engine.Score(query, documents, {.raw = true});
    ASSERT_TRUE(raw.ok()) << raw.status().ToString();
    EXPECT_NEAR((*raw)[0], logit, 1e-4) << "pair " << count;
    const auto score = engine.Score(query, documents);
    EXPECT_NEAR((*score)[0], 1 / (1 + std::exp(-logit)), 1e-4);
    const bool fits = engine.Score(query, documents, {.truncate = false}).ok();
    EXPECT_EQ(fits, !bool(pair["cut"]));
    ++count;
  }
  EXPECT_EQ(count, 9u);
  EXPECT_EQ(engine.Embed({"a"}).status().code(), StatusCode::kInvalidArgument);
}

TEST(EngineTest, OnePassGivesDenseSparseAndMultiVector) {
  const Engine engine = OpenTiny("bge-m3");
  ASSERT_TRUE(engine.gives_sparse() && engine.gives_multi_vector());
  simdjson::dom::parser parser;
  const simdjson::dom::element golden = ReadGolden(parser, "bge-m3");
  const std::vector<float> dense = ReadFloats(TinyModel("bge-m3") + "/golden.f32");
  const std::vector<float> sparse = ReadFloats(TinyModel("bge-m3") + "/sparse.f32");
  std::vector<std::string> texts;
  for (const simdjson::dom::element text : golden["texts"].get_array()) {
    texts.emplace_back(std::string_view(text));
  }
  const RepresentOptions options{.embed = {}, .sparse = true, .multi_vector = true};
  const auto all = engine.Represent(texts, options);
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  const auto width = static_cast<size_t>(engine.width());
  size_t token = 0;  // of all texts
  size_t index = 0;
  for (const simdjson::dom::element ids : golden["ids"].get_array()) {
    const Representation& made = (*all)[index];
    EXPECT_NEAR(Dot(made.dense, std::span(dense).subspan(index * width, width)), 1, 1e-5);
    std::map<int32_t, float> expected;
    for (const int64_t id : ids.get_array()) {
      float& weight = expected[static_cast<int32_t>(id)];
      weight = std::max(weight, sparse[token++]);
    }
    size_t found = 0;
    for (const TokenWeight& weight : made.sparse) {
      ASSERT_TRUE(expected.contains(weight.id));
      EXPECT_NEAR(weight.weight, expected[weight.id], 1e-4) << "text " << index;
      ++found;
    }
    // All but [CLS] (2), [SEP] (3) and what weighs nothing.
    const auto counted = std::count_if(expected.begin(), expected.end(), [](const auto& entry) {
      return entry.first > 4 && entry.second > 0;
    });
    EXPECT_EQ(found, static_cast<size_t>(counted)) << "text " << index;
    ++index;
  }
  EXPECT_EQ(engine.Represent(texts, {.embed = {}, .dense = false}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(EngineTest, ChunksAreEmbeddedInTheLightOfEachOther) {
  const Engine engine = OpenTiny("qwen3-contextual");
  simdjson::dom::parser parser;
  const std::vector<float> expected = ReadFloats(TinyModel("qwen3-contextual") + "/golden.f32");
  const auto width = static_cast<size_t>(engine.width());
  size_t row = 0;
  for (const simdjson::dom::element document :
       ReadGolden(parser, "qwen3-contextual")["documents"].get_array()) {
    std::vector<std::string> chunks;
    for (const simdjson::dom::element chunk : document.get_array()) {
      chunks.emplace_back(std::string_view(chunk));
    }
    const auto rows = engine.EmbedChunks(chunks);
    ASSERT_TRUE(rows.ok()) << rows.status().ToString();
    ASSERT_EQ(rows->size(), chunks.size());
    for (size_t chunk = 0; chunk < chunks.size(); ++chunk, ++row) {
      const std::span<const float> reference = std::span(expected).subspan(row * width, width);
      const std::span<const float> ours = (*rows)[chunk];
      const double norms = std::sqrt(double{Dot(ours, ours)} * Dot(reference, reference));
      EXPECT_GE(Dot(ours, reference) / norms, 0.999999) << "row " << row;
      EXPECT_NEAR(Dot(ours, ours), Dot(reference, reference), 1e-3);  // not brought to unit length
    }
  }
  EXPECT_EQ(row * width, expected.size());
  // Another model may pool its chunks apart if it takes means.
  EXPECT_TRUE(OpenTiny("bert").EmbedChunks(std::vector<std::string>{"a cat", "a dog"}).ok());
  EXPECT_EQ(
      OpenTiny("bert-cls").EmbedChunks(std::vector<std::string>{"a cat", "a dog"}).status().code(),
      StatusCode::kInvalidArgument);
}

TEST(EngineTest, LateInteractionRanksATextFirstForItself) {
  const Engine engine = OpenTiny("bge-m3");
  const std::vector<std::string> documents = {"a dog in the park", "naive caf\u00e9",
                                              "how to descale an espresso machine"};
  const auto scores = engine.Score("how to descale an espresso machine", documents);
  ASSERT_TRUE(scores.ok()) << scores.status().ToString();
  EXPECT_NEAR((*scores)[2], 1, 1e-6);
  EXPECT_GT((*scores)[2], (*scores)[0]);
  EXPECT_GT((*scores)[2], (*scores)[1]);
}

TEST(EngineTest, ClassesOfATextSumToOne) {
  const Engine engine = OpenTiny("bert-classifier");
  const auto classes = engine.Classify(std::vector<std::string>{"I like you", "rain"});
  ASSERT_TRUE(classes.ok()) << classes.status().ToString();
  ASSERT_EQ(classes->size(), 2u);
  for (const auto& labels : *classes) {
    ASSERT_EQ(labels.size(), engine.labels().size());
    float sum = 0;
    for (const LabelScore& label : labels) sum += label.score;
    EXPECT_NEAR(sum, 1, 1e-6);
  }
  EXPECT_EQ(OpenTiny("bert").Classify(std::vector<std::string>{"a"}).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pergola
