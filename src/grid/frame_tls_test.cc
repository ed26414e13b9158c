// Frames over TLS: who is trusted, and that nothing goes out in the clear.
#include "grid/frame_tls.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "grid/frame_connection.h"
#include "grid/frame_server.h"
#include "server/testing/self_signed.h"

namespace pergola::grid {
namespace {

using server::testing::Certificate;
using server::testing::MakeSelfSigned;

CallLimit Soon() {
  return {.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30)};
}

std::unique_ptr<FrameServer> Serve(const std::shared_ptr<const FrameTls>& tls) {
  FrameServerOptions options;
  options.tls = tls;
  return *FrameServer::Start(options, [](const FrameHeader& request,
                                         std::span<const std::byte> payload, std::string* answer) {
    FrameHeader header = request;
    header.answer = true;
    answer->clear();
    AppendBytesFrame(header, {reinterpret_cast<const char*>(payload.data()), payload.size()},
                     answer);
    return OkStatus();
  });
}

// Sends a frame of `bytes` and takes the same back.
Status Echo(const FrameServer& server, const std::string& scheme, const FrameTls* tls,
            size_t bytes = 3) {
  auto connection =
      FrameConnection::Connect(scheme + "127.0.0.1:" + std::to_string(server.port()), Soon(), tls);
  if (!connection.ok()) return connection.status();
  std::string frame;
  const std::string text(bytes, 'x');
  AppendBytesFrame({.kind = FrameKind::kEncode}, text, &frame);
  PERGOLA_RETURN_IF_ERROR(connection->Send(frame));
  FrameHeader header;
  std::vector<std::byte> payload;
  PERGOLA_RETURN_IF_ERROR(connection->Receive(&header, &payload));
  EXPECT_EQ(payload.size(), bytes);
  return OkStatus();
}

class FrameTlsTest : public ::testing::Test {
 protected:
  const Certificate ours_ = MakeSelfSigned(), other_ = MakeSelfSigned();
  const Certificate named_ = MakeSelfSigned("DNS:grid.example");
};

TEST_F(FrameTlsTest, CarriesFramesOfAnySizeToWhoIsTrusted) {
  const auto server = Serve(*FrameTls::Server({ours_.cert_pem, ours_.key_pem, ""}));
  const auto client = *FrameTls::Client({.ca_pem = ours_.cert_pem});
  for (const size_t bytes : {size_t{0}, size_t{3}, size_t{5'000'000}}) {
    EXPECT_TRUE(Echo(*server, "pergolas://", client.get(), bytes).ok()) << bytes;
  }
}

TEST_F(FrameTlsTest, RefusesAnotherAuthorityAnotherNameAndPlainTalk) {
  const auto server = Serve(*FrameTls::Server({ours_.cert_pem, ours_.key_pem, ""}));
  const auto stranger = *FrameTls::Client({.ca_pem = other_.cert_pem});
  Status status = Echo(*server, "pergolas://", stranger.get());
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_NE(status.message().find("not trusted"), std::string::npos) << status.message();
  const auto elsewhere = Serve(*FrameTls::Server({named_.cert_pem, named_.key_pem, ""}));
  const auto trusting = *FrameTls::Client({.ca_pem = named_.cert_pem});
  EXPECT_EQ(Echo(*elsewhere, "pergolas://", trusting.get()).code(), StatusCode::kUnauthenticated);
  EXPECT_FALSE(Echo(*server, "pergola://", nullptr).ok());
  EXPECT_EQ(Echo(*server, "pergolas://", nullptr).code(), StatusCode::kInvalidArgument);
  const auto plain = Serve(nullptr);
  const auto client = *FrameTls::Client({.ca_pem = ours_.cert_pem});
  EXPECT_FALSE(Echo(*plain, "pergolas://", client.get()).ok());
}

TEST_F(FrameTlsTest, AsksClientsForACertificateWhereAuthoritiesAreNamed) {
  const auto server = Serve(*FrameTls::Server({ours_.cert_pem, ours_.key_pem, other_.cert_pem}));
  const auto known = *FrameTls::Client({other_.cert_pem, other_.key_pem, ours_.cert_pem});
  EXPECT_TRUE(Echo(*server, "pergolas://", known.get()).ok());
  const auto nameless = *FrameTls::Client({.ca_pem = ours_.cert_pem});
  EXPECT_FALSE(Echo(*server, "pergolas://", nameless.get()).ok());
  const auto stranger = *FrameTls::Client({named_.cert_pem, named_.key_pem, ours_.cert_pem});
  EXPECT_FALSE(Echo(*server, "pergolas://", stranger.get()).ok());
  EXPECT_TRUE(Echo(*server, "pergolas://", known.get()).ok());
}

TEST_F(FrameTlsTest, RenewedCertificatesAreThoseOfConnectionsToCome) {
  const auto tls = *FrameTls::Server({ours_.cert_pem, ours_.key_pem, ""});
  const auto server = Serve(tls);
  const auto before = *FrameTls::Client({.ca_pem = ours_.cert_pem});
  auto standing = FrameConnection::Connect("pergolas://127.0.0.1:" + std::to_string(server->port()),
                                           Soon(), before.get());
  ASSERT_TRUE(standing.ok());
  EXPECT_EQ(tls->Renew({other_.cert_pem, ours_.key_pem, ""}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Echo(*server, "pergolas://", before.get()).ok());
  ASSERT_TRUE(tls->Renew({other_.cert_pem, other_.key_pem, ""}).ok());
  EXPECT_EQ(Echo(*server, "pergolas://", before.get()).code(), StatusCode::kUnauthenticated);
  ASSERT_TRUE(before->Renew({.ca_pem = other_.cert_pem}).ok());
  EXPECT_TRUE(Echo(*server, "pergolas://", before.get()).ok());
  std::string frame;
  AppendBytesFrame({.kind = FrameKind::kEncode}, "abc", &frame);
  FrameHeader header;
  std::vector<std::byte> payload;
  EXPECT_TRUE(standing->Send(frame).ok() && standing->Receive(&header, &payload).ok());
}

TEST_F(FrameTlsTest, TextsThatAreNoPemAreErrors) {
  EXPECT_EQ(FrameTls::Server({}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FrameTls::Server({"x", "y", ""}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FrameTls::Server({ours_.cert_pem, other_.key_pem, ""}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(FrameTls::Client({}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FrameTls::Client({.ca_pem = "x"}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pergola::grid
