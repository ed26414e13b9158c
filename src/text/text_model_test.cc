#include "text/text_model.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/sparse_weights.h"

namespace pergola::text {
namespace {

using tokenizers::TruncationSide;

// The tiny BERT: [CLS] is 2, [SEP] is 3, a word may be several tokens.
class TextModelTest : public testing::Test {
 protected:
  static TextModel MakeModel(TextModelConfig config) {
    auto tokenizer = tokenizers::LoadTokenizerJson(std::string(PERGOLA_TEST_DATA) +
                                                   "/golden/tiny/bert/tokenizer.json");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    config.tokenizer = std::move(*tokenizer);
    if (config.vocab_size == 0) {
      config.vocab_size = static_cast<int64_t>(config.tokenizer->vocab_size());
    }
    return TextModel(std::move(config));
  }
  static TextModel MakeWithPrompts() {
    return MakeModel({.max_tokens = 64,
                      .prompts = {{"query", "q: "}, {"document", "d: "}, {"Clustering", "c: "}}});
  }
};

TEST_F(TextModelTest, EmptyTextIsTheSpecialTokens) {
  const TextModel model = MakeModel({.max_tokens = 8});
  const auto prepared = model.Prepare("", {});
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->sequence.ids, (std::vector<int32_t>{2, 3}));
  EXPECT_FALSE(prepared->truncated);
}

TEST_F(TextModelTest, RefusesLongTextsWithCountAndLimit) {
  const TextModel model = MakeModel({.max_tokens = 8});
  EXPECT_EQ(model.Prepare("a a a a a a a", {}).status(),
            InvalidArgumentError("input has 9 tokens, the limit is 8; set truncate to cut it"));
  std::string huge;
  for (int i = 0; i < 100000; ++i) huge += "a ";
  const Status status = model.Prepare(huge, {}).status();
  EXPECT_TRUE(status.message().starts_with("input has at least ")) << status.message();
  EXPECT_TRUE(status.message().ends_with(" tokens, the limit is 8; set truncate to cut it"));
  EXPECT_TRUE(model.Prepare("a a a a a a", {}).ok());
}

TEST_F(TextModelTest, PartsAreFilledInOrderWithinTheirOwnSpecialTokens) {
  const TextModel model = MakeModel({.max_tokens = 5, .prompts = {{"query", "b "}}});
  const auto a = model.tokenizer().TokenToId("a");
  const auto b = model.tokenizer().TokenToId("b");
  auto parts = model.PrepareParts("a a a a b b b", {});
  ASSERT_TRUE(parts.ok()) << parts.status().ToString();
  ASSERT_EQ(parts->sequences.size(), 3u);
  EXPECT_EQ(parts->sequences[0].ids, (std::vector<int32_t>{2, a, a, a, 3}));
  EXPECT_EQ(parts->sequences[1].ids, (std::vector<int32_t>{2, a, b, b, 3}));
  EXPECT_EQ(parts->sequences[2].ids, (std::vector<int32_t>{2, b, 3}));
  EXPECT_EQ(parts->tokens, (std::vector<int64_t>{3, 3, 1}));
  // The prompt stands before the whole text.
  parts = model.PrepareParts("a a a", {.prompt_name = "query"});
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->sequences.size(), 2u);
  EXPECT_EQ(parts->sequences[0].ids, (std::vector<int32_t>{2, b, a, a, 3}));
  // What fits is one part, as Prepare() makes it.
  for (const std::string text : {"", "a b a"}) {
    parts = model.PrepareParts(text, {});
    ASSERT_TRUE(parts.ok());
    ASSERT_EQ(parts->sequences.size(), 1u);
    EXPECT_EQ(parts->sequences[0].ids, model.Prepare(text, {})->sequence.ids);
    EXPECT_GE(parts->tokens[0], 1);
  }
  EXPECT_EQ(model.PrepareParts("a a", {.max_tokens = 2}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(TextModelTest, CutsFromTheSideThatIsAskedFor) {
  const TextModel model = MakeModel({.max_tokens = 5});
  const auto whole = model.tokenizer().TokenToId("a");
  const auto last = model.tokenizer().TokenToId("b");
  const std::string text = "a a a a a b b b b b";
  PrepareOptions options{.truncate = true};
  auto prepared = model.Prepare(text, options);
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->sequence.ids, (std::vector<int32_t>{2, whole, whole, whole, 3}));
  EXPECT_TRUE(prepared->truncated);
  options.side = TruncationSide::kLeft;
  prepared = model.Prepare(text, options);
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->sequence.ids, (std::vector<int32_t>{2, last, last, last, 3}));
  options.max_tokens = 3;
  options.add_special_tokens = false;
  prepared = model.Prepare(text, options);
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->sequence.ids, (std::vector<int32_t>{last, last, last}));
  options.max_tokens = 100;  // the model's own limit is lower
  EXPECT_EQ(model.Prepare(text, options)->sequence.ids.size(), 5u);
  options.max_tokens = 0;
  EXPECT_EQ(model.Prepare(text, options).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(TextModelTest, RolesOfAllDialectsFindTheirPrompt) {
  const TextModel model = MakeWithPrompts();
  const auto prompt = [&](const PrepareOptions& options) {
    return model.ResolvePrompt(options).value();
  };
  for (const char* role : {"search_query", "retrieval.query", "query", "Query"}) {
    EXPECT_EQ(prompt({.role = role}), "q: ") << role;
  }
  for (const char* role : {"search_document", "retrieval.passage", "document"}) {
    EXPECT_EQ(prompt({.role = role}), "d: ") << role;
  }
  EXPECT_EQ(prompt({.role = "clustering"}), "c: ");
  EXPECT_EQ(prompt({.role = "classification"}), "");
  EXPECT_EQ(prompt({}), "");
  EXPECT_EQ(prompt({.prompt_name = "query"}), "q: ");
  EXPECT_EQ(prompt({.prompt_name = "query", .prompt = "free "}), "free ");
  EXPECT_EQ(prompt({.prompt_name = "query", .role = "document"}), "q: ");
}

TEST_F(TextModelTest, UnknownPromptNameIsRefusedWithTheKnownOnes) {
  const Status status = MakeWithPrompts().Prepare("a", {.prompt_name = "nope"}).status();
  EXPECT_EQ(status, InvalidArgumentError(
                        "unknown prompt 'nope'; the model has Clustering, document, query"));
  EXPECT_EQ(MakeWithPrompts().Prepare("a", {.prompt_name = "nope", .prompt = "free "}).status(),
            status);
  const Status none = MakeModel({.max_tokens = 8}).Prepare("a", {.prompt_name = "query"}).status();
  EXPECT_EQ(none, InvalidArgumentError("unknown prompt 'query'; the model has none"));
}

TEST_F(TextModelTest, RoleOnAModelWithoutPromptsIsIgnored) {
  const TextModel model = MakeModel({.max_tokens = 8});
  EXPECT_EQ(model.Prepare("a", {.role = "search_query"})->sequence.ids,
            model.Prepare("a", {})->sequence.ids);
}

TEST_F(TextModelTest, DefaultPromptIsPutBeforeTheText) {
  const TextModel plain = MakeWithPrompts();
  TextModelConfig config = plain.config();
  config.default_prompt_name = "query";
  const TextModel model(config);
  EXPECT_EQ(model.Prepare("a", {})->sequence.ids, plain.Prepare("q: a", {})->sequence.ids);
  EXPECT_EQ(model.Prepare("a", {.role = "document"})->sequence.ids,
            plain.Prepare("d: a", {})->sequence.ids);
  EXPECT_EQ(model.Prepare("a", {.prompt = ""})->sequence.ids, plain.Prepare("a", {})->sequence.ids);
}

TEST_F(TextModelTest, TokenOutsideTheEmbeddingTableIsNamed) {
  const TextModel model = MakeModel({.max_tokens = 8, .vocab_size = 4});
  const Status status = model.Prepare("[MASK]", {}).status();
  EXPECT_EQ(status,
            InvalidArgumentError("token id 4 ('[MASK]') at position 1 is outside the model's "
                                 "vocabulary of 4"));
}

TEST_F(TextModelTest, InvalidUtf8IsRefusedWithItsPlace) {
  const Status status = MakeModel({.max_tokens = 8}).Prepare("ab\xff", {}).status();
  EXPECT_EQ(status, InvalidArgumentError("the text is not valid UTF-8 at byte 2"));
}

TEST_F(TextModelTest, IdsAreUsedAsSent) {
  const TextModel model = MakeModel({.max_tokens = 4});
  EXPECT_EQ(model.PrepareIds({5, 6}, {})->sequence.ids, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(model.PrepareIds({1000}, {}).status(),
            InvalidArgumentError(
                "token id 1000 at position 0 is outside the model's vocabulary of 1000"));
  EXPECT_EQ(model.PrepareIds({5, -1}, {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(model.PrepareIds({}, {}).status().code(), StatusCode::kInvalidArgument);
  const std::vector<int32_t> five = {5, 6, 7, 8, 9};
  EXPECT_EQ(model.PrepareIds(five, {}).status(),
            InvalidArgumentError("input has 5 tokens, the limit is 4; set truncate to cut it"));
  PrepareOptions options{.truncate = true};
  EXPECT_EQ(model.PrepareIds(five, options)->sequence.ids, (std::vector<int32_t>{5, 6, 7, 8}));
  options.side = TruncationSide::kLeft;
  EXPECT_EQ(model.PrepareIds(five, options)->sequence.ids, (std::vector<int32_t>{6, 7, 8, 9}));
  EXPECT_TRUE(model.PrepareIds(five, options)->truncated);
}

TEST_F(TextModelTest, PairsTellWhereTheSecondTextBegins) {
  const TextModel model = MakeModel({.max_tokens = 32});
  const auto first = model.Prepare("the quick", {});
  const auto second = model.Prepare("brown fox", {});
  const auto pair = model.PreparePair("the quick", "brown fox", {});
  ASSERT_TRUE(pair.ok());
  std::vector<int32_t> joined = first->sequence.ids;
  EXPECT_EQ(pair->sequence.second_text, static_cast<int32_t>(joined.size()));
  joined.insert(joined.end(), second->sequence.ids.begin() + 1, second->sequence.ids.end());
  EXPECT_EQ(pair->sequence.ids, joined);
  EXPECT_FALSE(pair->truncated);
}

TEST_F(TextModelTest, PairsAreCutOnlyWhenAllowed) {
  const TextModel model = MakeModel({.max_tokens = 8});
  std::string text;
  for (int word = 0; word < 20; ++word) text += "fox ";
  const auto refused = model.PreparePair("the", text, {});
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  const auto cut = model.PreparePair("the", text, {.truncate = true});
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->sequence.ids.size(), 8u);
  EXPECT_TRUE(cut->truncated);
  // The second text alone has a limit: the pair then fits.
  const auto shorter = model.PreparePair("the", text, {}, 1);
  ASSERT_TRUE(shorter.ok()) << shorter.status().ToString();
  EXPECT_TRUE(shorter->truncated);
  EXPECT_LT(shorter->sequence.ids.size(), 8u);
}

TEST_F(TextModelTest, TemplatesFrameAPairAndOnlyTheBodyIsCut) {
  TextModelConfig config{.max_tokens = 40};
  config.pair_template = PairTemplate{"the", "{instruction} {query} fox {document}", "quick", "a"};
  const TextModel model = MakeModel(config);
  const auto plain = [&model](std::string_view text) {
    return model.Prepare(text, {.add_special_tokens = false})->sequence.ids;
  };
  const auto pair = model.PreparePair("brown", "{query}", {.truncate = true});
  ASSERT_TRUE(pair.ok()) << pair.status().ToString();
  std::vector<int32_t> ids = plain("the");
  // A query that looks like a field stays what it is.
  for (const int32_t id : plain("a brown fox {query}")) ids.push_back(id);
  for (const int32_t id : plain("quick")) ids.push_back(id);
  ASSERT_LE(ids.size(), 40u);
  EXPECT_EQ(pair->sequence.ids, ids);
  EXPECT_EQ(pair->sequence.second_text, 0);

  std::string text;
  for (int word = 0; word < 60; ++word) text += "fox ";
  EXPECT_EQ(model.PreparePair("a", text, {}).status().code(), StatusCode::kInvalidArgument);
  const auto cut = model.PreparePair("a", text, {.truncate = true});
  ASSERT_TRUE(cut.ok());
  EXPECT_TRUE(cut->truncated);
  EXPECT_EQ(cut->sequence.ids.size(), 40u);
  EXPECT_EQ(cut->sequence.ids.back(), plain("quick").back());
}

TEST_F(TextModelTest, DocumentsAreChunksWithinOneFrame) {
  const TextModel model = MakeModel({.max_tokens = 32});
  const std::vector<std::string> chunks = {"the quick", "fox"};
  const auto whole = model.Prepare("the quick fox", {});
  const auto plain = model.PrepareDocument(chunks, -1, {});
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->sequence.ids, whole->sequence.ids);
  const std::vector<TokenSpan>& spans = plain->sequence.spans;
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].begin, 1);
  EXPECT_EQ(spans[0].end, spans[1].begin);
  EXPECT_EQ(spans[1].end, static_cast<int32_t>(whole->sequence.ids.size()) - 1);

  const auto separated = model.PrepareDocument(chunks, 7, {});
  ASSERT_TRUE(separated.ok());
  EXPECT_EQ(separated->sequence.spans[1].begin, spans[0].end + 1);
  EXPECT_EQ(separated->sequence.ids[static_cast<size_t>(spans[0].end)], 7);
}

TEST_F(TextModelTest, DocumentsThatCannotBeEmbeddedWholeAreRefused) {
  const TextModel model = MakeModel({.max_tokens = 8});
  const std::vector<std::string> long_chunks = {"the", "fox fox fox fox fox fox fox fox"};
  for (const bool truncate : {false, true}) {
    const auto refused = model.PrepareDocument(long_chunks, -1, {.truncate = truncate});
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refused.status().message().find("the limit is 8"), std::string::npos);
  }
  const std::vector<std::string> empty_chunk = {"the", ""};
  EXPECT_EQ(model.PrepareDocument(empty_chunk, -1, {}).status().message(), "chunk 1 has no tokens");
  EXPECT_EQ(model.PrepareDocument({}, -1, {}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(TextModelTest, SparseWeightsAreTheLargestOfEachTokenWithoutSpecialOnes) {
  const TextModel model = MakeModel({.max_tokens = 8});
  const std::vector<int32_t> ids = {2, 50, 40, 50, 60, 3};
  const std::vector<float> weights = {9.0f, 0.5f, 1.0f, 0.75f, 0.0f, 9.0f};
  EXPECT_EQ(FoldSparse(ids, weights, model.tokenizer()),
            (std::vector<SparseWeight>{{40, 1.0f}, {50, 0.75f}}));
}

}  // namespace
}  // namespace pergola::text
