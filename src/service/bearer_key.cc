#include "service/bearer_key.h"

#include <algorithm>

namespace pergola::service {
namespace {

constexpr std::string_view kScheme = "bearer ";
constexpr std::string_view kBlanks = " \t";

}  // namespace

std::string_view BearerKey(std::string_view authorization) {
  const auto equal = [](char given, char lower) {
    return (given >= 'A' && given <= 'Z' ? static_cast<char>(given + 32) : given) == lower;
  };
  if (authorization.size() < kScheme.size() ||
      !std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                  [&](char lower, char given) { return equal(given, lower); })) {
    return {};
  }
  const std::string_view rest = authorization.substr(kScheme.size());
  const size_t begin = rest.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return rest.substr(begin, rest.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace pergola::service
