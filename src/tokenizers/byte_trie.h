// A set of byte strings, walked byte by byte: longest pieces of WordPiece, added tokens in a text.
//
//   ByteTrie trie;
//   trie.Insert("hello", 7);
//   auto node = trie.root();
//   for (char byte : text) { node = trie.Step(node, byte); if (node == ByteTrie::kNowhere) break;
//   ... }
//
// All edges lie in one flat hash table. Filled once, then immutable and thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace pergola::tokenizers {

class ByteTrie {
 public:
  using Node = uint32_t;
  static constexpr Node kNowhere = 0xFFFFFFFF;
  static constexpr int32_t kNoValue = -1;

  Node root() const { return 0; }
  bool empty() const { return values_.size() == 1 && values_[0] == kNoValue; }

  // `value` (>= 0) replaces that of an equal string.
  void Insert(std::string_view bytes, int32_t value);

  // kNowhere when no string goes on so.
  Node Step(Node node, char byte) const {
    const uint64_t key = Key(node, byte);
    for (size_t slot = SlotOf(key);; slot = (slot + 1) & mask_) {
      if (edges_[slot].key == key) return edges_[slot].target;
      if (edges_[slot].key == kFree) return kNowhere;
    }
  }
  // kNoValue when no string ends here.
  int32_t Value(Node node) const { return values_[node]; }

 private:
  struct Edge {
    uint64_t key = kFree;
    Node target = 0;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};

  static uint64_t Key(Node node, char byte) {
    return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
  }
  size_t SlotOf(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u >> 32) & mask_; }
  void Grow();

  std::vector<int32_t> values_ = {kNoValue};  // by node
  std::vector<Edge> edges_ = std::vector<Edge>(16);
  size_t mask_ = 15;
};

}  // namespace pergola::tokenizers
