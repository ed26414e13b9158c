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
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/large_memory.h"
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
  Status Add(std::string_view token, int64_t id) { return Add(token, id, HashBytes(token)); }
  // The same for many at once, whose look-ups then wait for memory together.
  struct Entry {
    std::string_view token;
    int64_t id;
  };
  Status Add(std::span<const Entry> entries);

  // kNone when there is none.
  TokenId Find(std::string_view token) const { return Find(token, HashBytes(token)); }
  // With the hash of the token at hand. PrefetchSlot() and, some look-ups later, PrefetchToken()
  // hide the latency of memory.
  TokenId Find(std::string_view token, uint64_t hash) const;
  void PrefetchSlot(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }
  void PrefetchToken(uint64_t hash) const {
    __builtin_prefetch(arena_.data() + slots_[hash & mask_].record);
  }

  // Empty for an id without a token. Valid as long as the vocabulary.
  std::string_view Token(TokenId id) const { return Has(id) ? TokenAt(RecordOf(id)) : ""; }
  bool Has(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < records_.size() && RecordOf(id) != 0;
  }

  // One more than the largest id.
  size_t id_limit() const { return records_.size(); }
  size_t num_tokens() const { return num_tokens_; }
  size_t num_bytes() const { return arena_.size(); }
  size_t longest_token_bytes() const { return longest_token_bytes_; }

 private:
  // Before the bytes of each token in the arena, so that a look-up finds all in one place.
  struct Header {
    TokenId id;
    uint32_t length;
  };
  struct Slot {
    uint32_t tag = 0;     // upper half of the hash
    uint32_t record = 0;  // place of the header in the arena; 0: free
  };

  Status Add(std::string_view token, int64_t id, uint64_t hash);
  uint32_t RecordOf(TokenId id) const { return records_[static_cast<size_t>(id)]; }
  Header HeaderAt(uint32_t record) const {
    Header header;
    std::memcpy(&header, arena_.data() + record, sizeof(header));
    return header;
  }
  std::string_view TokenAt(uint32_t record) const {
    return {arena_.data() + record + sizeof(Header), HeaderAt(record).length};
  }

  TableVector<char> arena_;
  TableVector<uint32_t> records_;  // by id; 0: no token
  TableVector<Slot> slots_ = TableVector<Slot>(1);
  size_t mask_ = 0;
  size_t num_tokens_ = 0;
  size_t capacity_ = 0;
  size_t longest_token_bytes_ = 0;
};

}  // namespace pergola::tokenizers
