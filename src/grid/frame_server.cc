#include "grid/frame_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "grid/frame_connection.h"
#include "grid/reused_buffer.h"

namespace pergola::grid {
namespace {

// A client may rest between two requests for as long as it likes, but one that is gone without a
// word must not hold its place: a minute of silence, then three questions.
void SetOptions(int socket) {
  const int on = 1, idle_seconds = 60, between_seconds = 10, questions = 3;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between_seconds, sizeof between_seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &questions, sizeof questions);
}

constexpr std::chrono::seconds kStallLimit{10};

// Of what an answer took, so much is kept for the next one: 512 rows of 5120 values. Requests are
// mostly ids. While the peer rests (kStallLimit), nothing is.
constexpr size_t kKeptAnswerBytes = size_t{12} << 20;
constexpr size_t kKeptPayloadBytes = size_t{4} << 20;

// POLL* of what has happened on it and nobody has looked at yet.
short Pending(int socket) {
  pollfd polled = {.fd = socket, .events = POLLIN | POLLRDHUP, .revents = 0};
  return poll(&polled, 1, 0) > 0 ? polled.revents : short{0};
}

std::string ErrorFrame(const FrameHeader& request, const Status& status) {
  FrameHeader header = request;
  header.kind = FrameKind::kError;
  header.answer = true;
  header.type = PayloadType::kBytes;
  const auto code = static_cast<uint32_t>(status.code());
  std::string payload(reinterpret_cast<const char*>(&code), sizeof code);
  payload += status.message();
  std::string frame;
  AppendBytesFrame(header, payload, &frame);
  return frame;
}

}  // namespace

struct FrameServer::Impl {
  // A connection and the thread that serves it.
  struct Session {
    int socket = -1;                  // closed by whoever joins the thread
    std::atomic<bool> asked = false;  // a whole frame has come
    bool waits = false;               // for a place; guarded by the mutex, as is the next
    bool evicted = false;             // made room for another
    std::atomic<bool> done = false;
    std::thread thread;
  };

  FrameHandler handler;
  std::shared_ptr<const FrameTls> tls;
  std::function<bool(std::string_view)> admits;  // empty: everybody
  int max_connections = 0;
  std::chrono::milliseconds first_frame_timeout{0};
  std::chrono::milliseconds farewell_limit{0};
  int listener = -1;
  int port = 0;
  std::atomic<bool> stopping = false;
  std::thread accepting;
  bool timed_out = false;  // of a drain
  std::mutex mutex;        // guards sessions
  std::condition_variable session_done;
  std::list<Session> sessions;  // in order of arrival

  void StopReading();
  void Accept();
  void Serve(Session& session);
  Status ReceiveFirst(FrameConnection& connection, FrameHeader* request,
                      std::vector<std::byte>* payload);
  void Reap();

  // Where one more goes.
  enum class Place { kFree, kLater, kNone };
  // All of these under the mutex.
  static bool TakesPlace(const Session& session) {
    return !session.waits && !session.evicted && !session.done;
  }
  int64_t FreePlaces() const;
  int64_t PlacesOfPeersGone() const;
  int64_t Waiting() const;
  Place PlaceForOneMore();
  bool EvictSilent();

  bool AwaitPlace(Session& session);  // without it
};

// Joins the threads of connections that have ended. Under the mutex.
void FrameServer::Impl::Reap() {
  for (auto session = sessions.begin(); session != sessions.end();) {
    if (!session->done) {
      ++session;
      continue;
    }
    session->thread.join();
    close(session->socket);
    session = sessions.erase(session);
  }
}

int64_t FrameServer::Impl::FreePlaces() const {
  return max_connections - std::count_if(sessions.begin(), sessions.end(), TakesPlace);
}

// Of peers that have hung up: each is free as soon as its thread has run.
int64_t FrameServer::Impl::PlacesOfPeersGone() const {
  return std::count_if(sessions.begin(), sessions.end(), [](const Session& session) {
    return TakesPlace(session) && (Pending(session.socket) & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  });
}

int64_t FrameServer::Impl::Waiting() const {
  return std::count_if(sessions.begin(), sessions.end(),
                       [](const Session& session) { return session.waits && !session.done; });
}

// Whoever waits is before one more; where no place is free or will soon be, it takes that of a
// silent one.
FrameServer::Impl::Place FrameServer::Impl::PlaceForOneMore() {
  const int64_t waiting = Waiting();
  const int64_t free = FreePlaces();
  if (waiting < free) return Place::kFree;
  if (waiting < free + PlacesOfPeersGone()) return Place::kLater;
  return EvictSilent() ? Place::kFree : Place::kNone;
}

// Takes back the place of the oldest that has never asked. False: there is none.
bool FrameServer::Impl::EvictSilent() {
  const auto silent = std::find_if(sessions.begin(), sessions.end(), [](const Session& session) {
    return TakesPlace(session) && !session.asked && Pending(session.socket) == 0;
  });
  if (silent == sessions.end()) return false;
  silent->evicted = true;
  shutdown(silent->socket, SHUT_RDWR);
  return true;
}

// On the thread of its session, so that others are accepted meanwhile. False: there is none.
bool FrameServer::Impl::AwaitPlace(Session& session) {
  std::unique_lock lock(mutex);
  if (!session.waits) return true;
  session_done.wait_for(lock, farewell_limit, [this] { return stopping || FreePlaces() > 0; });
  const bool found = !stopping && (FreePlaces() > 0 || EvictSilent());
  if (found) session.waits = false;
  return found;
}

void FrameServer::Impl::Accept() {
  while (!stopping) {
    const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      return;  // shut down
    }
    SetOptions(socket);
    const std::lock_guard lock(mutex);
    Reap();
    const Place place = stopping ? Place::kNone : PlaceForOneMore();
    if (place == Place::kNone) {
      close(socket);
      continue;
    }
    Session& session = sessions.emplace_back();
    session.socket = socket;
    session.waits = place == Place::kLater;
    session.thread = std::thread([this, &session] { Serve(session); });
  }
}

// The first frame, of a peer that may ask. UNAUTHENTICATED: it may not, and has been told so.
Status FrameServer::Impl::ReceiveFirst(FrameConnection& connection, FrameHeader* request,
                                       std::vector<std::byte>* payload) {
  if (!admits) return connection.Receive(request, payload);
  // Nobody who has shown no key makes the server hold much.
  PERGOLA_RETURN_IF_ERROR(connection.ReceiveBounded(kMaxKeyBytes, request, payload));
  const bool shown = request->kind == FrameKind::kStats && !request->answer;
  const std::string_view key(reinterpret_cast<const char*>(payload->data()),
                             shown ? payload->size() : 0);
  if (admits(key)) return OkStatus();
  const Status refused = UnauthenticatedError(
      key.empty() ? "frames need a key here, and the first one has none"
                  : "frames need a key here, and the one that came is not known");
  PERGOLA_RETURN_IF_ERROR(connection.Send(ErrorFrame(*request, refused)));
  return refused;
}

void FrameServer::Impl::Serve(Session& session) {
  FrameConnection connection(dup(session.socket));
  FrameHeader request;
  ReusedBuffer<std::vector<std::byte>> payload(kKeptPayloadBytes);
  ReusedBuffer<std::string> answer(kKeptAnswerBytes);
  Status status = OkStatus();
  if (!AwaitPlace(session)) status = ResourceExhaustedError("all places are taken");  // ends it
  if (status.ok()) {
    status = connection.SetTimeout(std::min<std::chrono::milliseconds>(
        std::max(first_frame_timeout, std::chrono::milliseconds(1)), kStallLimit));
  }
  connection.SetLimit({.deadline = std::chrono::steady_clock::now() + first_frame_timeout});
  if (status.ok() && tls != nullptr) status = connection.AcceptTls(*tls);
  const auto resting = [&] {
    payload.GiveBack();
    answer.GiveBack();
  };
  while (status.ok() && !stopping) {
    status = session.asked ? connection.ReceiveNext(resting, &request, &payload.buffer())
                           : ReceiveFirst(connection, &request, &payload.buffer());
    // After a frame that is wrong nothing on the connection can be trusted.
    if (!status.ok()) break;
    if (!session.asked.exchange(true)) {
      connection.ClearLimit();
      status = connection.SetTimeout(kStallLimit);
      if (!status.ok()) break;
    }
    const Status handled = handler(request, payload.buffer(), &answer.buffer());
    if (!handled.ok()) answer.buffer() = ErrorFrame(request, handled);
    status = connection.Send(answer.buffer());
    payload.EndMessage(payload.buffer().size());
    answer.EndMessage(answer.buffer().size());
  }
  connection.Close();
  shutdown(session.socket, SHUT_RDWR);
  const std::lock_guard lock(mutex);
  session.done = true;
  session_done.notify_all();
}

// No further connection and request; an answer under way still goes out.
void FrameServer::Impl::StopReading() {
  if (!stopping.exchange(true)) {
    { const std::lock_guard lock(mutex); }  // whoever waits for a place has seen it, or will
    session_done.notify_all();
    shutdown(listener, SHUT_RDWR);
    accepting.join();
    close(listener);
  }
  const std::lock_guard lock(mutex);
  for (Session& session : sessions) shutdown(session.socket, timed_out ? SHUT_RDWR : SHUT_RD);
}

FrameServer::FrameServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<FrameServer>> FrameServer::Start(const FrameServerOptions& options,
                                                        FrameHandler handler) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(options.port));
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return InvalidArgumentError("'" + options.host + "' is no IPv4 address for frames");
  }
  auto impl = std::make_unique<Impl>();
  impl->handler = std::move(handler);
  impl->max_connections = options.max_connections;
  impl->first_frame_timeout = options.first_frame_timeout;
  impl->farewell_limit = options.farewell_limit;
  impl->tls = options.tls;
  impl->admits = options.admits;
  impl->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(impl->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socklen_t size = sizeof address;
  if (bind(impl->listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(impl->listener, 128) != 0) {
    const int error = errno;
    close(impl->listener);
    return AlreadyExistsError("cannot listen on " + options.host + ":" +
                              std::to_string(options.port) + ": " + std::strerror(error));
  }
  getsockname(impl->listener, reinterpret_cast<sockaddr*>(&address), &size);
  impl->port = ntohs(address.sin_port);
  impl->accepting = std::thread([raw = impl.get()] { raw->Accept(); });
  return std::unique_ptr<FrameServer>(new FrameServer(std::move(impl)));
}

bool FrameServer::Drain(std::chrono::milliseconds limit) {
  impl_->StopReading();
  std::unique_lock lock(impl_->mutex);
  const auto all_done = [this] {
    return std::all_of(impl_->sessions.begin(), impl_->sessions.end(),
                       [](const Impl::Session& session) { return session.done.load(); });
  };
  impl_->timed_out = !impl_->session_done.wait_for(lock, limit, all_done);
  return !impl_->timed_out;
}

FrameServer::~FrameServer() {
  impl_->StopReading();
  for (Impl::Session& session : impl_->sessions) {
    session.thread.join();
    close(session.socket);
  }
}

int FrameServer::port() const { return impl_->port; }

}  // namespace pergola::grid
