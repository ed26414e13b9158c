// What must hold of a tokenizer whatever it was made from and whatever it is given: shared by the
// fuzz targets and the replay of their corpora.
#pragma once

#include <string_view>

#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {

// Parses `json` as a tokenizer.json and, when that works, runs CheckEncoding on a few texts.
void CheckTokenizerJson(std::string_view json);

// Encodes `text` (any bytes) whole and cut from both sides, decodes it, and PERGOLA_CHECKs: invalid
// UTF-8 is refused; offsets lie in the text, ids in the vocabulary; a cut text has
// the ids that the whole one has.
void CheckEncoding(const Tokenizer& tokenizer, std::string_view text);

}  // namespace pergola::tokenizers
