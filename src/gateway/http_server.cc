#include "gateway/http_server.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "core/alarm.h"
#include "gateway/connection_set.h"
#include "gateway/event_loop.h"
#include "gateway/http_listener.h"
#include "gateway/request_id.h"
#include "gateway/response_head.h"

namespace pergola::gateway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::generic::stream_protocol;

constexpr std::chrono::milliseconds kAcceptRetry{50};
// Connections that peers have begun to make come to be within it.
constexpr std::chrono::milliseconds kHandshakeTime{20};
constexpr std::chrono::milliseconds kShortestDrain{50};  // closing idle connections takes a moment

class Workers : public WorkerPool {
 public:
  explicit Workers(int threads) : pool_(static_cast<size_t>(threads)) {}
  void Run(std::function<void()> work) override { asio::post(pool_, std::move(work)); }
  void Join() { pool_.join(); }

 private:
  asio::thread_pool pool_;
};

// One event loop with its connections.
class NetworkThread {
 public:
  NetworkThread(std::shared_ptr<ServerShared> server, std::unique_ptr<Alarm> alarm)
      : loop_(std::move(alarm)), set_(std::make_shared<ConnectionSet>(std::move(server), loop_)) {}

  void Start() { loop_.Start(); }
  // After all connections were told to close: returns when they have.
  void Join() {
    set_->mailbox()->Retire();
    loop_.Join();
  }
  // Runs `work` on the thread and waits for it.
  void Call(std::function<void()> work) {
    std::promise<void> done;
    asio::post(io(), [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  asio::io_context& io() { return loop_.io(); }
  ConnectionSet& set() { return *set_; }

 private:
  EventLoop loop_;
  std::shared_ptr<ConnectionSet> set_;  // second owners: its connections
};

std::string PeerName(const Protocol::endpoint& endpoint) {
  if (endpoint.protocol().family() == AF_UNIX) return "unix";
  asio::ip::tcp::endpoint tcp;
  if (endpoint.size() > tcp.capacity()) return "unknown";
  std::memcpy(tcp.data(), endpoint.data(), endpoint.size());
  tcp.resize(endpoint.size());
  const std::string host = tcp.address().to_string();
  return (tcp.address().is_v6() ? "[" + host + "]:" : host + ":") + std::to_string(tcp.port());
}

Status CheckOptions(const HttpServerOptions& options) {
  const auto positive = [](int64_t value, const char* name) {
    return value > 0 ? OkStatus()
                     : InvalidArgumentError(std::string(name) + " is " + std::to_string(value) +
                                            "; it must be above 0");
  };
  PERGOLA_RETURN_IF_ERROR(positive(options.network_threads, "network_threads"));
  PERGOLA_RETURN_IF_ERROR(positive(options.worker_threads, "worker_threads"));
  PERGOLA_RETURN_IF_ERROR(positive(options.max_connections, "max_connections"));
  PERGOLA_RETURN_IF_ERROR(positive(options.header_limit_bytes, "header_limit_bytes"));
  PERGOLA_RETURN_IF_ERROR(positive(options.max_body_bytes, "max_body_bytes"));
  PERGOLA_RETURN_IF_ERROR(positive(options.body_budget_bytes, "body_budget_bytes"));
  PERGOLA_RETURN_IF_ERROR(positive(options.body_bytes_per_second, "body_bytes_per_second"));
  if (options.hosts.empty() && options.unix_socket.empty()) {
    return InvalidArgumentError("neither a host nor a unix socket to listen on");
  }
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    return InvalidArgumentError("TLS needs both a certificate and a key file");
  }
  return OkStatus();
}

}  // namespace

struct HttpServer::Impl {
  struct Listener {
    Listener(asio::io_context& io, const ListeningSocket& socket)
        : acceptor(io), retry(io), is_unix(socket.is_unix) {
      sockaddr_storage address{};
      socklen_t size = sizeof(address);
      ::getsockname(socket.fd, reinterpret_cast<sockaddr*>(&address), &size);
      error_code ignored;
      acceptor.assign(Protocol(address.ss_family, 0), socket.fd, ignored);
    }
    asio::basic_socket_acceptor<Protocol> acceptor;
    asio::steady_timer retry;
    bool is_unix;
  };

  ~Impl();

  Status Open();
  void Accept(Listener& listener);
  void Accepted(Listener& listener, Protocol::socket socket, const Protocol::endpoint& peer);
  bool MakeRoom();
  void RefuseForRoom(Listener& listener, Protocol::socket& socket);
  void RefuseConnects();
  void AcceptWaiting(Listener& listener);
  void StopAccepting(bool take_waiting);

  std::shared_ptr<ServerShared> server;  // second owners: connections and requests in work
  std::unique_ptr<Workers> workers;
  std::vector<std::unique_ptr<NetworkThread>> threads;
  std::vector<std::unique_ptr<Listener>> listeners;  // used on threads[0]
  std::vector<std::string> addresses;
  int port = 0;
  bool owns_unix_file = false;
};

Status HttpServer::Impl::Open() {
  const HttpServerOptions& options = server->options;
  std::vector<ListeningSocket> sockets;
  if (!options.hosts.empty()) {
    port = options.port;
    PERGOLA_ASSIGN_OR_RETURN(sockets, ListenTcp(options.hosts, &port));
  }
  // Owned from here on: closed with the listeners whatever fails next.
  const std::string scheme = server->tls == nullptr ? "http://" : "https://";
  for (const ListeningSocket& socket : sockets) {
    listeners.push_back(std::make_unique<Listener>(threads[0]->io(), socket));
    addresses.push_back(scheme + socket.address);
  }
  if (!options.unix_socket.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(const ListeningSocket socket, ListenUnix(options.unix_socket));
    listeners.push_back(std::make_unique<Listener>(threads[0]->io(), socket));
    addresses.push_back("unix:" + socket.address);
    owns_unix_file = true;
  }
  return OkStatus();
}

void HttpServer::Impl::Accept(Listener& listener) {
  // The socket is made on this thread's io_context; Accepted hands its descriptor on.
  auto peer = std::make_shared<Protocol::endpoint>();
  listener.acceptor.async_accept(
      *peer, [this, &listener, peer](const error_code& code, Protocol::socket socket) {
        // It may have been closed since: who was accepted before is served all the same.
        if (!code) Accepted(listener, std::move(socket), *peer);
        if (!listener.acceptor.is_open()) return;
        if (!code) return Accept(listener);
        // Out of descriptors, most likely: make room and wait a moment rather than spin.
        MakeRoom();
        listener.retry.expires_after(kAcceptRetry);
        listener.retry.async_wait([this, &listener](const error_code& stopped) {
          if (!stopped) Accept(listener);
        });
      });
}

void HttpServer::Impl::Accepted(Listener& listener, Protocol::socket socket,
                                const Protocol::endpoint& peer) {
  if (server->connections >= server->options.max_connections && !MakeRoom()) {
    RefuseForRoom(listener, socket);
    return;
  }
  const int64_t turn = server->connections_accepted++;
  NetworkThread& thread = *threads[static_cast<size_t>(turn) % threads.size()];
  error_code code;
  const int fd = socket.release(code);
  if (code) return;
  ConnectionSet& set = thread.set();
  set.mailbox()->Post(
      [&set, fd, tls = listener.is_unix ? nullptr : server->tls,
       name = listener.is_unix ? "unix" : PeerName(peer)] { set.Adopt(fd, tls, name); });
}

// Closes the longest idle connection of some thread. False: all are at work.
bool HttpServer::Impl::MakeRoom() {
  for (const std::unique_ptr<NetworkThread>& thread : threads) {
    if (thread->set().idle_count() == 0) continue;
    ConnectionSet& set = thread->set();
    set.mailbox()->Post([&set] { set.EvictOldestIdle(); });
    return true;
  }
  return false;
}

void HttpServer::Impl::RefuseForRoom(Listener& listener, Protocol::socket& socket) {
  if (server->tls != nullptr && !listener.is_unix) return;  // no words before the handshake
  const HttpResponse response = server->gate.Error(
      "", 503,
      "all " + std::to_string(server->options.max_connections) + " connections are in work");
  const std::string id = MakeRequestId();
  ResponseFrame frame;
  frame.keep_alive = false;
  frame.length = response.body.size();
  frame.request_id = id;
  const std::string bytes = ResponseHead(response, frame) + response.body;
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.send(asio::buffer(bytes), 0, ignored);
  socket.shutdown(Protocol::socket::shutdown_send, ignored);
}

void HttpServer::Impl::RefuseConnects() {
  threads[0]->Call([this] {
    if (owns_unix_file) {
      std::error_code ignored;
      owns_unix_file = false;
      std::filesystem::remove(server->options.unix_socket, ignored);
    }
    for (const std::unique_ptr<Listener>& listener : listeners) {
      if (!listener->is_unix) RefuseNewcomers(listener->acceptor.native_handle());
    }
  });
}

// The peers whom the system has connected: closing the listener would reset them.
void HttpServer::Impl::AcceptWaiting(Listener& listener) {
  error_code code;
  listener.acceptor.non_blocking(true, code);
  for (int turn = 0; turn < asio::socket_base::max_listen_connections && !code; ++turn) {
    Protocol::endpoint peer;
    Protocol::socket socket = listener.acceptor.accept(peer, code);
    if (!code) Accepted(listener, std::move(socket), peer);
  }
}

void HttpServer::Impl::StopAccepting(bool take_waiting) {
  threads[0]->Call([this, take_waiting] {
    for (const std::unique_ptr<Listener>& listener : listeners) {
      error_code ignored;
      if (take_waiting && listener->acceptor.is_open()) AcceptWaiting(*listener);
      listener->acceptor.close(ignored);
      listener->retry.cancel();
    }
  });
}

// Order matters: no new connections; all told to close; worker jobs end (each wakes its
// connection); then the network threads run out of work.
HttpServer::Impl::~Impl() {
  if (threads.empty()) return;
  server->draining = true;
  StopAccepting(/*take_waiting=*/false);
  for (const auto& thread : threads) {
    thread->Call([&thread] { thread->set().CloseAll(); });
  }
  workers->Join();
  for (const auto& thread : threads) thread->Join();
  if (owns_unix_file) {
    std::error_code ignored;
    std::filesystem::remove(server->options.unix_socket, ignored);
  }
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options,
                                                      std::shared_ptr<HttpHandler> handler) {
  PERGOLA_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<ApiKeys> keys;
  if (!options.api_key_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(keys, ApiKeys::Load(options.api_key_file));
  }
  std::shared_ptr<TlsContext> tls;
  if (!options.tls_cert_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(tls, TlsContext::Load(options.tls_cert_file, options.tls_key_file));
  }
  auto impl = std::make_unique<Impl>();
  impl->server =
      std::make_shared<ServerShared>(std::move(options), std::move(handler), std::move(keys));
  impl->server->tls = std::move(tls);
  impl->workers = std::make_unique<Workers>(impl->server->options.worker_threads);
  impl->server->workers = impl->workers.get();
  for (int thread = 0; thread < impl->server->options.network_threads; ++thread) {
    PERGOLA_ASSIGN_OR_RETURN(std::unique_ptr<Alarm> alarm, Alarm::Make());
    impl->threads.push_back(std::make_unique<NetworkThread>(impl->server, std::move(alarm)));
    impl->threads.back()->Start();
  }
  PERGOLA_RETURN_IF_ERROR(impl->Open());
  for (const auto& listener : impl->listeners) {
    impl->threads[0]->Call([&impl, &listener] { impl->Accept(*listener); });
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port; }
const std::vector<std::string>& HttpServer::addresses() const { return impl_->addresses; }

bool HttpServer::Drain(std::chrono::milliseconds limit) {
  ServerShared& server = *impl_->server;
  const service::Clock::time_point end = service::Clock::now() + limit;
  if (!server.draining) {
    const service::Clock::duration grace = std::min(server.options.drain_grace, limit / 3);
    server.drain_grace = grace;
    server.drain_requests_until = service::Clock::now() + grace;
    server.draining = true;
    impl_->RefuseConnects();
    std::this_thread::sleep_for(kHandshakeTime);
    impl_->StopAccepting(/*take_waiting=*/true);
    for (const auto& thread : impl_->threads) {
      thread->Call([&thread] { thread->set().BeginDrain(); });
    }
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - service::Clock::now());
  return server.WaitUntilQuiet(std::max(left, kShortestDrain));
}

bool HttpServer::needs_keys() const { return impl_->server->keys != nullptr; }

Status HttpServer::ReloadKeys() {
  return impl_->server->keys == nullptr ? OkStatus() : impl_->server->keys->Reload();
}

bool HttpServer::has_tls() const { return !impl_->server->options.tls_cert_file.empty(); }

Status HttpServer::ReloadCertificates() {
  if (!has_tls()) return OkStatus();
  const HttpServerOptions& options = impl_->server->options;
  PERGOLA_ASSIGN_OR_RETURN(std::shared_ptr<TlsContext> tls,
                           TlsContext::Load(options.tls_cert_file, options.tls_key_file));
  impl_->threads[0]->Call([&] { impl_->server->tls.swap(tls); });
  return OkStatus();
}

HttpServerStats HttpServer::stats() const {
  const ServerShared& server = *impl_->server;
  HttpServerStats stats;
  stats.connections = server.connections;
  stats.idle_connections = server.idle_connections;
  stats.requests_in_work = server.requests_in_work;
  stats.body_bytes_held = static_cast<int64_t>(server.body_budget->used_bytes());
  stats.connections_accepted = server.connections_accepted;
  stats.connections_evicted = server.connections_evicted;
  return stats;
}

}  // namespace pergola::gateway
