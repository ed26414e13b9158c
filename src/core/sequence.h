// What goes into a model and what may come out of it, in the words of every layer from the gateway
// to the engine.
//
//   Sequence sequence{.ids = {101, 7592, 102}};
//   OutputSet outputs = {OutputKind::kEmbedding, OutputKind::kSparse};   // of one forward pass
//
// Plain values. T is the number of tokens of the sequence.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace pergola {

enum class OutputKind : uint8_t {
  kEmbedding,     // [1, E] pooled (a row per span, if the sequence has spans), before unit length
  kTokenVectors,  // [T, D] final hidden states
  kLogits,        // [1, labels] of a classification head, before sigmoid or softmax
  kSparse,        // [T, 1] weight of each token, not negative
  kMultiVector,   // [T, W] a vector per token for late interaction, before unit length
};
inline constexpr size_t kNumOutputKinds = 5;
inline constexpr std::array<OutputKind, kNumOutputKinds> kOutputKinds = {
    OutputKind::kEmbedding, OutputKind::kTokenVectors, OutputKind::kLogits, OutputKind::kSparse,
    OutputKind::kMultiVector};

constexpr std::string_view OutputKindName(OutputKind kind) {
  constexpr std::array<std::string_view, kNumOutputKinds> kNames = {
      "embedding", "token vectors", "logits", "sparse weights", "multi-vector"};
  return kNames[static_cast<size_t>(kind)];
}

// True where a row belongs to a token, not to the whole sequence.
constexpr bool IsPerToken(OutputKind kind) {
  return kind != OutputKind::kEmbedding && kind != OutputKind::kLogits;
}

class OutputSet {
 public:
  constexpr OutputSet() = default;
  constexpr OutputSet(std::initializer_list<OutputKind> kinds) {
    for (const OutputKind kind : kinds) Add(kind);
  }
  constexpr void Add(OutputKind kind) { bits_ |= static_cast<uint8_t>(1U << Index(kind)); }
  constexpr bool Has(OutputKind kind) const { return ((bits_ >> Index(kind)) & 1U) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr uint8_t bits() const { return bits_; }
  friend constexpr bool operator==(OutputSet, OutputSet) = default;

 private:
  static constexpr unsigned Index(OutputKind kind) { return static_cast<unsigned>(kind); }
  uint8_t bits_ = 0;
};

// Tokens begin .. end - 1 of a sequence.
struct TokenSpan {
  int32_t begin = 0;
  int32_t end = 0;
  friend bool operator==(const TokenSpan&, const TokenSpan&) = default;
};

struct Sequence {
  std::vector<int32_t> ids;  // special tokens included
  // Where the second text of a pair begins: tokens from there on have type 1. 0: one text.
  int32_t second_text = 0;
  // Pool each of these instead of the whole (chunks of one document): in order, not overlapping,
  // none empty.
  std::vector<TokenSpan> spans = {};

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
  // Rows of an output of this sequence.
  int64_t rows(OutputKind kind) const {
    if (IsPerToken(kind)) return tokens();
    if (kind == OutputKind::kLogits || spans.empty()) return 1;
    return static_cast<int64_t>(spans.size());
  }
  friend bool operator==(const Sequence&, const Sequence&) = default;
};

}  // namespace pergola
