// Extended grapheme clusters: what a reader takes for one character.
#pragma once

#include <cstddef>
#include <string_view>

namespace pergola::tokenizers {

// End of the cluster that starts at `begin` (< text.size()), where a cluster must start. Reads no
// further than one code point behind the cluster. By the rules of Unicode Standard Annex 29, with
// the properties of the version that the reference library carries.
size_t GraphemeEnd(std::string_view text, size_t begin);

}  // namespace pergola::tokenizers
