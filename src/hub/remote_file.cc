#include "hub/remote_file.h"

#include "hub/digest.h"

namespace pergola::hub {

Result<std::string> VerifyFile(const RemoteFile& expected, const std::filesystem::path& path) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) return NotFoundError("cannot read '" + path.string() + "': " + error.message());
  if (bytes != expected.bytes) {
    return DataLossError("'" + expected.path + "' has " + std::to_string(bytes) +
                         " bytes, expected " + std::to_string(expected.bytes));
  }
  PERGOLA_ASSIGN_OR_RETURN(std::string sha256, Sha256OfFile(path));
  if (!expected.sha256.empty()) {
    if (sha256 == expected.sha256) return sha256;
    return DataLossError("'" + expected.path + "' has the wrong SHA-256 " + sha256 + ", expected " +
                         expected.sha256);
  }
  if (!expected.git_sha1.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(const std::string sha1, GitBlobSha1OfFile(path));
    if (sha1 != expected.git_sha1) {
      return DataLossError("'" + expected.path + "' has the wrong Git hash " + sha1 +
                           ", expected " + expected.git_sha1);
    }
  }
  return sha256;
}

}  // namespace pergola::hub
