#include "tokenizers/double_array.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

namespace pergola::tokenizers {

// Walks the sorted entries depth first and gives every node's edges the first place that is free
// for all of them. Free units are a ring; nodes with several edges begin their search where the
// array is not yet dense.
class DoubleArrayBuilder {
 public:
  explicit DoubleArrayBuilder(std::vector<DoubleArray::Entry> entries)
      : entries_(std::move(entries)) {}

  Result<DoubleArray> Build() {
    Sort();
    for (size_t i = 1; i < entries_.size(); ++i) {
      if (entries_[i].bytes == entries_[i - 1].bytes) {
        return InvalidArgumentError("token '" + std::string(entries_[i].bytes.substr(0, 64)) +
                                    "' is listed twice");
      }
    }
    trie_.units_.clear();
    Grow();
    Take(0, 0);
    if (!entries_.empty()) Insert(0, entries_.size(), 0, 0);
    return std::move(trie_);
  }

 private:
  struct Link {
    uint32_t previous;
    uint32_t next;
  };
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  // By the first eight bytes as a number, which decides nearly always.
  void Sort() {
    struct Key {
      uint64_t prefix;
      uint32_t index;
    };
    std::vector<Key> keys(entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i) {
      const std::string_view bytes = entries_[i].bytes;
      uint64_t prefix = 0;
      std::memcpy(&prefix, bytes.data(), std::min<size_t>(8, bytes.size()));
      keys[i] = {__builtin_bswap64(prefix), static_cast<uint32_t>(i)};
    }
    std::sort(keys.begin(), keys.end(), [&](const Key& a, const Key& b) {
      if (a.prefix != b.prefix) return a.prefix < b.prefix;
      return entries_[a.index].bytes < entries_[b.index].bytes;
    });
    std::vector<DoubleArray::Entry> sorted(entries_.size());
    for (size_t i = 0; i < keys.size(); ++i) sorted[i] = entries_[keys[i].index];
    entries_.swap(sorted);
  }

  // 256 more units, all free.
  void Grow() {
    const auto begin = static_cast<uint32_t>(trie_.units_.size());
    trie_.units_.resize(begin + 256);
    links_.resize(begin + 256);
    for (uint32_t i = begin; i < begin + 256; ++i) {
      links_[i] = {i == begin ? last_free_ : i - 1, i + 1 < begin + 256 ? i + 1 : kNone};
    }
    if (last_free_ == kNone) {
      first_free_ = begin;
    } else {
      links_[last_free_].next = begin;
    }
    last_free_ = begin + 255;
    if (search_ == kNone) search_ = begin;
  }

  void Take(uint32_t index, uint32_t parent) {
    trie_.units_[index].parent = parent;
    const Link link = links_[index];
    (link.previous == kNone ? first_free_ : links_[link.previous].next) = link.next;
    (link.next == kNone ? last_free_ : links_[link.next].previous) = link.previous;
    if (search_ == index) search_ = link.next;
  }

  bool Fits(uint32_t base, std::span<const uint8_t> labels) const {
    return std::all_of(labels.begin(), labels.end(), [&](uint8_t label) {
      return trie_.units_[base ^ label].parent == DoubleArray::kFree;
    });
  }

  uint32_t FindBase(std::span<const uint8_t> labels) {
    uint32_t place = labels.size() == 1 ? first_free_ : search_;
    int misses = 0;
    while (true) {
      if (place == kNone) {
        place = static_cast<uint32_t>(trie_.units_.size());
        Grow();
      }
      const uint32_t base = place ^ labels[0];
      if (Fits(base, labels)) return base;
      place = links_[place].next;
      // Where so many places do not fit, none will for long.
      if (++misses % 64 == 0) search_ = place;
    }
  }

  // Entries [first, last) agree on `depth` bytes, which lead to `node`.
  void Insert(size_t first, size_t last, size_t depth, uint32_t node) {
    if (entries_[first].bytes.size() == depth) {
      trie_.units_[node].value = entries_[first].value;
      if (++first == last) return;
    }
    std::array<uint8_t, 256> labels;
    size_t num_labels = 0;
    for (size_t i = first; i < last; ++i) {
      const auto label = static_cast<uint8_t>(entries_[i].bytes[depth]);
      if (num_labels == 0 || labels[num_labels - 1] != label) labels[num_labels++] = label;
    }
    const uint32_t base = FindBase(std::span(labels).first(num_labels));
    trie_.units_[node].base = base;
    for (size_t i = 0; i < num_labels; ++i) Take(base ^ labels[i], node);
    while (first < last) {
      const char label = entries_[first].bytes[depth];
      size_t end = first + 1;
      while (end < last && entries_[end].bytes[depth] == label) ++end;
      Insert(first, end, depth + 1, base ^ static_cast<uint8_t>(label));
      first = end;
    }
  }

  std::vector<DoubleArray::Entry> entries_;
  DoubleArray trie_;
  std::vector<Link> links_;  // of free units
  uint32_t first_free_ = kNone;
  uint32_t last_free_ = kNone;
  uint32_t search_ = kNone;  // where nodes with several edges look first
};

Result<DoubleArray> DoubleArray::Build(std::vector<Entry> entries) {
  return DoubleArrayBuilder(std::move(entries)).Build();
}

}  // namespace pergola::tokenizers
