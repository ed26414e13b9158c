// One connected socket, plain or TLS, as the connection sees it: bytes in, bytes out, by callback.
//
// Thread-confined to the thread that runs the io_context. At most one read and one write at a time;
// both may be under way together. Callbacks never run inside the call that starts them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "pergola/status.h"

namespace boost::asio {
class io_context;
}

namespace pergola::gateway {

// Certificate and key of the TLS ports. Immutable after Load; shared by all threads.
class TlsContext {
 public:
  // PEM files. Errors: INVALID_ARGUMENT with OpenSSL's reason.
  static Result<std::shared_ptr<TlsContext>> Load(const std::string& cert_file,
                                                  const std::string& key_file);
  ~TlsContext();
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit TlsContext(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class HttpStream {
 public:
  // Takes over the connected socket `fd`. With `tls` (second owner: the server) Handshake comes
  // first.
  static std::unique_ptr<HttpStream> Adopt(boost::asio::io_context& io, int fd,
                                           std::shared_ptr<TlsContext> tls);
  virtual ~HttpStream() = default;

  // `ok` is false on any error and, for a read, at the end of the stream. A closed stream calls
  // back with false.
  using Done = std::function<void(bool ok, size_t bytes)>;

  virtual void Handshake(Done done) = 0;  // at once for plain sockets
  // Until a read would find something, or the end of the stream, without an area to read into. May
  // call back though there is nothing yet.
  virtual void AwaitReadable(Done done) = 0;
  // Reads some of what is there, at once; 0: the end of the stream, or an error. Nullopt: nothing
  // is there, or ReadSome must find out.
  virtual std::optional<size_t> ReadNow(std::span<char> into) = 0;
  // `into` must stay valid until `done`.
  virtual void ReadSome(std::span<char> into, Done done) = 0;
  // Whether the system holds bytes of the peer that no read has taken yet.
  virtual bool HasUnread() const = 0;
  // Writes some of the two pieces, in order; both must stay valid until `done`.
  virtual void WriteSome(std::string_view first, std::string_view second, Done done) = 0;
  // No more bytes will be written: the peer sees the end of the stream. Reading goes on.
  virtual void ShutdownSend() = 0;
  virtual void Close() = 0;
};

}  // namespace pergola::gateway
