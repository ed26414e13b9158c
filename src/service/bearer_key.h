// What an `Authorization` of HTTP or gRPC gives: one reading for all who look at keys.
//
//   const std::string_view key = service::BearerKey("Bearer sk-search");   // "sk-search"
#pragma once

#include <string_view>

namespace pergola::service {

// The key of `Bearer <key>`, without blanks around it, a part of `authorization`; the scheme's case
// does not matter. Empty: there is none, or another scheme.
std::string_view BearerKey(std::string_view authorization);

}  // namespace pergola::service
