#include "tokenizers/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace pergola::tokenizers {
namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Messages stay short and valid UTF-8 whatever the file holds.
std::string Quoted(std::string_view token) {
  constexpr size_t kShown = 64;
  size_t size = std::min(token.size(), kShown);
  while (size > 0 && size < token.size() && (static_cast<uint8_t>(token[size]) & 0xC0) == 0x80) {
    --size;
  }
  return "'" + std::string(token.substr(0, size)) + (size < token.size() ? "...'" : "'");
}

}  // namespace

uint64_t HashBytes(std::string_view bytes) {
  constexpr uint64_t kFirst = 0xa0761d6478bd642f;
  constexpr uint64_t kSecond = 0xe7037ed1a0b428db;
  const char* at = bytes.data();
  size_t left = bytes.size();
  uint64_t hash = kFirst ^ left;
  while (left > 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = Mix(hash ^ word, kSecond);
    at += 8;
    left -= 8;
  }
  uint64_t tail = 0;
  if (left >= 4) {
    uint32_t low;
    uint32_t high;
    std::memcpy(&low, at, 4);
    std::memcpy(&high, at + left - 4, 4);
    tail = static_cast<uint64_t>(high) << 32 | low;
  } else if (left > 0) {
    const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(at[i])); };
    tail = byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16;
  }
  return Mix(hash ^ tail, kFirst ^ kSecond);
}

void Vocabulary::Reserve(size_t num_tokens, size_t num_bytes) {
  capacity_ = num_tokens;
  arena_.reserve(num_bytes + (num_tokens + 1) * sizeof(Header));
  arena_.assign(sizeof(Header), '\0');  // no record is at 0
  records_.reserve(num_tokens);
  slots_.assign(std::bit_ceil(num_tokens + num_tokens / 2 + 1), Slot{});
  mask_ = slots_.size() - 1;
}

Status Vocabulary::Add(std::span<const Entry> entries) {
  std::array<uint64_t, 32> hashes;
  while (!entries.empty()) {
    const size_t count = std::min(entries.size(), hashes.size());
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = HashBytes(entries[i].token);
      PrefetchSlot(hashes[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      PERGOLA_RETURN_IF_ERROR(Add(entries[i].token, entries[i].id, hashes[i]));
    }
    entries = entries.subspan(count);
  }
  return OkStatus();
}

Status Vocabulary::Add(std::string_view token, int64_t id, uint64_t hash) {
  const int64_t limit = static_cast<int64_t>(capacity_) * 64 + 65536;
  if (id < 0 || id >= std::min<int64_t>(limit, std::numeric_limits<TokenId>::max())) {
    return InvalidArgumentError("token " + Quoted(token) + " has id " + std::to_string(id) +
                                ", outside 0 to " + std::to_string(limit - 1));
  }
  if (num_tokens_ >= capacity_ ||
      arena_.size() + token.size() + sizeof(Header) > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgumentError("the vocabulary is too large at token " + Quoted(token));
  }
  const auto index = static_cast<size_t>(id);
  if (index >= records_.size()) records_.resize(index + 1);
  if (records_[index] != 0) {
    return InvalidArgumentError("tokens " + Quoted(Token(static_cast<TokenId>(id))) + " and " +
                                Quoted(token) + " both have id " + std::to_string(id));
  }
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t slot = hash & mask_;
  for (; slots_[slot].record != 0; slot = (slot + 1) & mask_) {
    if (slots_[slot].tag == tag && TokenAt(slots_[slot].record) == token) {
      return InvalidArgumentError("token " + Quoted(token) + " is listed twice");
    }
  }
  const auto record = static_cast<uint32_t>(arena_.size());
  slots_[slot] = {tag, record};
  records_[index] = record;
  const Header header{static_cast<TokenId>(id), static_cast<uint32_t>(token.size())};
  char bytes[sizeof(header)];
  std::memcpy(bytes, &header, sizeof(header));
  arena_.insert(arena_.end(), bytes, bytes + sizeof(bytes));
  arena_.insert(arena_.end(), token.begin(), token.end());
  ++num_tokens_;
  longest_token_bytes_ = std::max(longest_token_bytes_, token.size());
  return OkStatus();
}

TokenId Vocabulary::Find(std::string_view token, uint64_t hash) const {
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t index = hash & mask_; slots_[index].record != 0; index = (index + 1) & mask_) {
    const Slot slot = slots_[index];
    if (slot.tag == tag && TokenAt(slot.record) == token) return HeaderAt(slot.record).id;
  }
  return kNone;
}

}  // namespace pergola::tokenizers
