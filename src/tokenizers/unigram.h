// Unigram: of all ways to cut a pre-token into pieces, the one whose scores add up highest.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto unigram, Unigram::Make(std::move(vocabulary), scores, options));
//
// Scores are added in double precision from left to right, and of equal sums the one with the
// longer last piece wins: ids are those of the reference library to the bit. A code point that no
// piece covers costs the lowest score less 10 and becomes the unknown token; neighbouring ones are
// one. Linear in the length of the pre-token.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tokenizers/double_array.h"
#include "tokenizers/token_model.h"
#include "tokenizers/vocabulary.h"

namespace pergola::tokenizers {

struct UnigramOptions {
  TokenId unk = 0;
  bool byte_fallback =
      false;  // what is unknown becomes "<0xE2>" tokens, if the vocabulary has them
};

class Unigram final : public TokenModel {
 public:
  // One score per id. INVALID_ARGUMENT when their number differs, or the unknown token is outside
  // the vocabulary.
  static Result<std::unique_ptr<Unigram>> Make(Vocabulary vocabulary, std::vector<double> scores,
                                               const UnigramOptions& options);

  std::string_view kind() const override { return "unigram"; }
  void Tokenize(std::string_view piece, ModelScratch* scratch,
                std::vector<ModelToken>* tokens) const override;
  TokenId TokenToId(std::string_view token) const override { return vocabulary_.Find(token); }
  std::string_view IdToToken(TokenId id) const override { return vocabulary_.Token(id); }
  size_t id_limit() const override { return vocabulary_.id_limit(); }
  // Any piece may reach over any place; where words end is the pre-tokeniser's matter.
  bool IsBoundary(char32_t /*before*/, char32_t /*after*/) const override { return false; }

 private:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options);

  void FillLattice(std::string_view piece, std::vector<ModelScratch::LatticeNode>* lattice) const;
  // Tokens for what is unknown, bytes [begin, end) of `piece`; in reverse order.
  void PushUnknown(std::string_view piece, uint32_t begin, uint32_t end,
                   std::vector<ModelToken>* tokens) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;  // by id
  DoubleArray trie_;            // pieces -> ids
  TokenId unk_;
  double unk_score_ = 0;
  std::array<TokenId, 256> byte_ids_{};  // -1: none
  bool byte_fallback_;
};

}  // namespace pergola::tokenizers
