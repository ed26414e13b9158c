// How a server of frames stops, and that a peer cannot make a call wait for ever.
#include "grid/frame_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "grid/frame_connection.h"

namespace pergola::grid {
namespace {

CallLimit Within(std::chrono::milliseconds time) {
  return {.deadline = std::chrono::steady_clock::now() + time};
}

// Answers after it has been let go.
struct Gate {
  std::atomic<int> entered = 0;
  std::atomic<bool> open = false;

  FrameHandler Handler() {
    return [this](const FrameHeader& request, std::span<const std::byte>, std::string* answer) {
      ++entered;
      entered.notify_all();
      open.wait(false);
      FrameHeader header = request;
      header.answer = true;
      answer->clear();
      AppendBytesFrame(header, "done", answer);
      return OkStatus();
    };
  }
  void Open() {
    open = true;
    open.notify_all();
  }
};

Result<FrameConnection> AskStats(const FrameServer& server) {
  auto connection = FrameConnection::Connect("127.0.0.1:" + std::to_string(server.port()),
                                             Within(std::chrono::seconds(30)));
  std::string frame;
  AppendBytesFrame({.kind = FrameKind::kStats}, "", &frame);
  if (connection.ok()) PERGOLA_RETURN_IF_ERROR(connection->Send(frame));
  return connection;
}

TEST(FrameServerTest, ADrainWaitsForAnswersAndThenNothingMoreIsAsked) {
  Gate gate;
  const auto server = FrameServer::Start({}, gate.Handler());
  ASSERT_TRUE(server.ok());
  auto connection = AskStats(**server);
  ASSERT_TRUE(connection.ok());
  gate.entered.wait(0);
  std::thread drain([&] { EXPECT_TRUE((*server)->Drain(std::chrono::seconds(30))); });
  gate.Open();
  drain.join();
  FrameHeader header;
  std::vector<std::byte> payload;
  EXPECT_TRUE(connection->Receive(&header, &payload).ok());
  EXPECT_EQ(payload.size(), 4u);
  EXPECT_EQ(connection->Receive(&header, &payload).code(), StatusCode::kUnavailable);
  EXPECT_FALSE(AskStats(**server).ok());
}

TEST(FrameServerTest, ADrainEndsAtItsLimit) {
  Gate gate;
  const auto server = FrameServer::Start({}, gate.Handler());
  ASSERT_TRUE(server.ok());
  const auto connection = AskStats(**server);
  ASSERT_TRUE(connection.ok());
  gate.entered.wait(0);
  EXPECT_FALSE((*server)->Drain(std::chrono::milliseconds(20)));
  gate.Open();
}

FrameHandler Echo() {
  return [](const FrameHeader& request, std::span<const std::byte>, std::string* answer) {
    FrameHeader header = request;
    header.answer = true;
    answer->clear();
    AppendBytesFrame(header, "done", answer);
    return OkStatus();
  };
}

Result<FrameConnection> ConnectTo(const FrameServer& server) {
  return FrameConnection::Connect("127.0.0.1:" + std::to_string(server.port()),
                                  Within(std::chrono::seconds(30)));
}

Status Ask(FrameConnection& connection) {
  std::string frame;
  AppendBytesFrame({.kind = FrameKind::kStats}, "", &frame);
  PERGOLA_RETURN_IF_ERROR(connection.Send(frame));
  FrameHeader header;
  std::vector<std::byte> payload;
  return connection.Receive(&header, &payload);
}

TEST(FrameServerTest, AConnectionThatNeverAsksIsClosedOneThatRestsIsNot) {
  FrameServerOptions options;
  options.first_frame_timeout = std::chrono::milliseconds(50);
  const auto server = FrameServer::Start(options, Echo());
  ASSERT_TRUE(server.ok());
  auto resting = ConnectTo(**server);
  ASSERT_TRUE(resting.ok());
  ASSERT_TRUE(Ask(*resting).ok());
  auto silent = ConnectTo(**server);
  ASSERT_TRUE(silent.ok());
  FrameHeader header;
  std::vector<std::byte> payload;
  EXPECT_EQ(silent->Receive(&header, &payload).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Ask(*resting).ok());
}

TEST(FrameServerTest, ConnectionsThatNeverAskMakeRoomAndThoseThatDidStay) {
  FrameServerOptions options;
  options.max_connections = 3;
  options.first_frame_timeout = std::chrono::hours(1);
  const auto server = FrameServer::Start(options, Echo());
  ASSERT_TRUE(server.ok());
  auto peer = ConnectTo(**server);
  ASSERT_TRUE(peer.ok());
  ASSERT_TRUE(Ask(*peer).ok());
  std::vector<FrameConnection> silent;
  for (int i = 0; i < 20; ++i) {
    auto connection = ConnectTo(**server);
    ASSERT_TRUE(connection.ok());
    silent.push_back(std::move(*connection));
  }
  std::vector<FrameConnection> late;
  for (int i = 0; i < 2; ++i) {
    auto connection = ConnectTo(**server);
    ASSERT_TRUE(connection.ok());
    EXPECT_TRUE(Ask(*connection).ok());
    late.push_back(std::move(*connection));
  }
  // All places are taken by peers that have asked: nobody is sent away for a newcomer.
  auto refused = ConnectTo(**server);
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(Ask(*refused).code(), StatusCode::kUnavailable);
  for (FrameConnection& connection : late) EXPECT_TRUE(Ask(connection).ok());
  EXPECT_TRUE(Ask(*peer).ok());
}

// A server that wants the key "right" and tells what it is asked.
struct Keyed {
  std::atomic<int> asked = 0;
  std::atomic<int> answered = 0;
  std::unique_ptr<FrameServer> server;

  Keyed() {
    FrameServerOptions options;
    options.admits = [this](std::string_view key) {
      ++asked;
      return key == "right";
    };
    auto started = FrameServer::Start(
        options,
        [this](const FrameHeader& request, std::span<const std::byte>, std::string* answer) {
          ++answered;
          FrameHeader header = request;
          header.answer = true;
          answer->clear();
          AppendBytesFrame(header, "done", answer);
          return OkStatus();
        });
    EXPECT_TRUE(started.ok());
    server = std::move(*started);
  }
};

// The message of the error frame that `frame` is answered by; the connection must end behind it.
std::string RefusalOf(const FrameServer& server, const std::string& frame) {
  auto connection = ConnectTo(server);
  EXPECT_TRUE(connection.ok() && connection->Send(frame).ok());
  FrameHeader header;
  std::vector<std::byte> payload;
  const Status status = connection->Receive(&header, &payload);
  if (!status.ok()) return status.ToString();
  EXPECT_EQ(header.kind, FrameKind::kError);
  EXPECT_TRUE(header.answer);
  uint32_t code = 0;
  if (payload.size() < sizeof code) return "no code";
  std::memcpy(&code, payload.data(), sizeof code);
  EXPECT_EQ(code, static_cast<uint32_t>(StatusCode::kUnauthenticated));
  FrameHeader more;
  std::vector<std::byte> rest;
  EXPECT_EQ(connection->Receive(&more, &rest).code(), StatusCode::kUnavailable);
  return {reinterpret_cast<const char*>(payload.data()) + sizeof code,
          payload.size() - sizeof code};
}

std::string FrameOf(FrameKind kind, const std::string& payload) {
  std::string frame;
  AppendBytesFrame({.kind = kind}, payload, &frame);
  return frame;
}

TEST(FrameServerTest, WhoShowsAKeyIsAskedForItOnce) {
  Keyed keyed;
  auto connection = ConnectTo(*keyed.server);
  ASSERT_TRUE(connection.ok());
  FrameHeader header;
  std::vector<std::byte> payload;
  for (const FrameKind kind : {FrameKind::kStats, FrameKind::kStats, FrameKind::kEncode}) {
    const std::string key = keyed.answered == 0 ? "right" : "";
    ASSERT_TRUE(connection->Send(FrameOf(kind, key)).ok());
    ASSERT_TRUE(connection->Receive(&header, &payload).ok());
    EXPECT_EQ(header.kind, kind);
  }
  EXPECT_EQ(keyed.asked, 1);
  EXPECT_EQ(keyed.answered, 3);
}

TEST(FrameServerTest, WhoShowsNoKeyOrAWrongOneIsToldSoAndLeft) {
  Keyed keyed;
  EXPECT_NE(RefusalOf(*keyed.server, FrameOf(FrameKind::kStats, "")).find("has none"),
            std::string::npos);
  for (const char* wrong : {"righ", "rightt", "Right", "Bearer right"}) {
    const std::string refusal = RefusalOf(*keyed.server, FrameOf(FrameKind::kStats, wrong));
    EXPECT_NE(refusal.find("not known"), std::string::npos) << refusal;
    EXPECT_EQ(refusal.find(wrong), std::string::npos) << refusal;
  }
  // Only a request for stats brings a key, and nothing large is kept of a stranger.
  EXPECT_NE(RefusalOf(*keyed.server, FrameOf(FrameKind::kEncode, "right")).find("has none"),
            std::string::npos);
  const std::string large(kMaxKeyBytes + 1, 'x');
  EXPECT_NE(RefusalOf(*keyed.server, FrameOf(FrameKind::kStats, large)).find("has none"),
            std::string::npos);
  EXPECT_NE(RefusalOf(*keyed.server, FrameOf(FrameKind::kFfn, std::string(3 << 20, 'x')))
                .find("has none"),
            std::string::npos);
  EXPECT_EQ(keyed.asked, 8);
  EXPECT_EQ(keyed.answered, 0);
}

TEST(FrameServerTest, APeerThatHasHungUpHoldsNoPlace) {
  Gate gate;
  FrameServerOptions options;
  options.max_connections = 1;
  options.farewell_limit = std::chrono::hours(1);
  const auto server = FrameServer::Start(options, gate.Handler());
  ASSERT_TRUE(server.ok());
  ASSERT_TRUE(AskStats(**server).ok());  // and leaves
  gate.entered.wait(0);
  auto next = AskStats(**server);
  ASSERT_TRUE(next.ok());
  gate.Open();
  FrameHeader header;
  std::vector<std::byte> payload;
  EXPECT_TRUE(next->Receive(&header, &payload).ok());
}

// A peer that sends no more and waits for its answer.
FrameConnection AskAndHalfClose(const FrameServer& server) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  FrameConnection connection(socket);
  connection.SetLimit(Within(std::chrono::seconds(30)));
  std::string frame;
  AppendBytesFrame({.kind = FrameKind::kStats}, "", &frame);
  EXPECT_TRUE(connection.Send(frame).ok());
  EXPECT_EQ(shutdown(socket, SHUT_WR), 0);
  return connection;
}

TEST(FrameServerTest, OthersAreAcceptedWhileOneWaitsForThePlaceOfAPeerThatHalfCloses) {
  Gate gate;
  FrameServerOptions options;
  options.max_connections = 2;
  options.first_frame_timeout = options.farewell_limit = std::chrono::hours(1);
  const auto server = FrameServer::Start(options, gate.Handler());
  ASSERT_TRUE(server.ok());
  FrameConnection half = AskAndHalfClose(**server);
  gate.entered.wait(0);
  auto silent = ConnectTo(**server);
  ASSERT_TRUE(silent.ok());
  auto waits = AskStats(**server);
  ASSERT_TRUE(waits.ok());
  auto next = AskStats(**server);  // in the silent one's place
  ASSERT_TRUE(next.ok());
  gate.entered.wait(1);
  auto refused = AskStats(**server);
  ASSERT_TRUE(refused.ok());
  FrameHeader header;
  std::vector<std::byte> payload;
  EXPECT_FALSE(refused->Receive(&header, &payload).ok()) << "nobody else is about to leave";
  EXPECT_EQ(gate.entered, 2);
  gate.Open();
  for (FrameConnection* peer : {&half, &*next, &*waits}) {
    EXPECT_TRUE(peer->Receive(&header, &payload).ok());
  }
}

TEST(FrameServerTest, WhoWaitsForAPlaceIsLeftAtTheEnd) {
  Gate gate;
  FrameServerOptions options;
  options.max_connections = 1;
  options.farewell_limit = std::chrono::hours(1);
  auto server = FrameServer::Start(options, gate.Handler());
  ASSERT_TRUE(server.ok());
  FrameConnection half = AskAndHalfClose(**server);
  gate.entered.wait(0);
  auto waits = AskStats(**server);
  ASSERT_TRUE(waits.ok());
  auto refused = AskStats(**server);
  FrameHeader header;
  std::vector<std::byte> payload;
  EXPECT_FALSE(refused->Receive(&header, &payload).ok());  // so the one before it does wait
  std::thread end([&] { server->reset(); });
  EXPECT_FALSE(waits->Receive(&header, &payload).ok());
  gate.Open();
  end.join();
  EXPECT_TRUE(half.Receive(&header, &payload).ok());
  EXPECT_EQ(gate.entered, 1);
}

TEST(FrameServerTest, TheMemoryOfALargeAnswerServesAgainButNotSmallOnesForEver) {
  constexpr size_t kLarge = 5 << 20;
  std::atomic<bool> large = true;
  std::atomic<size_t> kept = 0;
  const auto server = FrameServer::Start(
      {}, [&](const FrameHeader& request, std::span<const std::byte>, std::string* answer) {
        kept = answer->capacity();
        FrameHeader header = request;
        header.answer = true;
        answer->clear();
        AppendBytesFrame(header, large ? std::string(kLarge, 'x') : "done", answer);
        return OkStatus();
      });
  ASSERT_TRUE(server.ok());
  auto connection = ConnectTo(**server);
  ASSERT_TRUE(connection.ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Ask(*connection).ok());
  EXPECT_GE(kept, kLarge);
  large = false;
  ASSERT_TRUE(Ask(*connection).ok());
  EXPECT_GE(kept, kLarge) << "that of the large one before";
  int small = 0;
  for (; kept >= kLarge && small < 100; ++small) ASSERT_TRUE(Ask(*connection).ok());
  EXPECT_LT(kept, kLarge / 4) << "after " << small << " small ones";
}

// 1,000 clients of which 20 are there at a time; every third leaves without waiting for its answer,
// every other third without having sent a whole frame.
TEST(FrameServerTest, AThousandClientsJoinAndLeave) {
  const auto server = FrameServer::Start({}, Echo());
  ASSERT_TRUE(server.ok());
  std::atomic<int> answered = 0;
  std::vector<std::thread> clients;
  for (int thread = 0; thread < 20; ++thread) {
    clients.emplace_back([&] {
      for (int client = 0; client < 50; ++client) {
        auto connection = AskStats(**server);
        ASSERT_TRUE(connection.ok()) << connection.status().ToString();
        if (client % 3 == 1) continue;
        FrameHeader header;
        std::vector<std::byte> payload;
        ASSERT_TRUE(connection->Receive(&header, &payload).ok());
        ++answered;
        if (client % 3 == 2) {
          EXPECT_TRUE(connection->Send("half a header").ok());
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 20 * 33);
  EXPECT_TRUE((*server)->Drain(std::chrono::seconds(30)));
}

TEST(FrameConnectionTest, APeerThatDripsDoesNotOutlastTheLimit) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  FrameConnection connection(ends[0]);
  ASSERT_TRUE(connection.SetTimeout(std::chrono::milliseconds(10)).ok());
  std::string frame;
  AppendBytesFrame({.kind = FrameKind::kStats}, std::string(1 << 20, 'x'), &frame);
  std::atomic<bool> stop = false;
  std::thread peer([&] {  // a byte at a time, always before the time-out of a single read
    for (size_t at = 0; at < frame.size() && !stop; ++at) {
      ASSERT_EQ(send(ends[1], frame.data() + at, 1, MSG_NOSIGNAL), 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  FrameHeader header;
  std::vector<std::byte> payload;
  connection.SetLimit(Within(std::chrono::milliseconds(100)));
  EXPECT_EQ(connection.Receive(&header, &payload).code(), StatusCode::kDeadlineExceeded);
  stop = true;
  peer.join();
  close(ends[1]);
}

// The frame comes only after two rests, and is whole though the buffer was given back.
TEST(FrameConnectionTest, AFrameThatIsLongInComingLetsTheOtherSideRest) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  FrameConnection sender(sockets[0]), receiver(sockets[1]);
  ASSERT_TRUE(receiver.SetTimeout(std::chrono::milliseconds(1)).ok());
  std::string frame;
  AppendBytesFrame({.kind = FrameKind::kEncode}, "late", &frame);
  FrameHeader header;
  std::vector<std::byte> payload(100);
  int rests = 0;
  const auto resting = [&] {
    std::vector<std::byte>().swap(payload);
    ++rests;
    if (rests == 2) {
      EXPECT_TRUE(sender.Send(frame).ok());
    }
  };
  ASSERT_TRUE(receiver.ReceiveNext(resting, &header, &payload).ok());
  EXPECT_GE(rests, 2);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(payload.data()), payload.size()), "late");
}

TEST(FrameConnectionTest, ACancelEndsACallThatWaits) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  FrameConnection connection(ends[0]);
  ASSERT_TRUE(connection.SetTimeout(std::chrono::milliseconds(10)).ok());
  std::atomic<bool> cancel = false;
  CallLimit limit = Within(std::chrono::seconds(30));
  limit.cancel = &cancel;
  connection.SetLimit(limit);
  std::thread caller([&] {
    FrameHeader header;
    std::vector<std::byte> payload;
    EXPECT_EQ(connection.Receive(&header, &payload).code(), StatusCode::kCancelled);
  });
  cancel = true;
  caller.join();
  close(ends[1]);
}

}  // namespace
}  // namespace pergola::grid
