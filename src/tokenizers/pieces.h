// The pieces into which pre-tokenisers cut a text.
//
//   PieceList pieces;
//   pieces.spans = {{0, 11}};
//   pieces.next.push_back({0, 5});  // a pre-tokeniser writes what it wants instead
//   pieces.Commit();
#pragma once

#include <cstddef>
#include <vector>

namespace pergola::tokenizers {

// Half-open byte range of the normalised text.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

// Thread-confined; keeps its memory from text to text.
struct PieceList {
  std::vector<TextSpan> spans;  // in order, none empty
  std::vector<TextSpan> next;   // what takes their place

  void Commit() {
    spans.swap(next);
    next.clear();
  }
};

}  // namespace pergola::tokenizers
