// The normaliser that SentencePiece compiles into its models: a table from character sequences to
// their replacements.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto normalizer, MakePrecompiled(charsmap));
//
// The charsmap:
//
//   0  u32      bytes of the trie
//   4  u32[]    the trie, a double array: unit 0 is the root; a unit has its label in bits 0-7 (and
//               bit 31 must be clear), "a rule ends here" in bit 8, the offset of its children in
//               bits 10-30, shifted left by 8 if bit 9 is set; the child for byte c of unit n is
//               n ^ offset ^ c, and the rule's value the unit n ^ offset without its bit 31
//   .  char[]   the replacements, each ending with NUL; a value is the place of one
//
// Applied as the reference library does, which is not what SentencePiece does: a grapheme cluster
// of at most five bytes is replaced as a whole by the rule for its shortest prefix that has one,
// longer clusters and those without a rule code point by code point.
#pragma once

#include <memory>
#include <string_view>

#include "pergola/status.h"
#include "tokenizers/normalizer.h"

namespace pergola::tokenizers {

// INVALID_ARGUMENT when the sizes do not fit or a replacement is not UTF-8.
Result<std::unique_ptr<Normalizer>> MakePrecompiled(std::string_view charsmap);

}  // namespace pergola::tokenizers
