// Pieces and their ids, both ways: one string arena, one flat hash table, no allocation per entry.
//
//   Vocabulary vocabulary;
//   vocabulary.Reserve(30522, 231508);
//   PERGOLA_RETURN_IF_ERROR(vocabulary.Add("hello", 7592));
//   TokenId id = vocabulary.Find("hello");
//
// Filled once, then immutable and thread-safe. A look-up costs one cache line of the table and one
// of the arena.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pergola/status.h"
#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {

// Mixes eight bytes at a time; not a defence against chosen keys.
uint64_t HashBytes(std::string_view bytes);

class Vocabulary {
 public:
  static constexpr TokenId kNone = -1;

  Vocabulary() = default;

  // Room for `num_tokens` of `num_bytes` altogether; ids are then limited to 64 * num_tokens +
  // 65,536, so that a hostile file cannot ask for more memory than its own size warrants.
  void Reserve(size_t num_tokens, size_t num_bytes);

  // INVALID_ARGUMENT naming the token for an id that is negative, too large or taken, for a token
  // that is there already, or for more tokens than reserved.
  Status Add(std::string_view token, int64_t id);

  // kNone when there is none.
  TokenId Find(std::string_view token) const { return Find(token, HashBytes(token)); }
  // With the hash of the token at hand. PrefetchSlot() and, some look-ups later, PrefetchToken()
  // hide the latency of memory.
  TokenId Find(std::string_view token, uint64_t hash) const;
  void PrefetchSlot(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }
  void PrefetchToken(uint64_t hash) const {
    __builtin_prefetch(arena_.data() + slots_[hash & mask_].offset);
  }

  // Empty for an id without a token. Valid as long as the vocabulary.
  std::string_view Token(TokenId id) const {
    if (id < 0 || static_cast<size_t>(id) >= places_.size()) return {};
    const Place place = places_[static_cast<size_t>(id)];
    return {arena_.data() + place.offset, place.length};
  }
  bool Has(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < places_.size() &&
           places_[static_cast<size_t>(id)].used;
  }

  // One more than the largest id.
  size_t id_limit() const { return places_.size(); }
  size_t num_tokens() const { return num_tokens_; }
  size_t num_bytes() const { return arena_.size(); }
  size_t longest_token_bytes() const { return longest_token_bytes_; }

 private:
  struct Place {
    uint32_t offset = 0;
    uint32_t length : 31 = 0;
    uint32_t used : 1 = 0;
  };
  struct Slot {
    uint32_t tag = 0;          // upper half of the hash
    uint32_t id_plus_one = 0;  // 0: free
    uint32_t offset = 0;       // as in Place: saves a look-up there
    uint32_t length = 0;
  };

  std::string arena_;
  std::vector<Place> places_;  // by id
  std::vector<Slot> slots_ = std::vector<Slot>(1);
  size_t mask_ = 0;
  size_t num_tokens_ = 0;
  size_t capacity_ = 0;
  size_t longest_token_bytes_ = 0;
};

}  // namespace pergola::tokenizers
