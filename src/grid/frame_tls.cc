#include "grid/frame_tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

namespace pergola::grid {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Cert = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

Bio TextBio(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string LastError() {
  char text[200] = "no reason given";
  if (const unsigned long code = ERR_get_error(); code != 0) {
    ERR_error_string_n(code, text, sizeof text);
  }
  ERR_clear_error();
  return text;
}

Status AddCertificate(const FrameTlsPem& pem, SSL_CTX* context) {
  const Bio cert_bio = TextBio(pem.cert_pem), key_bio = TextBio(pem.key_pem);
  const Cert cert(PEM_read_bio_X509_AUX(cert_bio.get(), nullptr, nullptr, nullptr));
  if (cert == nullptr || SSL_CTX_use_certificate(context, cert.get()) != 1) {
    return InvalidArgumentError("TLS certificate of frames: " + LastError());
  }
  while (X509* const next = PEM_read_bio_X509(cert_bio.get(), nullptr, nullptr, nullptr)) {
    SSL_CTX_add0_chain_cert(context, next);  // takes it over
  }
  ERR_clear_error();  // the end of the text is one
  // An empty passphrase: without one an encrypted key asks for it on the terminal.
  const Key key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, const_cast<char*>("")));
  if (key == nullptr || SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return InvalidArgumentError("TLS key of frames: " + LastError());
  }
  return OkStatus();
}

Status AddAuthorities(const std::string& pem, SSL_CTX* context) {
  const Bio bio = TextBio(pem);
  int count = 0;
  while (const Cert cert{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), cert.get());
    ++count;
  }
  ERR_clear_error();
  return count > 0 ? OkStatus()
                   : InvalidArgumentError("the TLS authorities of frames hold no certificate");
}

Result<Context> MakeContext(const SSL_METHOD* method, const FrameTlsPem& pem) {
  Context context(SSL_CTX_new(method));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (!pem.cert_pem.empty() || !pem.key_pem.empty()) {
    PERGOLA_RETURN_IF_ERROR(AddCertificate(pem, context.get()));
  }
  if (!pem.ca_pem.empty()) PERGOLA_RETURN_IF_ERROR(AddAuthorities(pem.ca_pem, context.get()));
  return context;
}

// OpenSSL's own socket BIO writes without MSG_NOSIGNAL, and a peer that is gone would end the
// process.
int SocketOf(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

int BioWrite(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(SocketOf(bio), data, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int BioRead(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = recv(SocketOf(bio), data, static_cast<size_t>(size), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long BioControl(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* const kMethod = [] {
    BIO_METHOD* const method =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "pergola socket");
    BIO_meth_set_write(method, BioWrite);
    BIO_meth_set_read(method, BioRead);
    BIO_meth_set_ctrl(method, BioControl);
    return method;
  }();
  return kMethod;
}

}  // namespace

struct FrameTls::Impl {
  bool server = false;
  mutable std::mutex mutex;  // guards the next
  Context context;

  // Another reference to the context of now.
  Context Current() const {
    const std::lock_guard lock(mutex);
    SSL_CTX_up_ref(context.get());
    return Context(context.get());
  }
};

namespace {

Result<Context> ServerContext(const FrameTlsPem& pem) {
  if (pem.cert_pem.empty() || pem.key_pem.empty()) {
    return InvalidArgumentError("TLS needs a certificate and its key");
  }
  PERGOLA_ASSIGN_OR_RETURN(Context context, MakeContext(TLS_server_method(), pem));
  if (!pem.ca_pem.empty()) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  // Sessions are not resumed: connections are few and last.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  return context;
}

Result<Context> ClientContext(const FrameTlsPem& pem) {
  if (pem.ca_pem.empty()) {
    return InvalidArgumentError("TLS needs the authorities that servers are checked with");
  }
  PERGOLA_ASSIGN_OR_RETURN(Context context, MakeContext(TLS_client_method(), pem));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

}  // namespace

FrameTls::FrameTls(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FrameTls::~FrameTls() = default;

Status FrameTls::Renew(const FrameTlsPem& pem) {
  PERGOLA_ASSIGN_OR_RETURN(Context context,
                           impl_->server ? ServerContext(pem) : ClientContext(pem));
  const std::lock_guard lock(impl_->mutex);
  impl_->context = std::move(context);
  return OkStatus();
}

Result<std::shared_ptr<FrameTls>> FrameTls::Server(const FrameTlsPem& pem) {
  auto impl = std::make_unique<Impl>();
  impl->server = true;
  std::shared_ptr<FrameTls> tls(new FrameTls(std::move(impl)));
  PERGOLA_RETURN_IF_ERROR(tls->Renew(pem));
  return tls;
}

Result<std::shared_ptr<FrameTls>> FrameTls::Client(const FrameTlsPem& pem) {
  std::shared_ptr<FrameTls> tls(new FrameTls(std::make_unique<Impl>()));
  PERGOLA_RETURN_IF_ERROR(tls->Renew(pem));
  return tls;
}

struct TlsSession::Impl {
  std::unique_ptr<SSL, Freed<SSL_free>> ssl;
  bool client = false;
};

TlsSession::TlsSession(const FrameTls& tls, int socket, const std::string& host)
    : impl_(std::make_unique<Impl>()) {
  impl_->ssl.reset(SSL_new(tls.impl_->Current().get()));
  impl_->client = !host.empty();
  SSL* const ssl = impl_->ssl.get();
  BIO* const bio = BIO_new(SocketMethod());
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  if (host.empty()) return;
  unsigned char address[16];
  const bool number = inet_pton(AF_INET, host.c_str(), address) == 1 ||
                      inet_pton(AF_INET6, host.c_str(), address) == 1;
  if (number) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  } else {
    SSL_set1_host(ssl, host.c_str());
    SSL_set_tlsext_host_name(ssl, host.c_str());
  }
}

TlsSession::~TlsSession() = default;

Status TlsSession::Handshake(const std::function<Status()>& wait) {
  SSL* const ssl = impl_->ssl.get();
  for (;;) {
    ERR_clear_error();
    errno = 0;
    const int result = impl_->client ? SSL_connect(ssl) : SSL_accept(ssl);
    if (result == 1) return OkStatus();
    const int error = SSL_get_error(ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      PERGOLA_RETURN_IF_ERROR(wait());
      continue;
    }
    const long verified = SSL_get_verify_result(ssl);
    if (verified != X509_V_OK) {
      return UnauthenticatedError(std::string("the certificate is not trusted: ") +
                                  X509_verify_cert_error_string(verified));
    }
    if (error == SSL_ERROR_SSL) return UnauthenticatedError("TLS handshake: " + LastError());
    return UnavailableError("the peer ended the TLS handshake");
  }
}

ssize_t TlsSession::Outcome(int result) {
  if (result > 0) return result;
  const int system_error = errno;
  switch (SSL_get_error(impl_->ssl.get(), result)) {
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_SYSCALL:
      errno = system_error != 0 ? system_error : ECONNRESET;
      return -1;
    default:
      errno = EPROTO;
      return -1;
  }
}

ssize_t TlsSession::Read(void* to, size_t bytes) {
  ERR_clear_error();
  errno = 0;
  return Outcome(
      SSL_read(impl_->ssl.get(), to, static_cast<int>(std::min<size_t>(bytes, 1 << 30))));
}

ssize_t TlsSession::Write(const void* from, size_t bytes) {
  ERR_clear_error();
  errno = 0;
  return Outcome(
      SSL_write(impl_->ssl.get(), from, static_cast<int>(std::min<size_t>(bytes, 1 << 30))));
}

}  // namespace pergola::grid
