// Where a normalised text is cut into pieces before the model sees it.
//
//   std::vector<TextSpan> pieces = {{0, text.size()}};
//   pretokenizer.Split(text, &pieces);
//
// One class per kind of the `pre_tokenizer` entry of tokenizer.json.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pergola::tokenizers {

// Half-open byte range of the normalised text.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

// What certainly cuts a text, whatever stands beside it.
enum class PretokenizerCuts {
  kNone,        // nothing, or patterns of several code points: do not cut there on your own
  kCodePoints,  // single code points decide, so any place may be cut
  kWords,       // white space separates and is dropped
  kWordsAndPunctuation,
};

// Immutable and thread-safe.
class Pretokenizer {
 public:
  virtual ~Pretokenizer() = default;
  // Replaces the pieces of `text` by smaller ones; none is empty, order is kept.
  virtual void Split(std::string_view text, std::vector<TextSpan>* pieces) const = 0;
  virtual PretokenizerCuts cuts() const = 0;
};

// How a match of a pattern is kept.
enum class SplitBehaviour {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,  // neighbouring matches stay together
};

// White space separates; punctuation stands alone.
std::unique_ptr<Pretokenizer> MakeBertPretokenizer();
// White space separates.
std::unique_ptr<Pretokenizer> MakeWhitespaceSplit();
// Splits at every occurrence of `pattern` (not empty); `invert` swaps matches and the rest.
std::unique_ptr<Pretokenizer> MakeStringSplit(std::string pattern, SplitBehaviour behaviour,
                                              bool invert);
std::unique_ptr<Pretokenizer> MakePretokenizerSequence(
    std::vector<std::unique_ptr<Pretokenizer>> parts);

}  // namespace pergola::tokenizers
