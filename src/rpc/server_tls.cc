#include "rpc/server_tls.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <mutex>
#include <utility>

#include "core/memory_file.h"

namespace pergola::rpc {
namespace {

constexpr unsigned kRefreshSeconds = 1;  // the least that gRPC takes

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Cert = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio TextBio(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}

Cert FirstCertificate(const std::string& pem) {
  const Bio bio = TextBio(pem);
  return Cert(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free);
}

// gRPC would find out when the first client comes, and tell nobody.
Status Check(const LinkTls& tls) {
  if (tls.cert.empty() || tls.key.empty()) {
    return InvalidArgumentError("TLS needs both a certificate and a key");
  }
  const Cert cert = FirstCertificate(tls.cert);
  const Bio key_bio = TextBio(tls.key);
  // An empty passphrase: without one an encrypted key asks for it on the terminal.
  const Key key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, const_cast<char*>("")),
                EVP_PKEY_free);
  const bool together = cert && key && X509_check_private_key(cert.get(), key.get()) == 1;
  const bool authorities = tls.ca.empty() || FirstCertificate(tls.ca) != nullptr;
  ERR_clear_error();
  if (!cert) return InvalidArgumentError("the TLS certificate is none (PEM)");
  if (!key) return InvalidArgumentError("the TLS key is none (PEM)");
  if (!together) return InvalidArgumentError("the TLS key does not belong to the certificate");
  return authorities ? OkStatus()
                     : InvalidArgumentError("the TLS authorities hold no certificate (PEM)");
}

// One file, so that gRPC reads a pair: it takes the first key and all certificates.
std::string PairOf(const LinkTls& tls) { return tls.key + "\n" + tls.cert; }

}  // namespace

struct ServerTls::State {
  std::mutex mutex;  // one renewal at a time
  std::unique_ptr<MemoryFile> pair;
  std::unique_ptr<MemoryFile> authorities;  // null: clients need no certificate
  std::shared_ptr<grpc::ServerCredentials> credentials;
};

ServerTls::ServerTls(std::unique_ptr<State> state) : state_(std::move(state)) {}
ServerTls::~ServerTls() = default;

Result<std::unique_ptr<ServerTls>> ServerTls::Make(const LinkTls& tls) {
  PERGOLA_RETURN_IF_ERROR(Check(tls));
  auto state = std::make_unique<State>();
  PERGOLA_ASSIGN_OR_RETURN(state->pair, MemoryFile::Make("certificate", PairOf(tls)));
  std::string authorities;
  if (!tls.ca.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(state->authorities, MemoryFile::Make("authorities", tls.ca));
    authorities = state->authorities->path();
  }
  const std::string& pair = state->pair->path();
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(pair, pair, authorities,
                                                                           kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (!authorities.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  state->credentials = grpc::experimental::TlsServerCredentials(options);
  return std::unique_ptr<ServerTls>(new ServerTls(std::move(state)));
}

std::shared_ptr<grpc::ServerCredentials> ServerTls::credentials() const {
  return state_->credentials;
}

Status ServerTls::Renew(const LinkTls& tls) {
  PERGOLA_RETURN_IF_ERROR(Check(tls));
  const std::lock_guard lock(state_->mutex);
  if (tls.ca.empty() != (state_->authorities == nullptr)) {
    return InvalidArgumentError("whether clients need a TLS certificate cannot change");
  }
  PERGOLA_RETURN_IF_ERROR(state_->pair->Replace(PairOf(tls)));
  return state_->authorities == nullptr ? OkStatus() : state_->authorities->Replace(tls.ca);
}

}  // namespace pergola::rpc
