#include "server/tei_calls.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tei/v1/tei.pb.h"
#include "tokenizers/tokenizer.h"

namespace pergola::server {
namespace {

namespace v1 = tei::v1;

// Gives each kind of output that is asked for, from the number of the sequence in the request.
class FakeService : public service::InferenceService {
 public:
  void Submit(service::InferenceRequest request, service::InferenceCallback done) override {
    ++requests;
    last = request;
    service::InferenceOutput output;
    for (const Sequence& sequence : request.sequences) {
      auto rows = std::make_shared<service::SequenceOutput>();
      const auto number = static_cast<float>(output.sequences.size());
      if (request.outputs.Has(OutputKind::kEmbedding)) {
        (*rows)[OutputKind::kEmbedding] = {1, 4, {3, 4, 0, 0}};
      }
      if (request.outputs.Has(OutputKind::kTokenVectors)) {
        (*rows)[OutputKind::kTokenVectors] = {sequence.tokens(), 2,
                                              std::vector<float>(2 * sequence.ids.size(), 0.5F)};
      }
      if (request.outputs.Has(OutputKind::kLogits)) {
        (*rows)[OutputKind::kLogits] = {1, labels, {}};
        for (int64_t label = 0; label < labels; ++label) {
          (*rows)[OutputKind::kLogits].values.push_back(number + static_cast<float>(label));
        }
      }
      output.sequences.push_back(std::move(rows));
    }
    done(std::move(output));
  }
  std::vector<service::ModelInfo> Models() const override { return {}; }

  int requests = 0;
  int64_t labels = 1;
  service::InferenceRequest last;
};

class TeiCallsTest : public ::testing::Test {
 protected:
  void Start(int64_t labels) {
    auto tokenizer = tokenizers::LoadTokenizerJson(std::string(PERGOLA_TEST_DATA) +
                                                   "/golden/tiny/bert/tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    text::TextModelConfig config;
    config.tokenizer = std::move(*tokenizer);
    config.max_tokens = 16;
    config.vocab_size = static_cast<int64_t>(config.tokenizer->vocab_size());
    model_.text = std::make_shared<text::TextModel>(std::move(config));
    model_.service = fake_;
    model_.info.id = "tiny";
    model_.info.max_tokens = 16;
    model_.info.widths = {4, 2, labels, 0, 0};
    model_.info.matryoshka_widths = {2};
    fake_->labels = labels;
    for (int64_t label = 0; label < labels; ++label) {
      model_.info.labels.push_back("label " + std::to_string(label));
    }
    calls_ = std::make_unique<TeiCalls>(model_, [this] { ++answered_; });
  }
  template <typename Request, typename Response>
  StatusCode Call(void (TeiCalls::*method)(const Request&, const CallScope&, Response*,
                                           TeiCalls::Done) const,
                  const Request& request, Response* response) {
    StatusCode code = StatusCode::kUnknown;
    ((*calls_).*method)(request, {}, response, [&](const Status& status) { code = status.code(); });
    return code;
  }

  std::shared_ptr<FakeService> fake_ = std::make_shared<FakeService>();
  ServedModel model_;
  std::unique_ptr<TeiCalls> calls_;
  int answered_ = 0;
};

v1::EmbedRequest Ask(const std::string& text) {
  v1::EmbedRequest request;
  request.set_inputs(text);
  return request;
}

TEST_F(TeiCallsTest, EmbeddingsAreNormalisedUnlessToldNotTo) {
  Start(0);
  v1::EmbedResponse response;
  ASSERT_EQ(Call(&TeiCalls::Embed, Ask("a cat"), &response), StatusCode::kOk);
  ASSERT_EQ(response.embeddings_size(), 4);
  EXPECT_FLOAT_EQ(response.embeddings(0), 0.6F);
  EXPECT_EQ(response.metadata().compute_chars(), 5U);
  EXPECT_EQ(static_cast<int64_t>(response.metadata().compute_tokens()),
            fake_->last.sequences[0].tokens());
  EXPECT_EQ(answered_, 1);
  v1::EmbedRequest raw = Ask("a cat");
  raw.set_normalize(false);
  ASSERT_EQ(Call(&TeiCalls::Embed, raw, &response), StatusCode::kOk);
  EXPECT_FLOAT_EQ(response.embeddings(0), 3);
}

TEST_F(TeiCallsTest, DimensionsAreThoseTheModelWasTrainedFor) {
  Start(0);
  v1::EmbedResponse response;
  v1::EmbedRequest request = Ask("a cat");
  for (const auto& [dimensions, code] :
       std::vector<std::pair<uint32_t, StatusCode>>{{2, StatusCode::kOk},
                                                    {4, StatusCode::kOk},
                                                    {0, StatusCode::kInvalidArgument},
                                                    {3, StatusCode::kInvalidArgument},
                                                    {5, StatusCode::kInvalidArgument}}) {
    request.set_dimensions(dimensions);
    EXPECT_EQ(Call(&TeiCalls::Embed, request, &response), code) << dimensions;
    if (code == StatusCode::kOk) {
      EXPECT_EQ(response.embeddings_size(), static_cast<int>(dimensions));
    }
  }
}

TEST_F(TeiCallsTest, BadInputsAreRefusedBeforeTheModelIsAsked) {
  Start(0);
  v1::EmbedResponse response;
  EXPECT_EQ(Call(&TeiCalls::Embed, Ask(""), &response), StatusCode::kInvalidArgument);
  std::string text;
  for (int i = 0; i < 40; ++i) text += "cat ";
  v1::EmbedRequest request = Ask(text);
  EXPECT_EQ(Call(&TeiCalls::Embed, request, &response), StatusCode::kInvalidArgument);
  request.set_truncate(true);
  request.set_truncation_direction(static_cast<v1::TruncationDirection>(9));
  EXPECT_EQ(Call(&TeiCalls::Embed, request, &response), StatusCode::kInvalidArgument);
  EXPECT_EQ(fake_->requests, 0);
  request.set_truncation_direction(v1::TRUNCATION_DIRECTION_LEFT);
  EXPECT_EQ(Call(&TeiCalls::Embed, request, &response), StatusCode::kOk);
  EXPECT_EQ(fake_->last.sequences[0].tokens(), 16);
}

TEST_F(TeiCallsTest, WhatTheModelLacksIsAPrecondition) {
  Start(0);
  v1::PredictResponse predicted;
  v1::PredictRequest predict;
  predict.set_inputs("a");
  EXPECT_EQ(Call(&TeiCalls::Predict, predict, &predicted), StatusCode::kFailedPrecondition);
  v1::RerankResponse ranked;
  EXPECT_EQ(Call(&TeiCalls::Rerank, v1::RerankRequest(), &ranked), StatusCode::kFailedPrecondition);
  v1::EmbedSparseResponse sparse;
  EXPECT_EQ(Call(&TeiCalls::EmbedSparse, v1::EmbedSparseRequest(), &sparse),
            StatusCode::kFailedPrecondition);
}

TEST_F(TeiCallsTest, PredictionsComeBestFirst) {
  Start(3);
  v1::PredictRequest request;
  request.set_inputs("a cat");
  request.set_raw_scores(true);
  v1::PredictResponse response;
  ASSERT_EQ(Call(&TeiCalls::Predict, request, &response), StatusCode::kOk);
  ASSERT_EQ(response.predictions_size(), 3);
  EXPECT_EQ(response.predictions(0).label(), "label 2");
  EXPECT_FLOAT_EQ(response.predictions(0).score(), 2);
  request.set_raw_scores(false);
  response.Clear();
  ASSERT_EQ(Call(&TeiCalls::Predict, request, &response), StatusCode::kOk);
  float sum = 0;
  for (const v1::Prediction& prediction : response.predictions()) sum += prediction.score();
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST_F(TeiCallsTest, RanksComeBestFirstWithTheirTexts) {
  Start(1);
  v1::RerankRequest request;
  request.set_query("a");
  for (const char* text : {"cat", "dog", "sun"}) request.add_texts(text);
  request.set_return_text(true);
  v1::RerankResponse response;
  ASSERT_EQ(Call(&TeiCalls::Rerank, request, &response), StatusCode::kOk);
  ASSERT_EQ(response.ranks_size(), 3);
  EXPECT_EQ(response.ranks(0).index(), 2U);
  EXPECT_EQ(response.ranks(0).text(), "sun");
  EXPECT_NEAR(response.ranks(0).score(), 1 / (1 + std::exp(-2.0)), 1e-6);
}

TEST_F(TeiCallsTest, TokenizesWithOffsetsAndDecodes) {
  Start(0);
  v1::EncodeRequest request;
  request.set_inputs("a cat");
  request.set_add_special_tokens(true);
  v1::EncodeResponse response;
  ASSERT_EQ(Call(&TeiCalls::Tokenize, request, &response), StatusCode::kOk);
  ASSERT_GT(response.tokens_size(), 2);
  EXPECT_TRUE(response.tokens(0).special());
  EXPECT_FALSE(response.tokens(0).has_start());
  EXPECT_EQ(response.tokens(1).text(), "a");
  EXPECT_EQ(response.tokens(1).start(), 0U);
  v1::DecodeRequest decode;
  decode.set_skip_special_tokens(true);
  for (const v1::SimpleToken& token : response.tokens()) decode.add_ids(token.id());
  v1::DecodeResponse decoded;
  ASSERT_EQ(Call(&TeiCalls::Decode, decode, &decoded), StatusCode::kOk);
  EXPECT_EQ(decoded.text(), "a cat");
  decode.add_ids(4'000'000'000U);
  EXPECT_EQ(Call(&TeiCalls::Decode, decode, &decoded), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pergola::server
