// The Tokenizer made of parts: added tokens, normaliser, pre-tokeniser, model, post-processor,
// decoder.
//
//   PipelineParts parts;
//   parts.model = ...;
//   PERGOLA_ASSIGN_OR_RETURN(auto tokenizer, MakePipelineTokenizer(std::move(parts)));
//
// Long texts are worked on in chunks that end where no part looks across, so that truncation stops
// early and memory stays small; the ids are those of the whole text. Where no such place is found
// (a text without any white space, say) more and more text is taken at once.
#pragma once

#include <memory>
#include <vector>

#include "tokenizers/added_tokens.h"
#include "tokenizers/decoder.h"
#include "tokenizers/normalizer.h"
#include "tokenizers/post_processor.h"
#include "tokenizers/pretokenizer.h"
#include "tokenizers/token_model.h"
#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {

struct PipelineParts {
  std::vector<AddedToken> added_tokens;        // in the order of their ids
  std::unique_ptr<Normalizer> normalizer;      // null: none
  std::unique_ptr<Pretokenizer> pretokenizer;  // null: none
  std::unique_ptr<TokenModel> model;           // never null
  PostProcessor post_processor;
  std::unique_ptr<Decoder> decoder;  // null: pieces joined by spaces
  // The parts are BertNormalizer and BertPreTokenizer, so printable ASCII words need neither; the
  // value says whether they are lowercased.
  bool bert_ascii = false;
  bool bert_lowercase = false;
  bool bert_ideographs = false;  // ideographs stand alone
};

// Ids of added tokens that the model does not know follow its own. INVALID_ARGUMENT when the
// post-processor names an id that does not exist.
Result<std::unique_ptr<Tokenizer>> MakePipelineTokenizer(PipelineParts parts);

}  // namespace pergola::tokenizers
