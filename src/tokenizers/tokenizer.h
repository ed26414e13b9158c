// The seam between text and token ids.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto tokenizer, tokenizers::LoadTokenizerJson("tokenizer.json"));
//   tokenizers::Encoding encoding;
//   PERGOLA_RETURN_IF_ERROR(tokenizer->Encode("hello", {}, &encoding));
//
// Ids equal those of the Hugging Face `tokenizers` library reading the same tokenizer.json, for
// every valid UTF-8 text. Not a normaliser of user input: nothing is stripped that the file does
// not strip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pergola/status.h"

namespace pergola::tokenizers {

using TokenId = int32_t;

enum class TruncationSide { kRight, kLeft };

struct EncodeOptions {
  bool add_special_tokens = true;
  // Fill Encoding::offsets and special_mask (costs time).
  bool with_offsets = false;
  // Most tokens wanted, special tokens included. A longer text is cut by tokens on `side`, the
  // special tokens are kept, and work stops early: a text of 100 MB cut to 512 tokens on the right
  // costs about what 512 tokens cost.
  size_t max_tokens = std::numeric_limits<size_t>::max();
  TruncationSide side = TruncationSide::kRight;
};

// Half-open byte range of the original text.
struct ByteSpan {
  size_t begin = 0;
  size_t end = 0;
  friend bool operator==(const ByteSpan&, const ByteSpan&) = default;
};

// Reuse one Encoding for many texts to reuse its memory.
struct Encoding {
  std::vector<TokenId> ids;
  // Segment of each id (0 = first text, 1 = second), as the post-processor says. Same size as ids.
  std::vector<int32_t> type_ids;
  // With with_offsets only, same size as ids; {0, 0} for special tokens that were added.
  std::vector<ByteSpan> offsets;
  // 1 where the post-processor added the id.
  std::vector<uint8_t> special_mask;
  // The text was longer than max_tokens and was cut.
  bool truncated = false;
  // Tokens of the whole text, special tokens included; when work stopped early a lower bound
  // (> max_tokens), and `total_is_exact` is false.
  size_t total_tokens = 0;
  bool total_is_exact = true;

  void clear();
};

// Immutable after loading; all methods are thread-safe. Text must be valid UTF-8 and below 4 GiB:
// INVALID_ARGUMENT names the offset of a bad byte otherwise. No other input fails. Where max_tokens
// lets work stop early, bytes that were not reached are not examined.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // "wordpiece", "bpe", "unigram".
  virtual std::string_view kind() const = 0;

  virtual Status Encode(std::string_view text, const EncodeOptions& options,
                        Encoding* encoding) const = 0;
  // Two texts as the post-processor joins them (cross-encoders). Truncation is longest-first:
  // tokens are taken from the longer text, as the reference library does.
  virtual Status EncodePair(std::string_view first, std::string_view second,
                            const EncodeOptions& options, Encoding* encoding) const = 0;

  // Ids outside the vocabulary are OUT_OF_RANGE naming index and id.
  virtual Result<std::string> Decode(std::span<const TokenId> ids,
                                     bool skip_special_tokens) const = 0;

  // One more than the largest id, added tokens included.
  virtual size_t vocab_size() const = 0;
  // The piece as stored ("##ing", "\u2581the"); empty for an id without a piece.
  virtual std::string_view IdToToken(TokenId id) const = 0;
  // -1 when there is none.
  virtual TokenId TokenToId(std::string_view token) const = 0;
  // True for the added tokens marked special.
  virtual bool IsSpecial(TokenId id) const = 0;
  // Tokens that the post-processor adds to one text or to a pair.
  virtual size_t num_added_tokens(bool pair) const = 0;
};

// From a `tokenizer.json`. A part that is not supported is UNIMPLEMENTED naming its kind and place.
// Truncation and padding settings of the file are ignored: the model's limits rule.
Result<std::unique_ptr<Tokenizer>> LoadTokenizerJson(const std::string& path);
// The same from memory (fuzzing, tests).
Result<std::unique_ptr<Tokenizer>> ParseTokenizerJson(std::string_view json);

}  // namespace pergola::tokenizers
