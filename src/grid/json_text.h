// A string as JSON writes it, for what parts and the router state about themselves.
#pragma once

#include <string>
#include <string_view>

namespace pergola::grid {

// With quotes; control characters are left out.
std::string JsonText(std::string_view text);

}  // namespace pergola::grid
