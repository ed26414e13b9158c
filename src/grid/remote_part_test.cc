// A model split over servers in this process: the same tokens as in one piece, and what happens
// when a server fails.
#include "grid/remote_part.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>

#include "engine/slicer.h"
#include "grid/frame_server.h"
#include "grid/part_service.h"

namespace pergola::grid {
namespace {

const std::string kModel = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/gemma3-causal";

// A part behind a port, which can damage its answers.
struct Server {
  std::unique_ptr<PartService> part;
  std::unique_ptr<FrameServer> server;
  std::atomic<bool> damage = false;

  std::string endpoint() const { return "127.0.0.1:" + std::to_string(server->port()); }
};

std::unique_ptr<Server> Serve(const PartOptions& options, const std::string& model = kModel,
                              const FrameServerOptions& serving = {}) {
  auto served = std::make_unique<Server>();
  auto part = PartService::Load(model, options);
  EXPECT_TRUE(part.ok()) << part.status().ToString();
  served->part = std::move(*part);
  auto server = FrameServer::Start(
      serving, [raw = served.get()](const FrameHeader& request, std::span<const std::byte> payload,
                                    std::string* answer) {
        const Status status = raw->part->Handle(request, payload, answer);
        if (status.ok() && raw->damage) answer->back() = static_cast<char>(answer->back() ^ 1);
        return status;
      });
  EXPECT_TRUE(server.ok()) << server.status().ToString();
  served->server = std::move(*server);
  return served;
}

PartOptions Ffn(int64_t first, int64_t last) {
  PartOptions options;
  options.role = Role::kFfn;
  options.layers = models::LayerRange{first, last};
  options.ops.num_threads = 1;
  return options;
}

PartOptions EmbedRole() {
  PartOptions options;
  options.ops.num_threads = 1;
  return options;
}

class RemotePartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine::LanguageModelOptions options;
    options.ops.num_threads = 1;
    model_ = *engine::LanguageModel::Load(kModel, options);
    options.embeddings = options.feed_forward = options.head = false;
    client_ = *engine::LanguageModel::Load(kModel, options);
    expected_.identity = *engine::IdentityOf(client_->checkpoint());
    expected_.numeric_class = client_->numeric_class();
    expected_.hidden_size = client_->config().hidden_size;
    expected_.num_layers = client_->config().num_layers;
    engine::Generator local(*model_, {});
    whole_ = *local.Generate(prompt_, options_);
  }
  Result<engine::Generation> Split(RemoteEmbed* embed, RemoteFfn* ffn) {
    engine::Generator generator(*client_, {.embed = embed, .ffn = ffn, .head = embed});
    return generator.Generate(prompt_, options_);
  }

  const std::vector<int32_t> prompt_ = {2, 824, 353, 827, 889, 612};
  engine::GenerateOptions options_{.max_tokens = 24, .stop_at_end = false, .sampling = {}};
  std::unique_ptr<engine::LanguageModel> model_, client_;
  ExpectedPart expected_;
  engine::Generation whole_;
};

TEST_F(RemotePartTest, GivesTheTokensAndLogitsOfOnePiece) {
  const auto embed_server = Serve(EmbedRole());
  const auto first = Serve(Ffn(0, 2)), second = Serve(Ffn(3, 6));
  const auto embed = RemoteEmbed::Connect(embed_server->endpoint(), expected_);
  const auto ffn =
      RemoteFfn::Connect({second->endpoint(), first->endpoint()}, expected_, PayloadType::kF32);
  ASSERT_TRUE(embed.ok() && ffn.ok()) << ffn.status().ToString();
  const auto split = Split(embed->get(), ffn->get());
  ASSERT_TRUE(split.ok()) << split.status().ToString();
  EXPECT_EQ(split->ids, whole_.ids);
  EXPECT_EQ(split->next.tokens, whole_.next.tokens);
  EXPECT_EQ(split->next.log_sum_exp, whole_.next.log_sum_exp);
  // The prefill's rows of a layer go at once: one call per layer and pass.
  EXPECT_EQ((*ffn)->times().calls, 24 * 7);
  // Drawing needs all logits, which are the same too.
  options_.sampling = {.temperature = 1, .seed = 3};
  engine::Generator local(*model_, {});
  EXPECT_EQ(Split(embed->get(), ffn->get())->ids, local.Generate(prompt_, options_)->ids);
}

TEST_F(RemotePartTest, AKeyIsShownOnEveryNewConnectionAndAWrongOneIsNoReasonToTryAgain) {
  std::atomic<int> admitted = 0, refused = 0;
  FrameServerOptions serving;
  serving.admits = [&](std::string_view key) {
    ++(key == "sk-1" ? admitted : refused);
    return key == "sk-1";
  };
  auto embed_server = Serve(EmbedRole(), kModel, serving);
  const auto ffn_server = Serve(Ffn(0, 6), kModel, serving);
  expected_.patience = std::chrono::hours(1);
  for (const char* key : {"", "sk-2"}) {
    expected_.key = key;
    const Status of_embed = RemoteEmbed::Connect(embed_server->endpoint(), expected_).status();
    const Status of_ffn =
        RemoteFfn::Connect({ffn_server->endpoint()}, expected_, PayloadType::kF32).status();
    for (const Status& status : {of_embed, of_ffn}) {
      EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
      EXPECT_NE(status.message().find("frames need a key"), std::string::npos) << status.message();
    }
    EXPECT_NE(of_ffn.message().find(ffn_server->endpoint()), std::string::npos);
  }
  EXPECT_EQ(refused, 4);
  expected_.key = "sk-1";
  const auto embed = RemoteEmbed::Connect(embed_server->endpoint(), expected_);
  const auto ffn = RemoteFfn::Connect({ffn_server->endpoint()}, expected_, PayloadType::kF32);
  ASSERT_TRUE(embed.ok() && ffn.ok()) << embed.status().ToString();
  EXPECT_EQ(Split(embed->get(), ffn->get())->ids, whole_.ids);
  EXPECT_EQ(admitted, 2);  // and not once a call
  // The server starts again at its port: the key goes with the new connection.
  serving.port = embed_server->server->port();
  embed_server.reset();
  embed_server = Serve(EmbedRole(), kModel, serving);
  EXPECT_EQ(Split(embed->get(), ffn->get())->ids, whole_.ids);
  EXPECT_EQ(admitted, 3);
  EXPECT_EQ(refused, 4);
}

TEST_F(RemotePartTest, AServerThatDiesIsReplacedByAnother) {
  const auto embed_server = Serve(EmbedRole());
  auto first = Serve(Ffn(0, 6));
  const auto second = Serve(Ffn(0, 6));
  const auto embed = RemoteEmbed::Connect(embed_server->endpoint(), expected_);
  const auto ffn =
      RemoteFfn::Connect({first->endpoint(), second->endpoint()}, expected_, PayloadType::kF32);
  ASSERT_TRUE(embed.ok() && ffn.ok());
  ASSERT_TRUE(Split(embed->get(), ffn->get()).ok());
  first.reset();
  const auto split = Split(embed->get(), ffn->get());
  ASSERT_TRUE(split.ok()) << split.status().ToString();
  EXPECT_EQ(split->ids, whole_.ids);
}

TEST_F(RemotePartTest, ADamagedAnswerIsNoticedAndAskedForElsewhere) {
  const auto first = Serve(Ffn(0, 6)), second = Serve(Ffn(0, 6));
  const auto embed_server = Serve(EmbedRole());
  const auto embed = RemoteEmbed::Connect(embed_server->endpoint(), expected_);
  const auto ffn =
      RemoteFfn::Connect({first->endpoint(), second->endpoint()}, expected_, PayloadType::kF32);
  ASSERT_TRUE(embed.ok() && ffn.ok());
  first->damage = true;
  const auto split = Split(embed->get(), ffn->get());
  ASSERT_TRUE(split.ok()) << split.status().ToString();
  EXPECT_EQ(split->ids, whole_.ids);
}

TEST_F(RemotePartTest, WithoutAnotherServerTheErrorNamesTheLayerAndTheSequenceIsKept) {
  const auto embed_server = Serve(EmbedRole());
  auto only = Serve(Ffn(0, 6));
  const int port = only->server->port();
  const auto embed = RemoteEmbed::Connect(embed_server->endpoint(), expected_);
  const auto ffn = RemoteFfn::Connect({only->endpoint()}, expected_, PayloadType::kF32);
  ASSERT_TRUE(embed.ok() && ffn.ok());
  engine::Generator generator(*client_,
                              {.embed = embed->get(), .ffn = ffn->get(), .head = embed->get()});
  ASSERT_TRUE(generator.Feed(prompt_).ok());
  only->server.reset();
  const std::vector<int32_t> next = {whole_.ids[0]};
  const Status status = generator.Feed(next);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("layer 0"), std::string::npos) << status.message();
  EXPECT_EQ(generator.length(), static_cast<int64_t>(prompt_.size()));
  // Back at the same address, it is used again and the text goes on.
  only->server = *FrameServer::Start(
      {.host = "127.0.0.1", .port = port},
      [&](const FrameHeader& request, std::span<const std::byte> payload, std::string* answer) {
        return only->part->Handle(request, payload, answer);
      });
  ASSERT_TRUE(generator.Feed(next).ok());
  EXPECT_EQ(generator.Top(1)->tokens.front().id, whole_.ids[1]);
}

TEST_F(RemotePartTest, APatientClientWaitsUntilSomebodyServesAgain) {
  const auto embed_server = Serve(EmbedRole());
  auto only = Serve(Ffn(0, 6));
  const int port = only->server->port();
  expected_.patience = std::chrono::seconds(60);
  const auto embed = RemoteEmbed::Connect(embed_server->endpoint(), expected_);
  const auto ffn = RemoteFfn::Connect({only->endpoint()}, expected_, PayloadType::kF32);
  ASSERT_TRUE(embed.ok() && ffn.ok());
  only->server.reset();
  std::thread later([&] {
    only->server = *FrameServer::Start(
        {.host = "127.0.0.1", .port = port},
        [&](const FrameHeader& request, std::span<const std::byte> payload, std::string* answer) {
          return only->part->Handle(request, payload, answer);
        });
  });
  const auto split = Split(embed->get(), ffn->get());
  later.join();
  ASSERT_TRUE(split.ok()) << split.status().ToString();
  EXPECT_EQ(split->ids, whole_.ids);
}

TEST_F(RemotePartTest, WidenedWeightsAreAnotherArithmetic) {
  PartOptions options = Ffn(0, 6);
  options.activations = kernels::ActivationPrecision::kF32;
  const auto widened = Serve(options);
  const Status status =
      RemoteFfn::Connect({widened->endpoint()}, expected_, PayloadType::kF32).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find(expected_.numeric_class + ", widened"), std::string::npos)
      << status.message();
}

TEST_F(RemotePartTest, AGapIsAnErrorThatNamesTheLayers) {
  const auto part = Serve(Ffn(0, 3));
  const auto ffn = RemoteFfn::Connect({part->endpoint()}, expected_, PayloadType::kF32);
  EXPECT_EQ(ffn.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(ffn.status().message().find("4, 5, 6"), std::string::npos);
}

TEST_F(RemotePartTest, NamedLayersAloneAreUsedAndMustBeThere) {
  const auto low = Serve(Ffn(0, 4)), high = Serve(Ffn(2, 6));
  const auto connect = [&](models::LayerRange a, models::LayerRange b) {
    return RemoteFfn::Connect({{low->endpoint(), a}, {high->endpoint(), b}}, expected_,
                              PayloadType::kF32);
  };
  EXPECT_TRUE(connect({0, 3}, {4, 6}).ok());
  const Status gap = connect({0, 1}, {3, 6}).status();
  EXPECT_EQ(gap.code(), StatusCode::kUnavailable);
  EXPECT_NE(gap.message().find("layers 2"), std::string::npos) << gap.message();
  const Status lacking = connect({0, 3}, {1, 6}).status();
  EXPECT_EQ(lacking.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(lacking.message().find("2-6, it is named for 1-6"), std::string::npos)
      << lacking.message();
}

TEST_F(RemotePartTest, PartsOfAnotherModelOrArithmeticAreRefusedWithBothValues) {
  const auto part = Serve(Ffn(0, 6));
  ExpectedPart other = expected_;
  other.identity = std::string(64, '7');
  Status status = RemoteFfn::Connect({part->endpoint()}, other, PayloadType::kF32).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find(other.identity), std::string::npos);
  EXPECT_NE(status.message().find(expected_.identity), std::string::npos);
  other = expected_;
  other.numeric_class = "f32 x f32, abacus";
  status = RemoteFfn::Connect({part->endpoint()}, other, PayloadType::kF32).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("abacus"), std::string::npos);
  EXPECT_EQ(RemoteEmbed::Connect(part->endpoint(), expected_).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(RemotePartTest, CoarserPayloadsAreNearButNotEqual) {
  const auto part = Serve(Ffn(0, 6));
  for (const PayloadType type : {PayloadType::kBF16, PayloadType::kI8}) {
    const auto ffn = RemoteFfn::Connect({part->endpoint()}, expected_, type);
    ASSERT_TRUE(ffn.ok());
    engine::Generator split(*model_, {.ffn = ffn->get()}), local(*model_, {});
    ASSERT_TRUE(split.Feed(prompt_).ok() && local.Feed(prompt_).ok());
    const auto actual = split.Logits(), expected = local.Logits();
    double worst = 0;
    for (size_t id = 0; id < actual->size(); ++id) {
      worst = std::max(worst, std::fabs(double((*actual)[id]) - (*expected)[id]));
    }
    EXPECT_GT(worst, 0) << PayloadTypeName(type);
    EXPECT_LT(worst, 0.1) << PayloadTypeName(type);
  }
}

TEST_F(RemotePartTest, RequestsThatAreWrongAreRefusedAndTheServerStays) {
  const auto server = Serve(EmbedRole());
  std::string answer;
  FrameHeader header{.kind = FrameKind::kEmbed};
  header.rows = 1;
  const int32_t id = 970;  // one more than the last
  const auto bytes = std::as_bytes(std::span(&id, 1));
  EXPECT_EQ(server->part->Handle(header, bytes, &answer).code(), StatusCode::kFailedPrecondition);
  header.identity = ShortIdentityOf(expected_.identity);
  EXPECT_EQ(server->part->Handle(header, bytes, &answer).code(), StatusCode::kInvalidArgument);
  header.rows = 2;
  EXPECT_EQ(server->part->Handle(header, bytes, &answer).code(), StatusCode::kInvalidArgument);
  header.kind = FrameKind::kFfn;
  EXPECT_EQ(server->part->Handle(header, bytes, &answer).code(), StatusCode::kUnimplemented);
  header.kind = FrameKind::kTop;
  EXPECT_EQ(server->part->Handle(header, bytes, &answer).code(), StatusCode::kInvalidArgument);
  // Noise ends a connection, not the server.
  auto noise = FrameConnection::Connect(
      server->endpoint(),
      {.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30)});
  ASSERT_TRUE(noise.ok());
  ASSERT_TRUE(noise->Send(std::string(64, 'x')).ok());
  std::vector<std::byte> payload;
  EXPECT_EQ(noise->Receive(&header, &payload).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(RemoteEmbed::Connect(server->endpoint(), expected_).ok());
}

}  // namespace
}  // namespace pergola::grid
