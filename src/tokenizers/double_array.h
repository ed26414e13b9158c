// A set of byte strings for walks that start at every place of a text: all edges lie in one array,
// a step costs one look-up.
//
//   PERGOLA_ASSIGN_OR_RETURN(DoubleArray trie, DoubleArray::Build(entries));
//   DoubleArray::Node node = trie.root();
//   for (char byte : text) {
//     if (!trie.Step(byte, &node)) break;
//     if (int32_t value = trie.Value(node); value != DoubleArray::kNoValue) ...
//   }
//
// Node n has its edge for byte c at n.base ^ c; the unit there says whose edge it is. Nodes with
// one edge, which most are, lie beside their parents. Built once, then immutable and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/large_memory.h"
#include "pergola/status.h"

namespace pergola::tokenizers {

class DoubleArray {
 public:
  static constexpr int32_t kNoValue = -1;

  struct Entry {
    std::string_view bytes;  // not empty
    int32_t value;           // >= 0
  };
  struct Node {
    uint32_t index = 0;
    uint32_t base = 0;
  };

  DoubleArray() = default;

  // INVALID_ARGUMENT when two entries are equal. Takes about 0.2 us an entry.
  static Result<DoubleArray> Build(std::vector<Entry> entries);

  Node root() const { return {0, units_[0].base}; }
  // False when no string goes on so; `node` is then as it was.
  bool Step(char byte, Node* node) const {
    const uint32_t index = node->base ^ static_cast<uint8_t>(byte);
    const Unit& unit = units_[index];
    if (unit.parent != node->index) return false;
    *node = {index, unit.base};
    return true;
  }
  // kNoValue when no string ends here.
  int32_t Value(Node node) const { return units_[node.index].value; }

  size_t size_bytes() const { return units_.size() * sizeof(Unit); }

 private:
  static constexpr uint32_t kFree = 0xFFFFFFFF;
  friend class DoubleArrayBuilder;

  struct Unit {
    uint32_t parent = kFree;
    uint32_t base = 0;
    int32_t value = kNoValue;
  };
  // The array ends on a multiple of 256, so that every step stays within.
  TableVector<Unit> units_ = TableVector<Unit>(256);
};

}  // namespace pergola::tokenizers
