#include "hub/digest.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

namespace pergola::hub {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

Context Start(const EVP_MD* algorithm) {
  Context context(EVP_MD_CTX_new());
  EVP_DigestInit_ex(context.get(), algorithm, nullptr);
  return context;
}

std::string Finish(const Context& context) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context.get(), digest, &size);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

Result<std::string> OfFile(const std::filesystem::path& path, const EVP_MD* algorithm,
                           std::string_view prefix) {
  std::unique_ptr<FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return NotFoundError("cannot open '" + path.string() + "': " + std::strerror(errno));
  }
  const Context context = Start(algorithm);
  EVP_DigestUpdate(context.get(), prefix.data(), prefix.size());
  std::vector<char> block(kBlockBytes);
  size_t got = 0;
  while ((got = std::fread(block.data(), 1, block.size(), file.get())) > 0) {
    EVP_DigestUpdate(context.get(), block.data(), got);
  }
  if (std::ferror(file.get()) != 0) {
    return InternalError("cannot read '" + path.string() + "': " + std::strerror(errno));
  }
  return Finish(context);
}

}  // namespace

Result<std::string> Sha256OfFile(const std::filesystem::path& path) {
  return OfFile(path, EVP_sha256(), "");
}

Result<std::string> GitBlobSha1OfFile(const std::filesystem::path& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return NotFoundError("cannot read '" + path.string() + "': " + error.message());
  std::string prefix = "blob " + std::to_string(bytes);
  prefix.push_back('\0');
  return OfFile(path, EVP_sha1(), prefix);
}

std::string Sha256(std::string_view bytes) {
  const Context context = Start(EVP_sha256());
  EVP_DigestUpdate(context.get(), bytes.data(), bytes.size());
  return Finish(context);
}

std::string GitBlobSha1(std::string_view bytes) {
  std::string prefix = "blob " + std::to_string(bytes.size());
  prefix.push_back('\0');
  const Context context = Start(EVP_sha1());
  EVP_DigestUpdate(context.get(), prefix.data(), prefix.size());
  EVP_DigestUpdate(context.get(), bytes.data(), bytes.size());
  return Finish(context);
}

}  // namespace pergola::hub
