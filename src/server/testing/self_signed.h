// A certificate for 127.0.0.1 that its own key signs, for tests of TLS.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace pergola::server::testing {

struct Certificate {
  std::string cert_pem;
  std::string key_pem;
};

inline std::string Drain(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

// Valid for an hour. `names` as OpenSSL writes subject alternative names.
inline Certificate MakeSelfSigned(const std::string& names = "IP:127.0.0.1") {
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Cert = std::unique_ptr<X509, decltype(&X509_free)>;
  using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
  using Extension = std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)>;
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Cert cert(X509_new(), X509_free);
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
  X509_set_pubkey(cert.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("pergola test"), -1, -1, 0);
  X509_set_issuer_name(cert.get(), subject);
  for (const auto& [kind, value] :
       {std::pair<int, std::string>{NID_subject_alt_name, names},
        std::pair<int, std::string>{NID_basic_constraints, "critical,CA:TRUE"}}) {
    const Extension extension(X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str()),
                              X509_EXTENSION_free);
    X509_add_ext(cert.get(), extension.get(), -1);
  }
  X509_sign(cert.get(), key.get(), EVP_sha256());
  const Bio cert_out(BIO_new(BIO_s_mem()), BIO_free);
  const Bio key_out(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(cert_out.get(), cert.get());
  PEM_write_bio_PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {Drain(cert_out.get()), Drain(key_out.get())};
}

}  // namespace pergola::server::testing
