#include "gateway/http_types.h"

namespace pergola::gateway {

std::optional<std::string_view> HttpRequest::header(std::string_view name) const {
  for (const HttpHeader& header : headers) {
    if (header.name == name) return header.value;
  }
  return std::nullopt;
}

}  // namespace pergola::gateway
