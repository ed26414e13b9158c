#include "cli/whole_file.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/ascii.h"

namespace pergola::cli {

Result<std::string> ReadWholeFile(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFoundError("'" + path + "' cannot be read");
  std::string content;
  content.resize(kMostBytes + 1);
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<size_t>(file.gcount()));
  if (content.empty()) return InvalidArgumentError("'" + path + "' is empty");
  if (content.size() > kMostBytes) return InvalidArgumentError("'" + path + "' is over 1 MiB");
  return content;
}

Result<std::string> ReadKeyFile(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(const std::string content, ReadWholeFile(path));
  std::string key(Trimmed(std::string_view(content).substr(0, content.find_first_of("\r\n"))));
  if (key.empty()) return InvalidArgumentError("'" + path + "' has no key in its first line");
  // It is sent in a header, where nothing else may stand.
  const bool visible =
      std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!visible) {
    return InvalidArgumentError("the key in '" + path +
                                "' holds something else than visible ASCII characters");
  }
  return key;
}

}  // namespace pergola::cli
