// Text of protocols, in which case and blanks do not matter. ASCII only, whatever the locale.
//
//   if (EqualsIgnoringCase(coding, "gzip")) ...
#pragma once

#include <string>
#include <string_view>

namespace pergola {

std::string LowerCase(std::string_view text);
bool EqualsIgnoringCase(std::string_view a, std::string_view b);
// The part of `text` without blanks and tabs on both sides.
std::string_view Trimmed(std::string_view text);

}  // namespace pergola
