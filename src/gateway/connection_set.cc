#include "gateway/connection_set.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "gateway/http_connection.h"

namespace pergola::gateway {
namespace {

constexpr std::chrono::milliseconds kAlone{100};

}  // namespace

void ServerShared::BecameBusy() {
  const std::lock_guard lock(busy_mutex_);
  ++busy_;
}

void ServerShared::BecameQuiet() {
  const std::lock_guard lock(busy_mutex_);
  if (--busy_ == 0) quiet_.notify_all();
}

bool ServerShared::WaitUntilQuiet(std::chrono::milliseconds limit) {
  std::unique_lock lock(busy_mutex_);
  return quiet_.wait_for(lock, limit, [this] { return busy_ == 0; });
}

bool ServerShared::SendsAlone(const ManagedConnection* connection, service::Clock::time_point now) {
  if (last_sender_.exchange(connection) != connection) sends_since_ = now;
  return now - sends_since_.load() >= kAlone;
}

void ConnectionSet::Adopt(int fd, std::shared_ptr<TlsContext> tls, std::string peer) {
  std::unique_ptr<HttpStream> stream = HttpStream::Adopt(io(), fd, std::move(tls));
  if (all_closed_) return;  // and so is this one
  StartConnection(shared_from_this(), std::move(stream), std::move(peer));
  if (server_->draining) BeginDrain();
}

void ConnectionSet::Add(ManagedConnection* connection) {
  all_.insert(connection);
  ++server_->connections;
}

void ConnectionSet::Remove(ManagedConnection* connection) {
  all_.erase(connection);
  --server_->connections;
}

ConnectionSet::IdlePlace ConnectionSet::EnterIdle(ManagedConnection* connection) {
  ++idle_count_;
  ++server_->idle_connections;
  return idle_.insert(idle_.end(), connection);
}

void ConnectionSet::LeaveIdle(IdlePlace place) {
  idle_.erase(place);
  --idle_count_;
  --server_->idle_connections;
}

bool ConnectionSet::EvictOldestIdle() {
  if (idle_.empty()) return false;
  ++server_->connections_evicted;
  idle_.front()->Close();  // leaves the list
  return true;
}

void ConnectionSet::BeginDrain() {
  for (ManagedConnection* connection : all_) connection->BeginDrain();
}

void ConnectionSet::CloseAll() {
  all_closed_ = true;
  for (ManagedConnection* connection : all_) connection->Close();
}

void LoopMailbox::Post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (retired_) return;
    if (!io_.get_executor().running_in_this_thread()) {
      boost::asio::post(io_, std::move(work));
      return;
    }
  }
  work();
}

void LoopMailbox::Retire() {
  const std::lock_guard lock(mutex_);
  retired_ = true;
}

}  // namespace pergola::gateway
