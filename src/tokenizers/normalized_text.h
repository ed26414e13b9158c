// A text on its way through normalisation, and for each of its bytes where it came from.
//
//   NormalizedText text;
//   text.Assign(original, 0, /*with_offsets=*/true);
//   normalizer.Apply(&text);
//   ByteSpan span = text.Original(0, 3);  // what the first three bytes were
//
// The rules of where a changed character came from are those of the reference library, so that
// offsets are equal too: a replaced character keeps its place, an inserted one takes that of the
// character before it, a removed one leaves no trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/tokenizer.h"
#include "tokenizers/unicode.h"

namespace pergola::tokenizers {

// One code point of a new text. `change` 1: inserted; 0: in place of one old code point; -n: in
// place of one old code point, and the n after it are removed.
struct CodePointChange {
  char32_t code_point;
  int32_t change;
};

// Thread-confined; keeps its memory from text to text.
class NormalizedText {
 public:
  // Starts with `text`, which begins at byte `offset` of the original.
  void Assign(std::string_view text, size_t offset, bool with_offsets);

  // Starts with whole.text()[begin, end).
  void AssignPart(const NormalizedText& whole, size_t begin, size_t end);

  std::string_view text() const { return text_; }
  bool with_offsets() const { return with_offsets_; }

  // The bytes of the original that text()[begin, end) stands for; begin < end. Only with offsets.
  ByteSpan Original(size_t begin, size_t end) const {
    return {origins_[begin].begin, origins_[end - 1].end};
  }

  // The whole text becomes `changes`; the first `removed_at_start` old code points are dropped.
  void Transform(std::span<const CodePointChange> changes, size_t removed_at_start);

  // Rewriting from left to right: a cursor walks the old text, the new one grows. Between
  // BeginRewrite() and EndRewrite() text() and Original() are still those of the old text.
  void BeginRewrite();
  void EndRewrite();
  // Old bytes [begin, end) stay as they are; the cursor goes behind them.
  void Keep(size_t begin, size_t end);
  // The cursor goes to old byte `pos`; what it passes is dropped.
  void SkipTo(size_t pos) { cursor_ = pos; }
  // Appends a code point. The old code points that it replaces are those at the cursor.
  void Put(CodePointChange change);
  // Appends bytes that take the place of the old byte before the cursor.
  void PutBehind(std::string_view bytes);
  // As if `count` had been taken from the `change` that was put last; nothing when there is none.
  void RemoveBehind(size_t count);
  size_t rewritten_size() const { return next_text_.size(); }

  // Every occurrence of `pattern` (not empty), left to right, becomes `content`.
  void Replace(std::string_view pattern, std::string_view content);

  // The text becomes text()[begin, end).
  void Crop(size_t begin, size_t end);

  size_t capacity_bytes() const {
    return text_.capacity() + next_text_.capacity() +
           (origins_.capacity() + next_origins_.capacity()) * sizeof(ByteSpan) +
           scratch_.capacity() * sizeof(CodePointChange);
  }

  // For normalisers that need a list to build their changes in.
  std::vector<CodePointChange>& scratch() { return scratch_; }

 private:
  void SkipOne() {
    if (cursor_ < text_.size()) cursor_ += Utf8Length(text_[cursor_]);
  }

  std::string text_;
  std::vector<ByteSpan> origins_;  // per byte of text_; empty without offsets
  std::string next_text_;
  std::vector<ByteSpan> next_origins_;
  std::vector<CodePointChange> scratch_;
  bool with_offsets_ = false;
  size_t cursor_ = 0;  // of a rewrite
  bool last_was_inserted_ = false;
};

}  // namespace pergola::tokenizers
