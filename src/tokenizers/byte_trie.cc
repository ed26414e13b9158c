#include "tokenizers/byte_trie.h"

namespace pergola::tokenizers {

void ByteTrie::Insert(std::string_view bytes, int32_t value) {
  Node node = root();
  for (const char byte : bytes) {
    Node next = Step(node, byte);
    if (next == kNowhere) {
      if (values_.size() * 2 > edges_.size()) Grow();
      next = static_cast<Node>(values_.size());
      const uint64_t key = Key(node, byte);
      size_t slot = SlotOf(key);
      while (edges_[slot].key != kFree) slot = (slot + 1) & mask_;
      edges_[slot] = {key, next};
      values_.push_back(kNoValue);
    }
    node = next;
  }
  values_[node] = value;
}

void ByteTrie::Grow() {
  std::vector<Edge> old(edges_.size() * 2);
  old.swap(edges_);
  mask_ = edges_.size() - 1;
  for (const Edge& edge : old) {
    if (edge.key == kFree) continue;
    size_t slot = SlotOf(edge.key);
    while (edges_[slot].key != kFree) slot = (slot + 1) & mask_;
    edges_[slot] = edge;
  }
}

}  // namespace pergola::tokenizers
