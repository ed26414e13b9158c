#include "formats/sha256.h"

#include <openssl/sha.h>

#include <filesystem>

#include "core/mapped_file.h"

namespace pergola::formats {

std::string Sha256Hex(std::span<const std::byte> bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string Sha256Hex(std::string_view text) {
  return Sha256Hex(std::as_bytes(std::span(text.data(), text.size())));
}

Result<std::string> Sha256HexOfFile(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (!error && bytes == 0) return Sha256Hex(std::string_view());  // nothing to map
  PERGOLA_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  file.Advise(AccessPattern::kSequential);
  return Sha256Hex(file.bytes());
}

}  // namespace pergola::formats
