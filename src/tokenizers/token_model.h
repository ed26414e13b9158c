// What turns one pre-token into ids: WordPiece, BPE, Unigram.
//
//   std::vector<ModelToken> tokens;
//   ModelScratch scratch;
//   model.Tokenize("▁hello", &scratch, &tokens);
//
// Knows nothing of added tokens, normalisation or special tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {

// A token and the bytes of the pre-token that it stands for. Byte tokens stand for one byte each.
struct ModelToken {
  TokenId id;
  uint32_t begin;
  uint32_t end;
};

// Working memory of one call chain, reused from pre-token to pre-token. Thread-confined.
struct ModelScratch {
  struct Symbol {
    TokenId id;
    uint32_t begin;
    uint32_t end;
    int32_t previous;
    int32_t next;
  };
  struct Candidate {
    uint32_t rank;
    uint32_t left;  // index of the left symbol
    TokenId merged;
    uint32_t end;  // of the right symbol when the pair was looked up
  };
  // The best way to cut the bytes before a place; the last piece of it starts at `begin`.
  struct LatticeNode {
    double score;
    uint32_t begin;
    TokenId id;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> candidates;
  std::vector<LatticeNode> lattice;

  size_t capacity_bytes() const {
    return symbols.capacity() * sizeof(Symbol) + candidates.capacity() * sizeof(Candidate) +
           lattice.capacity() * sizeof(LatticeNode);
  }
};

// Immutable and thread-safe.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  // As Tokenizer::kind.
  virtual std::string_view kind() const = 0;

  // Appends the tokens of `piece`, which is not empty, valid UTF-8 and below 4 GB.
  virtual void Tokenize(std::string_view piece, ModelScratch* scratch,
                        std::vector<ModelToken>* tokens) const = 0;

  virtual TokenId TokenToId(std::string_view token) const = 0;
  // Empty when there is none.
  virtual std::string_view IdToToken(TokenId id) const = 0;
  // One more than the largest id; added tokens that the model does not know are numbered from here
  // on.
  virtual size_t id_limit() const = 0;

  // The pieces are bytes as they are, not letters that stand for bytes (byte_alphabet.h).
  virtual bool reads_bytes() const { return false; }

  // True when a text may be cut between these neighbours without changing any token. May say false
  // when unsure.
  virtual bool IsBoundary(char32_t before, char32_t after) const = 0;
};

}  // namespace pergola::tokenizers
