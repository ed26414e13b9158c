// Byte-pair encoding: symbols are joined by ranked merges. Symbols are code points, where unknown
// ones may fall back to byte tokens (the Gemma family), or bytes (GPT-2 and all that followed it).
//
//   PERGOLA_ASSIGN_OR_RETURN(auto bpe, Bpe::Make(std::move(vocabulary), options, num_merges));
//   PERGOLA_RETURN_IF_ERROR(bpe->AddMerges(merges));  // in the order of their ranks
//
// A pre-token of code points may be a whole text. It is taken apart wherever no merge can join two
// neighbouring code points, so most units are words, and a word that is one piece of the vocabulary
// costs one look-up. A long unit costs O(n log n).
//
// A byte-level vocabulary is written in GPT-2's alphabet (byte_alphabet.h). Here its pieces are
// looked up as the bytes that they stand for, so text needs no translation.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "core/large_memory.h"
#include "tokenizers/code_point_pairs.h"
#include "tokenizers/token_model.h"
#include "tokenizers/vocabulary.h"

namespace pergola::tokenizers {

struct BpeOptions {
  std::string unk_token;  // empty: unknown code points are dropped
  bool byte_fallback =
      false;              // unknown code points become "<0xE2>" tokens, if the vocabulary has them
  bool fuse_unk = false;  // neighbouring unknown code points are one token
  bool ignore_merges = false;  // a pre-token that is in the vocabulary is not taken apart
  bool byte_level = false;     // the pre-tokeniser maps bytes to letters
};

struct Merge {
  std::string_view left;
  std::string_view right;
};

// Immutable and thread-safe once all merges are added.
class Bpe final : public TokenModel {
 public:
  // INVALID_ARGUMENT when the unknown token is not in the vocabulary.
  static Result<std::unique_ptr<Bpe>> Make(Vocabulary vocabulary, BpeOptions options,
                                           size_t num_merges);

  // Ranks go on from earlier calls; at most `num_merges` in all. Of equal pairs the last counts.
  // INVALID_ARGUMENT names a merge whose parts or result are not in the vocabulary.
  Status AddMerges(std::span<const Merge> merges);

  std::string_view kind() const override { return "bpe"; }
  void Tokenize(std::string_view piece, ModelScratch* scratch,
                std::vector<ModelToken>* tokens) const override;
  TokenId TokenToId(std::string_view token) const override { return vocabulary_.Find(token); }
  std::string_view IdToToken(TokenId id) const override { return vocabulary_.Token(id); }
  size_t id_limit() const override { return vocabulary_.id_limit(); }
  // Of a byte-level vocabulary, unless letters of the alphabet are missing.
  bool reads_bytes() const override { return reads_bytes_; }
  bool IsBoundary(char32_t before, char32_t after) const override;

 private:
  struct MergeSlot {
    TokenId left = -1;  // -1: free
    TokenId right = -1;
    uint32_t rank = 0;
    TokenId merged = -1;
  };
  // What is known of a piece as a unit of its own.
  enum UnitState : uint8_t { kUnknown, kStaysWhole, kFallsApart };

  Bpe(Vocabulary vocabulary, BpeOptions options, TokenId unk, size_t num_merges);

  size_t SlotOf(TokenId left, TokenId right) const {
    const uint64_t key = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
    return key * 0x9E3779B97F4A7C15u >> merge_shift_;
  }
  // Null when the two are never joined.
  const MergeSlot* FindMerge(TokenId left, TokenId right) const;
  void InsertMerge(const MergeSlot& merge);
  Status AddBlock(std::span<const Merge> merges);
  // The piece that two parts make; `before` is what the merge before made, or -1.
  TokenId FindMerged(std::string_view left, std::string_view right, TokenId before) const;

  // Fills by_bytes_ and byte_ids_; false when a byte has no token.
  bool IndexBytes();
  // The piece of these bytes as text has them.
  TokenId FindUnit(std::string_view unit) const;
  // The same of one byte; of code points, ASCII.
  TokenId FindByte(char byte) const;
  TokenId FindCodePoint(std::string_view bytes) const;
  bool Knows(char32_t code_point) const;
  void TokenizeUnit(std::string_view unit, uint32_t offset, ModelScratch* scratch,
                    std::vector<ModelToken>* tokens) const;
  // The code points of `unit` as symbols.
  void FillSymbols(std::string_view unit, ModelScratch* scratch) const;
  void MergeFew(ModelScratch* scratch) const;   // by looking at all pairs each time
  void MergeMany(ModelScratch* scratch) const;  // with a heap

  Vocabulary vocabulary_;
  Vocabulary by_bytes_;  // pieces as the bytes that they stand for; only if reads_bytes_
  bool reads_bytes_ = false;
  BpeOptions options_;
  TokenId unk_;
  TableVector<MergeSlot> merges_;
  int merge_shift_ = 63;
  size_t capacity_;
  uint32_t num_merges_ = 0;
  TokenId last_merged_ = -1;
  std::array<TokenId, 128> ascii_ids_;
  std::array<TokenId, 256> byte_ids_;  // byte tokens, or if reads_bytes_ the letters of bytes
  bool has_all_bytes_ = true;
  bool joins_fallbacks_ = false;  // some merge has a byte token or the unknown token as a part
  CodePointPairs joins_;          // last code point of a left part, first of its right part
  // By id; filled in as units are met. Only a memo: any thread finds the same, so relaxed order
  // does.
  std::unique_ptr<std::atomic<uint8_t>[]> unit_states_;
};

}  // namespace pergola::tokenizers
