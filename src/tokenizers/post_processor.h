// Which special tokens surround one text or a pair, and the segment of each token.
//
//   PostProcessor processor = PostProcessor::Bert({.id = 101}, {.id = 102});
//
// TemplateProcessing, BertProcessing and RobertaProcessing are all such templates.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {

struct TemplatePiece {
  enum class Kind { kSpecial, kFirst, kSecond };
  Kind kind = Kind::kFirst;
  std::vector<TokenId> ids;  // kSpecial only
  int32_t type_id = 0;
};

// A value, immutable once made.
struct PostProcessor {
  std::vector<TemplatePiece> single = {{TemplatePiece::Kind::kFirst, {}, 0}};
  std::vector<TemplatePiece> pair = {{TemplatePiece::Kind::kFirst, {}, 0},
                                     {TemplatePiece::Kind::kSecond, {}, 1}};
  // Offsets leave out white space at the ends of a token ("Ġ" in byte-level pieces).
  bool trim_offsets = false;
  bool add_prefix_space = false;

  // [CLS] A [SEP] and [CLS] A [SEP] B [SEP], the second text and its [SEP] in segment 1.
  static PostProcessor Bert(TokenId cls, TokenId sep);
  // <s> A </s> and <s> A </s> </s> B </s>, all in segment 0.
  static PostProcessor Roberta(TokenId cls, TokenId sep);

  size_t NumAddedTokens(bool for_pair) const;
};

}  // namespace pergola::tokenizers
