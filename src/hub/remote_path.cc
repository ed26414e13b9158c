#include "hub/remote_path.h"

#include <simdjson.h>

#include <string>

namespace pergola::hub {
namespace {

constexpr size_t kMaxComponents = 16;
constexpr size_t kMaxComponentBytes = 200;

// What is left of a hostile name for a message: printable ASCII, at most 100 characters.
std::string Shown(std::string_view path) {
  std::string shown;
  for (char c : path.substr(0, 100)) shown += (c >= ' ' && c <= '~') ? c : '?';
  return shown;
}

// Why the component is refused, or nullptr.
const char* ComponentFault(std::string_view component) {
  if (component.empty()) return "an empty component";
  if (component == "." || component == "..") return "a '.' or '..' component";
  if (component.size() > kMaxComponentBytes) return "a component of more than 200 bytes";
  for (unsigned char c : component) {
    if (c < 0x20 || c == 0x7f) return "a control character";
    if (c == '\\') return "a backslash";
  }
  return nullptr;
}

}  // namespace

Status CheckRemotePath(std::string_view path) {
  const auto refuse = [&](const std::string& why) {
    return InvalidArgumentError("unsafe file name '" + Shown(path) + "': " + why);
  };
  if (!simdjson::validate_utf8(path)) return refuse("not UTF-8");
  size_t components = 0;
  for (size_t begin = 0;;) {
    const size_t end = path.find('/', begin);
    const std::string_view component =
        path.substr(begin, end == std::string_view::npos ? end : end - begin);
    if (const char* fault = ComponentFault(component)) return refuse(fault);
    if (++components > kMaxComponents) return refuse("more than 16 components");
    if (end == std::string_view::npos) return OkStatus();
    begin = end + 1;
  }
}

}  // namespace pergola::hub
