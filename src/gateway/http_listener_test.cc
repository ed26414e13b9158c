// Where the server listens: addresses, unix socket, TLS.
#include "gateway/http_listener.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <fstream>

#include "gateway/testing/server_fixture.h"

namespace pergola::gateway {
namespace {

using testing::Get;
using testing::Post;
using testing::RawAnswer;
using testing::RawClient;

class HttpListenerTest : public testing::ServerTest {
 protected:
  // A self-signed certificate for "localhost" and its key, as PEM files in folder_.
  void MakeCertificate() {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_sign(certificate, key, EVP_sha256());
    options_.tls_cert_file = folder_ / "cert.pem";
    options_.tls_key_file = folder_ / "key.pem";
    BIO* out = BIO_new_file(options_.tls_cert_file.c_str(), "w");
    PEM_write_bio_X509(out, certificate);
    BIO_free(out);
    out = BIO_new_file(options_.tls_key_file.c_str(), "w");
    PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
    BIO_free(out);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }

  StatusCode StartCode() { return HttpServer::Start(options_, handler_).status().code(); }
};

// Speaks TLS over a RawClient's socket.
class TlsClient {
 public:
  explicit TlsClient(RawClient client) : client_(std::move(client)) {
    context_ = SSL_CTX_new(TLS_client_method());
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, client_.fd());
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  bool Handshake() { return SSL_connect(ssl_) == 1; }
  bool Send(std::string_view bytes) {
    return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) ==
           static_cast<int>(bytes.size());
  }
  // Everything until the server closes, or until `mark` came.
  std::string ReadUntil(std::string_view mark) {
    std::string all;
    char piece[4096];
    while (mark.empty() || all.find(mark) == std::string::npos) {
      const int received = SSL_read(ssl_, piece, sizeof(piece));
      if (received <= 0) break;
      all.append(piece, static_cast<size_t>(received));
    }
    return all;
  }
  // SHA-256 of the server's certificate, after the handshake.
  std::string ServerCertificate() const {
    std::string digest(EVP_MAX_MD_SIZE, '\0');
    unsigned int size = 0;
    X509* const certificate = SSL_get1_peer_certificate(ssl_);
    X509_digest(certificate, EVP_sha256(), reinterpret_cast<unsigned char*>(digest.data()), &size);
    X509_free(certificate);
    return digest.substr(0, size);
  }
  bool closed_cleanly() const { return (SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN) != 0; }

 private:
  RawClient client_;
  SSL_CTX* context_;
  SSL* ssl_;
};

TEST_F(HttpListenerTest, ListensOnSeveralAddressesWithOnePort) {
  options_.hosts = {"127.0.0.1", "[::1]"};
  Start();
  EXPECT_EQ(server_->addresses()[0], "http://127.0.0.1:" + std::to_string(server_->port()));
  EXPECT_EQ(server_->addresses()[1], "http://[::1]:" + std::to_string(server_->port()));
  EXPECT_EQ(Ask(Get("/get")).status, 200);
  EXPECT_EQ(RawClient::Tcp6(server_->port()).Ask(Get("/get")).status, 200);
}

TEST_F(HttpListenerTest, ListensOnAUnixSocketAndRemovesItsFile) {
  options_.hosts.clear();
  options_.unix_socket = folder_ / "sock";
  Start();
  EXPECT_EQ(server_->port(), 0);
  EXPECT_EQ(server_->addresses()[0], "unix:" + options_.unix_socket);
  EXPECT_EQ(RawClient::Unix(options_.unix_socket).Ask(Post("/echo", "x")).body, "x");
  EXPECT_EQ(Logged(0).peer, "unix");
  // Somebody listens: a second server does not take it over, nor removes it when it fails.
  EXPECT_EQ(StartCode(), StatusCode::kAlreadyExists);
  EXPECT_EQ(RawClient::Unix(options_.unix_socket).Ask(Get("/get")).status, 200);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(options_.unix_socket));
}

TEST_F(HttpListenerTest, ReplacesAStaleSocketButNoOtherFile) {
  const std::string path = folder_ / "sock";
  {
    const Result<ListeningSocket> stale = ListenUnix(path);
    ASSERT_TRUE(stale.ok());
    ::close(stale->fd);
  }
  const Result<ListeningSocket> fresh = ListenUnix(path);
  ASSERT_TRUE(fresh.ok()) << fresh.status().ToString();
  ::close(fresh->fd);
  std::ofstream(folder_ / "file") << "kept";
  EXPECT_EQ(ListenUnix(folder_ / "file").status().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "file"));
}

TEST_F(HttpListenerTest, SaysWhyItCannotListen) {
  Start();
  options_.port = server_->port();
  EXPECT_EQ(StartCode(), StatusCode::kAlreadyExists);
  options_.port = 70'000;
  EXPECT_EQ(StartCode(), StatusCode::kInvalidArgument);
  options_.port = 0;
  options_.hosts = {"no such host."};
  EXPECT_EQ(StartCode(), StatusCode::kNotFound);
  options_.hosts.clear();
  EXPECT_EQ(StartCode(), StatusCode::kInvalidArgument);
}

TEST_F(HttpListenerTest, ServesOverTls) {
  MakeCertificate();
  options_.request_timeout = std::chrono::milliseconds(0);
  Start();
  EXPECT_TRUE(server_->addresses()[0].starts_with("https://"));
  TlsClient client(Connect());
  ASSERT_TRUE(client.Handshake());
  ASSERT_TRUE(client.Send(Post("/echo", "first") + Get("/get")));
  const std::string both = client.ReadUntil("{\"path\":\"/get\"}");
  EXPECT_NE(both.find("first"), std::string::npos);
  const std::string body(300'000, 'x');
  ASSERT_TRUE(client.Send(Post("/echo", body + "END")));
  EXPECT_NE(client.ReadUntil("END").find(body), std::string::npos);
  ASSERT_TRUE(client.Send(Get("/stream", "Connection: close\r\n")));
  EXPECT_GT(client.ReadUntil("").size(), 5'000u);
  EXPECT_TRUE(client.closed_cleanly());
}

TEST_F(HttpListenerTest, NewConnectionsGetTheCertificateThatWasReloaded) {
  MakeCertificate();
  options_.network_threads = 2;
  Start();
  EXPECT_TRUE(server_->has_tls());
  const auto of_new_connection = [&] {
    TlsClient client(Connect());
    EXPECT_TRUE(client.Handshake());
    return client.ServerCertificate();
  };
  TlsClient old(Connect());
  ASSERT_TRUE(old.Handshake());
  const std::string first = old.ServerCertificate();
  MakeCertificate();
  EXPECT_EQ(of_new_connection(), first);  // not before it is told
  ASSERT_TRUE(server_->ReloadCertificates().ok());
  const std::string second = of_new_connection();
  EXPECT_NE(second, first);
  EXPECT_EQ(of_new_connection(), second);  // on the other thread, too
  // Who is connected goes on.
  ASSERT_TRUE(old.Send(Get("/get")));
  EXPECT_NE(old.ReadUntil("{\"path\":\"/get\"}").find("200"), std::string::npos);
  // What cannot be used changes nothing.
  std::ofstream(options_.tls_key_file) << "no key";
  EXPECT_EQ(server_->ReloadCertificates().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(of_new_connection(), second);
  std::filesystem::remove(options_.tls_cert_file);
  EXPECT_EQ(server_->ReloadCertificates().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(of_new_connection(), second);
}

TEST_F(HttpListenerTest, WithoutTlsThereIsNoCertificateToReload) {
  Start();
  EXPECT_FALSE(server_->has_tls());
  EXPECT_TRUE(server_->ReloadCertificates().ok());
  EXPECT_EQ(Ask(Get("/get")).status, 200);
}

TEST_F(HttpListenerTest, SeesATlsClientGoAway) {
  MakeCertificate();
  Start();
  {
    TlsClient client(Connect());
    ASSERT_TRUE(client.Handshake());
    ASSERT_TRUE(client.Send(Get("/hold")));
    ASSERT_TRUE(handler_->WaitHeld(1));
  }
  EXPECT_EQ(Logged(0).status, 499);
  EXPECT_TRUE(handler_->cancel(0)->cancelled());
}

TEST_F(HttpListenerTest, DoesNotWaitForATlsGreeting) {
  MakeCertificate();
  options_.header_deadline = std::chrono::milliseconds(30);
  Start();
  EXPECT_TRUE(Connect().WaitClosed());
  RawClient plain = Connect();
  plain.Send(Get("/get"));
  EXPECT_TRUE(plain.WaitClosed());
}

TEST_F(HttpListenerTest, RefusesBadCertificates) {
  MakeCertificate();
  const std::string key = options_.tls_key_file;
  options_.tls_key_file.clear();
  EXPECT_EQ(StartCode(), StatusCode::kInvalidArgument);
  options_.tls_key_file = options_.tls_cert_file;
  EXPECT_EQ(StartCode(), StatusCode::kInvalidArgument);
  options_.tls_key_file = key;
  options_.tls_cert_file = folder_ / "missing.pem";
  EXPECT_EQ(StartCode(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pergola::gateway
