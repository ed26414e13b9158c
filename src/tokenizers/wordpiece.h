// WordPiece: the longest piece that fits, again and again; a word that does not come out even is
// one unknown token. Pieces inside a word are stored with a prefix ("##").
#pragma once

#include <memory>
#include <string>

#include "tokenizers/byte_trie.h"
#include "tokenizers/token_model.h"
#include "tokenizers/vocabulary.h"

namespace pergola::tokenizers {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  size_t max_input_chars_per_word = 100;  // longer words are unknown
};

// Costs one look-up for a word of the vocabulary, else a walk of two tries.
class WordPiece final : public TokenModel {
 public:
  // INVALID_ARGUMENT when the vocabulary lacks the unknown token.
  static Result<std::unique_ptr<WordPiece>> Make(Vocabulary vocabulary, WordPieceOptions options);

  std::string_view kind() const override { return "wordpiece"; }
  void Tokenize(std::string_view piece, ModelScratch* scratch,
                std::vector<ModelToken>* tokens) const override;
  TokenId TokenToId(std::string_view token) const override { return vocabulary_.Find(token); }
  std::string_view IdToToken(TokenId id) const override { return vocabulary_.Token(id); }
  size_t id_limit() const override { return vocabulary_.id_limit(); }
  // Words are what WordPiece sees; where they end is the pre-tokeniser's matter.
  bool IsBoundary(char32_t /*before*/, char32_t /*after*/) const override { return false; }

 private:
  WordPiece(Vocabulary vocabulary, WordPieceOptions options, TokenId unk);

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  TokenId unk_;
  ByteTrie initial_;       // pieces at the start of a word
  ByteTrie continuation_;  // pieces inside a word, without their prefix
};

}  // namespace pergola::tokenizers
