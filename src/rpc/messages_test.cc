#include "rpc/messages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "pergola/v1/embedding.pb.h"

namespace pergola::rpc {
namespace {

using service::InferenceOutput;
using service::InferenceRequest;

InferenceRequest SomeRequest() {
  InferenceRequest request;
  request.model = "m";
  request.tenant = "7";
  request.priority = service::Priority::kBulk;
  request.outputs = {OutputKind::kEmbedding, OutputKind::kSparse};
  request.sequences = {{.ids = {1, 2, 2147483647}, .second_text = 2, .spans = {{0, 1}, {1, 3}}},
                       {.ids = {5}}};
  return request;
}

InferenceOutput SomeOutput() {
  InferenceOutput output;
  output.queue_time = std::chrono::nanoseconds(5);
  output.inference_time = std::chrono::nanoseconds(6);
  output.cache_hits = 1;
  service::SequenceOutput first;
  first[OutputKind::kEmbedding] = {
      2, 2, {1.5F, -0.0F, std::numeric_limits<float>::denorm_min(), 4}};
  first[OutputKind::kSparse] = {3, 1, {0, 1, 2}};
  service::SequenceOutput second;
  second[OutputKind::kEmbedding] = {1, 2, {7, 8}};
  second[OutputKind::kSparse] = {1, 1, {9}};
  output.sequences = {std::make_shared<const service::SequenceOutput>(first),
                      std::make_shared<const service::SequenceOutput>(second)};
  return output;
}

struct Exchanged {
  v1::InferRequest request;
  v1::InferResponse response;
};

Exchanged Some() {
  Exchanged some;
  EncodeRequest(SomeRequest(), &some.request);
  EncodeOutput(SomeOutput(), &some.response);
  return some;
}

TEST(RpcMessagesTest, RequestsComeBackTheSame) {
  v1::InferRequest message;
  const InferenceRequest request = SomeRequest();
  EncodeRequest(request, &message);
  v1::InferRequest received;
  ASSERT_TRUE(received.ParseFromString(message.SerializeAsString()));
  const Result<InferenceRequest> decoded = DecodeRequest(received);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->model, request.model);
  EXPECT_EQ(decoded->tenant, request.tenant);
  EXPECT_EQ(decoded->priority, request.priority);
  EXPECT_EQ(decoded->outputs, request.outputs);
  EXPECT_EQ(decoded->sequences, request.sequences);
}

TEST(RpcMessagesTest, NoOutputsMeansEmbeddings) {
  const Result<InferenceRequest> decoded = DecodeRequest({});
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->outputs, OutputSet{OutputKind::kEmbedding});
}

TEST(RpcMessagesTest, UnknownEnumValuesAreRefused) {
  v1::InferRequest message;
  message.add_outputs(static_cast<v1::OutputKind>(99));
  EXPECT_EQ(DecodeRequest(message).status().code(), StatusCode::kInvalidArgument);
  message.Clear();
  message.set_priority(static_cast<v1::Priority>(99));
  EXPECT_EQ(DecodeRequest(message).status().code(), StatusCode::kInvalidArgument);
  message.Clear();
  message.set_tenant(std::string(257, 't'));
  EXPECT_EQ(DecodeRequest(message).status().code(), StatusCode::kInvalidArgument);
}

TEST(RpcMessagesTest, OutputsComeBackBitForBit) {
  const Exchanged some = Some();
  const Result<InferenceOutput> decoded = DecodeOutput(some.request, some.response);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  const InferenceOutput output = SomeOutput();
  EXPECT_EQ(decoded->queue_time, output.queue_time);
  EXPECT_EQ(decoded->inference_time, output.inference_time);
  EXPECT_EQ(decoded->cache_hits, output.cache_hits);
  ASSERT_EQ(decoded->sequences.size(), 2U);
  for (size_t index = 0; index < 2; ++index) {
    for (const OutputKind kind : kOutputKinds) {
      const service::Rows& got = (*decoded->sequences[index])[kind];
      const service::Rows& sent = (*output.sequences[index])[kind];
      EXPECT_EQ(got.rows, sent.rows);
      EXPECT_EQ(got.width, sent.width);
      EXPECT_EQ(got.values, sent.values);
    }
  }
  EXPECT_TRUE(std::signbit((*decoded->sequences[0])[OutputKind::kEmbedding].values[1]));
}

TEST(RpcMessagesTest, AnswersToSomethingElseAreDataLoss) {
  const auto refused = [](const auto& damage) {
    Exchanged some = Some();
    damage(&some.response);
    return DecodeOutput(some.request, some.response).status().code() == StatusCode::kDataLoss;
  };
  EXPECT_TRUE(refused([](auto* m) { m->mutable_outputs()->RemoveLast(); }));
  EXPECT_TRUE(refused([](auto* m) { m->add_outputs(); }));
  EXPECT_TRUE(refused([](auto* m) { m->mutable_outputs(0)->mutable_rows()->RemoveLast(); }));
  const auto row = [](auto* m) { return m->mutable_outputs(0)->mutable_rows(0); };
  EXPECT_TRUE(refused([&](auto* m) { row(m)->mutable_values()->pop_back(); }));
  EXPECT_TRUE(refused([&](auto* m) { row(m)->set_rows(1); }));
  EXPECT_TRUE(refused([&](auto* m) { row(m)->set_width(0); }));
  EXPECT_TRUE(refused([&](auto* m) { row(m)->set_width(-2); }));
  EXPECT_TRUE(refused([&](auto* m) { row(m)->set_width(int64_t{1} << 62); }));
  EXPECT_TRUE(refused([&](auto* m) { row(m)->set_kind(static_cast<v1::OutputKind>(42)); }));
  EXPECT_FALSE(refused([](auto*) {}));
}

TEST(RpcMessagesTest, ModelsComeBackTheSame) {
  service::ModelInfo info;
  info.id = "m";
  info.architecture = "bert";
  info.numeric_class = "f32, avx2";
  info.widths = {4, 3, 0, 1, 2};
  info.max_tokens = 256;
  info.vocab_size = 1000;
  info.normalises = true;
  info.matryoshka_widths = {4, 2};
  info.parameters = 1;
  info.weight_bytes = 2;
  info.quantisation = "F32";
  info.file_sha256 = "ab";
  info.modified_unix_seconds = 3;
  info.int8_rule = service::Int8Rule::kTanh;
  info.labels = {"no", "yes"};
  info.pooling = "mean";
  info.multi_vector_begin = 1;
  info.chunk_separator = -1;
  info.multi_label = true;
  info.rows_identity = "cd";
  v1::ModelInfo message;
  EncodeModel(info, &message);
  const Result<service::ModelInfo> decoded = DecodeModel(message);
  ASSERT_TRUE(decoded.ok());
  v1::ModelInfo again;
  EncodeModel(*decoded, &again);
  EXPECT_EQ(again.SerializeAsString(), message.SerializeAsString());
  EXPECT_EQ(decoded->widths, info.widths);
  EXPECT_EQ(decoded->labels, info.labels);
  EXPECT_EQ(decoded->int8_rule, info.int8_rule);
  message.set_max_tokens(-1);
  EXPECT_EQ(DecodeModel(message).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace pergola::rpc
