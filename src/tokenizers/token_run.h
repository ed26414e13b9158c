// Tokens on their way from the model to an Encoding.
#pragma once

#include <string_view>
#include <vector>

#include "tokenizers/post_processor.h"
#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {

// Tokens of one text before special tokens are added. Keeps its memory from text to text.
struct TokenRun {
  std::vector<TokenId> ids;
  std::vector<ByteSpan> offsets;  // empty without offsets
  // White space at both ends of each token, in code points; empty where it is not to be trimmed.
  struct Margin {
    uint32_t leading;
    uint32_t trailing;
  };
  std::vector<Margin> margins;
  bool complete = true;        // all of the text was tokenised
  std::string_view text = {};  // what is tokenised
  size_t begin = 0;            // byte of the text where the run begins

  void Clear();
  // `token` is the piece, or the text that an added token matched. `trims`: Trim() will be called.
  void Push(TokenId id, ByteSpan span, std::string_view token, bool trims);
  // Keeps `count` tokens on the side that truncation keeps.
  void Cut(size_t count, TruncationSide side);
  // Leaves white space at the ends of tokens out of their places, as byte-level post-processing
  // does; the space that was put before the first token is none of the text's.
  void Trim(bool add_prefix_space);
};

// Appends the runs to `encoding` as `pieces` say.
void Assemble(const std::vector<TemplatePiece>& pieces, const TokenRun& first,
              const TokenRun& second, const EncodeOptions& options, Encoding* encoding);

}  // namespace pergola::tokenizers
