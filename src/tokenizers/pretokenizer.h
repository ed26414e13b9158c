// Where a normalised text is cut into pieces before the model sees it.
//
//   PieceList pieces;
//   pieces.spans = {{0, text.text().size()}};
//   pretokenizer.Split(&text, &pieces);
//
// One class per kind of the `pre_tokenizer` entry of tokenizer.json.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tokenizers/normalized_text.h"
#include "tokenizers/pieces.h"
#include "tokenizers/split_pattern.h"

namespace pergola::tokenizers {

// What certainly cuts a text, whatever stands beside it.
enum class PretokenizerCuts {
  kNone,        // nothing, or patterns of several code points: do not cut there on your own
  kCodePoints,  // single code points decide, so any place may be cut
  kSpaces,      // a piece begins at U+0020 behind a letter or number
  kLetterRuns,  // a piece ends between a letter or number and what is none of letter, number, mark
                // and apostrophe
  kWords,       // white space separates and is dropped
  kWordsAndPunctuation,
};

// Immutable and thread-safe.
class Pretokenizer {
 public:
  virtual ~Pretokenizer() = default;
  // Replaces the pieces of `text` by smaller ones; none is empty, order is kept. Some kinds rewrite
  // the text too, each piece for itself.
  virtual void Split(NormalizedText* text, PieceList* pieces) const = 0;
  virtual PretokenizerCuts cuts() const = 0;
  // The model is to read bytes: see MapBytes().
  virtual bool maps_bytes() const { return false; }
  // Split() asks where a piece lies in the original, so the text must carry offsets.
  virtual bool needs_offsets() const { return false; }
};

// How a match of a pattern is kept.
enum class SplitBehaviour {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,  // neighbouring matches stay together
};

// When Metaspace puts its mark before a piece that does not begin with one.
enum class PrependScheme { kNever, kFirst, kAlways };

struct MetaspaceOptions {
  std::string replacement = "\u2581";  // one code point, in place of U+0020
  PrependScheme prepend_scheme = PrependScheme::kAlways;
  bool split = true;  // a piece begins at every mark
};

// White space separates; punctuation stands alone.
std::unique_ptr<Pretokenizer> MakeBertPretokenizer();
// White space separates.
std::unique_ptr<Pretokenizer> MakeWhitespaceSplit();
// Words of letters, digits, marks and underscores, and runs of what is neither these nor space.
std::unique_ptr<Pretokenizer> MakeWhitespace();
std::unique_ptr<Pretokenizer> MakePunctuation(SplitBehaviour behaviour);
// Numbers stand alone, digit by digit if `individual`.
std::unique_ptr<Pretokenizer> MakeDigits(bool individual);
// Splits at every match of `pattern`; `invert` swaps matches and the rest. `cuts` as the caller
// knows the pattern.
std::unique_ptr<Pretokenizer> MakeSplit(std::unique_ptr<SplitPattern> pattern,
                                        SplitBehaviour behaviour, bool invert,
                                        PretokenizerCuts cuts);
std::unique_ptr<Pretokenizer> MakeMetaspace(MetaspaceOptions options);
// Cuts by GPT-2's expression if `use_regex`, after putting a space before a piece that has none if
// `add_prefix_space`. The model is to read bytes.
std::unique_ptr<Pretokenizer> MakeByteLevel(bool add_prefix_space, bool use_regex);
// Of the parts, only the last may map bytes.
std::unique_ptr<Pretokenizer> MakePretokenizerSequence(
    std::vector<std::unique_ptr<Pretokenizer>> parts);

}  // namespace pergola::tokenizers
