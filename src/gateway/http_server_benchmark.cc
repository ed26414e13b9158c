// What the transport costs: trivial routes over loopback, beside a bare socket ping-pong of the
// same bytes in the same run. `threads:N` is N clients, each with its own connection.
#include <benchmark/benchmark.h>

#include <thread>

#include "gateway/http_server.h"
#include "gateway/testing/fake_handler.h"
#include "gateway/testing/raw_client.h"

namespace pergola::gateway {
namespace {

using testing::RawClient;

constexpr std::string_view kRequest = "GET /get HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::string_view kPost =
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 16\r\n\r\n0123456789abcdef";

HttpServer& Server() {
  static const std::unique_ptr<HttpServer> server = [] {
    HttpServerOptions options;
    options.port = 0;
    return std::move(HttpServer::Start(options, std::make_shared<testing::FakeHandler>())).value();
  }();
  return *server;
}

void Ask(benchmark::State& state, std::string_view request) {
  RawClient client = RawClient::Tcp(Server().port());
  if (client.Ask(request).status != 200) state.SkipWithError("not answered with 200");
  for (auto _ : state) benchmark::DoNotOptimize(client.Ask(request).status);
  state.SetItemsProcessed(state.iterations());
}

void BM_HttpInline(benchmark::State& state) { Ask(state, kRequest); }
BENCHMARK(BM_HttpInline)->Threads(1)->Threads(16)->UseRealTime()->Unit(benchmark::kMicrosecond);

// The answer comes from a thread made for it.
void BM_HttpOtherThread(benchmark::State& state) { Ask(state, kPost); }
BENCHMARK(BM_HttpOtherThread)->Iterations(500)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_HttpNewConnection(benchmark::State& state) {
  for (auto _ : state) {
    RawClient client = RawClient::Tcp(Server().port());
    if (client.Ask(kRequest).status != 200) state.SkipWithError("not answered with 200");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_HttpNewConnection)->UseRealTime()->Unit(benchmark::kMicrosecond);

// The floor: one blocking thread that sends 200 bytes for every request it reads.
void BM_SocketPingPong(benchmark::State& state) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return state.SkipWithError("no socketpair");
  std::thread echo([fd = ends[1]] {
    char bytes[256] = {};
    while (::recv(fd, bytes, sizeof(bytes), 0) > 0) ::send(fd, bytes, 200, MSG_NOSIGNAL);
  });
  char bytes[256];
  for (auto _ : state) {
    ::send(ends[0], kRequest.data(), kRequest.size(), MSG_NOSIGNAL);
    benchmark::DoNotOptimize(::recv(ends[0], bytes, sizeof(bytes), 0));
  }
  ::shutdown(ends[0], SHUT_RDWR);
  echo.join();
  ::close(ends[0]);
  ::close(ends[1]);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_SocketPingPong)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pergola::gateway
