#include "gateway/http_stream.h"

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>

namespace pergola::gateway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;

Socket AdoptSocket(asio::io_context& io, int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  int family = AF_INET;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    family = address.ss_family;
  Socket socket(io);
  error_code ignored;
  socket.assign(asio::generic::stream_protocol(family, 0), fd, ignored);
  socket.non_blocking(true, ignored);
  // Answers are written whole: waiting for more to send would only delay them.
  if (family != AF_UNIX) socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  return socket;
}

std::array<asio::const_buffer, 2> Buffers(std::string_view first, std::string_view second) {
  return {asio::buffer(first.data(), first.size()), asio::buffer(second.data(), second.size())};
}

bool HoldsUnread(const Socket& socket) {
  error_code code;
  return socket.available(code) > 0 && !code;
}

auto Calling(HttpStream::Done done) {
  return [done = std::move(done)](const error_code& code, size_t bytes) { done(!code, bytes); };
}

class PlainStream : public HttpStream {
 public:
  explicit PlainStream(Socket socket) : socket_(std::move(socket)) {}

  void Handshake(Done done) override {
    asio::post(socket_.get_executor(), [done = std::move(done)] { done(true, 0); });
  }
  void AwaitReadable(Done done) override {
    socket_.async_wait(Socket::wait_read,
                       [done = std::move(done)](const error_code& code) { done(!code, 0); });
  }
  std::optional<size_t> ReadNow(std::span<char> into) override {
    error_code code;
    const size_t bytes = socket_.read_some(asio::buffer(into.data(), into.size()), code);
    if (code == asio::error::would_block) return std::nullopt;
    return code ? 0 : bytes;
  }
  void ReadSome(std::span<char> into, Done done) override {
    socket_.async_read_some(asio::buffer(into.data(), into.size()), Calling(std::move(done)));
  }
  bool HasUnread() const override { return HoldsUnread(socket_); }
  void WriteSome(std::string_view first, std::string_view second, Done done) override {
    socket_.async_write_some(Buffers(first, second), Calling(std::move(done)));
  }
  void ShutdownSend() override {
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  void Close() override {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  Socket socket_;
};

}  // namespace

struct TlsContext::Impl {
  asio::ssl::context context{asio::ssl::context::tls_server};
};

namespace {

// Shared with its own callbacks: OpenSSL's state must outlive an operation that is still winding up
// after Close.
class TlsStream : public HttpStream {
  struct State {
    State(Socket socket, std::shared_ptr<TlsContext> context)
        : tls(std::move(context)), stream(std::move(socket), tls->impl().context) {}
    std::shared_ptr<TlsContext> tls;
    asio::ssl::stream<Socket> stream;
  };
  auto Keeping(Done done) {
    return [state = state_, done = std::move(done)](const error_code& code, size_t bytes) {
      done(!code, bytes);
    };
  }

 public:
  TlsStream(Socket socket, std::shared_ptr<TlsContext> tls)
      : state_(std::make_shared<State>(std::move(socket), std::move(tls))) {}
  ~TlsStream() override { Close(); }

  void Handshake(Done done) override {
    state_->stream.async_handshake(
        asio::ssl::stream_base::server,
        [state = state_, done = std::move(done)](const error_code& code) { done(!code, 0); });
  }
  // OpenSSL may hold bytes that the socket has no more.
  void AwaitReadable(Done done) override {
    asio::post(state_->stream.get_executor(), [done = std::move(done)] { done(true, 0); });
  }
  std::optional<size_t> ReadNow(std::span<char>) override { return std::nullopt; }
  void ReadSome(std::span<char> into, Done done) override {
    state_->stream.async_read_some(asio::buffer(into.data(), into.size()),
                                   Keeping(std::move(done)));
  }
  bool HasUnread() const override { return HoldsUnread(state_->stream.next_layer()); }
  void WriteSome(std::string_view first, std::string_view second, Done done) override {
    // OpenSSL makes one record of one buffer.
    const std::string_view piece = first.empty() ? second : first;
    state_->stream.async_write_some(asio::buffer(piece.data(), piece.size()),
                                    Keeping(std::move(done)));
  }
  void ShutdownSend() override {
    state_->stream.async_shutdown([state = state_](const error_code&) {});
  }
  void Close() override {
    error_code ignored;
    state_->stream.next_layer().close(ignored);
  }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext>> TlsContext::Load(const std::string& cert_file,
                                                     const std::string& key_file) {
  auto impl = std::make_unique<Impl>();
  asio::ssl::context& context = impl->context;
  error_code code;
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                          asio::ssl::context::no_tlsv1_1 | asio::ssl::context::single_dh_use,
                      code);
  context.use_certificate_chain_file(cert_file, code);
  if (code) return InvalidArgumentError("TLS certificate '" + cert_file + "': " + code.message());
  // Without it an encrypted key asks for its passphrase on the terminal.
  context.set_password_callback([](size_t, auto) { return std::string(); }, code);
  context.use_private_key_file(key_file, asio::ssl::context::pem, code);
  if (code) return InvalidArgumentError("TLS key '" + key_file + "': " + code.message());
  if (SSL_CTX_check_private_key(context.native_handle()) != 1) {
    return InvalidArgumentError("TLS key '" + key_file + "' does not belong to certificate '" +
                                cert_file + "'");
  }
  return std::shared_ptr<TlsContext>(new TlsContext(std::move(impl)));
}

std::unique_ptr<HttpStream> HttpStream::Adopt(asio::io_context& io, int fd,
                                              std::shared_ptr<TlsContext> tls) {
  Socket socket = AdoptSocket(io, fd);
  if (tls == nullptr) return std::make_unique<PlainStream>(std::move(socket));
  return std::make_unique<TlsStream>(std::move(socket), std::move(tls));
}

}  // namespace pergola::gateway
