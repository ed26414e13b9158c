// What the connections of a server share, and those of one network thread together: who is idle,
// who is to be closed, how other threads reach them. Made by http_server.cc; not for others.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>

#include "gateway/byte_budget.h"
#include "gateway/event_loop.h"
#include "gateway/http_server.h"
#include "gateway/http_stream.h"
#include "gateway/request_gate.h"

namespace pergola::gateway {

// Work that must not run on a network thread. Thread-safe.
class WorkerPool {
 public:
  virtual ~WorkerPool() = default;
  virtual void Run(std::function<void()> work) = 0;
};

class ManagedConnection;

// What all connections of a server share. Thread-safe; immutable but for the counters.
struct ServerShared {
  ServerShared(HttpServerOptions given, std::shared_ptr<HttpHandler> given_handler,
               std::unique_ptr<ApiKeys> given_keys)
      : options(std::move(given)),
        handler(std::move(given_handler)),
        keys(std::move(given_keys)),
        gate(options, *handler, keys.get()),
        body_budget(
            std::make_shared<ByteBudget>(static_cast<uint64_t>(options.body_budget_bytes))) {}

  const HttpServerOptions options;
  const std::shared_ptr<HttpHandler> handler;  // second owner: the caller of HttpServer::Start
  const std::unique_ptr<ApiKeys> keys;
  const RequestGate gate;
  const std::shared_ptr<ByteBudget> body_budget;  // second owners: the requests in work
  // Null: plain. Second owners: the connections. Used on the thread that accepts alone.
  std::shared_ptr<TlsContext> tls;
  WorkerPool* workers = nullptr;  // outlives all connections

  // Drain sets both before `draining`: when it gives up requests that are not whole, and how long
  // it lets connections linger.
  std::atomic<service::Clock::time_point> drain_requests_until = service::Clock::time_point::max();
  std::atomic<service::Clock::duration> drain_grace = service::Clock::duration::zero();
  std::atomic<bool> draining = false;
  std::atomic<int64_t> connections = 0;
  std::atomic<int64_t> idle_connections = 0;
  std::atomic<int64_t> requests_in_work = 0;
  std::atomic<int64_t> connections_accepted = 0;
  std::atomic<int64_t> connections_evicted = 0;

  // Connections that are neither idle nor closing, and all while draining: Drain waits until there
  // is none.
  void BecameBusy();
  void BecameQuiet();
  bool WaitUntilQuiet(std::chrono::milliseconds limit);

  // Notes a request with a body, of `connection`. Whether no other one has sent such for a while.
  bool SendsAlone(const ManagedConnection* connection, service::Clock::time_point now);

 private:
  std::atomic<const ManagedConnection*> last_sender_ = nullptr;  // perhaps gone
  std::atomic<service::Clock::time_point> sends_since_ = service::Clock::time_point::min();

  std::mutex busy_mutex_;
  std::condition_variable quiet_;
  int64_t busy_ = 0;  // guarded by busy_mutex_
};

// How other threads reach a network thread. Thread-safe. Holds nothing else alive: a handler may
// keep an unanswered request, and so this, for longer than the server lives.
class LoopMailbox {
 public:
  // `io` is not used after Retire.
  explicit LoopMailbox(boost::asio::io_context& io) : io_(io) {}
  // Runs `work` on the network thread, at once when called there; drops it after Retire.
  void Post(std::function<void()> work);
  // From now on nothing is posted any more.
  void Retire();

 private:
  boost::asio::io_context& io_;
  std::mutex mutex_;
  bool retired_ = false;  // guarded by mutex_
};

// A connection as the set sees it. Thread-confined to its network thread.
class ManagedConnection {
 public:
  virtual ~ManagedConnection() = default;
  // At once, whatever it does; its coroutine ends soon after.
  virtual void Close() = 0;
  // The server drains: closes unless some of a request has come, and then does not wait long for
  // the rest. Busy until it is decided.
  virtual void BeginDrain() = 0;
};

// The connections of one network thread. Thread-confined to it, but for mailbox
// and idle_count.
class ConnectionSet : public std::enable_shared_from_this<ConnectionSet> {
 public:
  // `loop` must outlive the connections.
  ConnectionSet(std::shared_ptr<ServerShared> server, EventLoop& loop)
      : server_(std::move(server)),
        loop_(loop),
        mailbox_(std::make_shared<LoopMailbox>(loop.io())) {}

  // Starts a connection on the connected socket `fd`, which it owns from now on.
  void Adopt(int fd, std::shared_ptr<TlsContext> tls, std::string peer);
  // Closes the connection that waits longest for a request. False: none waits.
  bool EvictOldestIdle();
  void BeginDrain();  // of each
  void CloseAll();    // and those that are adopted later

  // Second owners: requests whose handler has not answered yet, worker jobs.
  const std::shared_ptr<LoopMailbox>& mailbox() const { return mailbox_; }
  int64_t idle_count() const { return idle_count_.load(std::memory_order_relaxed); }

  // For connections: each adds and removes itself, and stands in the line of the idle ones or not.
  using IdlePlace = std::list<ManagedConnection*>::iterator;
  void Add(ManagedConnection* connection);
  void Remove(ManagedConnection* connection);
  IdlePlace EnterIdle(ManagedConnection* connection);
  void LeaveIdle(IdlePlace place);

  // Where a connection reads to when bytes are there: what it keeps of them it copies.
  std::span<char> read_area() { return read_area_; }

  const std::shared_ptr<ServerShared>& server() const { return server_; }
  EventLoop& loop() { return loop_; }
  boost::asio::io_context& io() { return loop_.io(); }

 private:
  const std::shared_ptr<ServerShared> server_;  // second owner: the server
  EventLoop& loop_;
  const std::shared_ptr<LoopMailbox> mailbox_;
  std::unordered_set<ManagedConnection*> all_;  // each owns itself while its coroutine runs
  std::list<ManagedConnection*> idle_;          // longest waiting first
  std::atomic<int64_t> idle_count_ = 0;
  bool all_closed_ = false;
  std::array<char, 8 * 1024> read_area_;
};

}  // namespace pergola::gateway
