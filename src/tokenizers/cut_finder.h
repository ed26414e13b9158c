// Where a long text may be cut so that its parts, tokenised each for itself, give the ids of the
// whole.
//
//   CutFinder finder(parts, matcher, has_normalized_tokens);
//   size_t cut = finder.FindLast(text, from, limit);  // from: there is none
//
// A cut is safe
//   - for word models, before ASCII white space or punctuation or an ideograph that stands alone:
//     the pre-tokeniser cuts there whatever stands around;
//   - for patterns and Metaspace, where a letter or number ends a piece (PretokenizerCuts);
//   - for BPE, between two code points that no merge can ever join (TokenModel::IsBoundary),
//     provided that the normaliser works code point by code point.
// Normalised added tokens and normalisers that look at the whole text make every cut unsafe.
#pragma once

#include <cstddef>
#include <string_view>

#include "tokenizers/added_tokens.h"
#include "tokenizers/pipeline.h"

namespace pergola::tokenizers {

// Immutable and thread-safe; `parts` and `matcher` must outlive it.
class CutFinder {
 public:
  CutFinder(const PipelineParts& parts, const AddedTokenMatcher& matcher,
            bool has_normalized_tokens);

  // The last safe cut in (from, limit), or `from`. No added token starts in [from, limit); the text
  // is well-formed up to `limit`, where a code point starts.
  // `edge` is working memory.
  size_t FindLast(std::string_view text, size_t from, size_t limit, NormalizedText* edge) const;

  // The first safe cut in [from, text.size()) that no added token spans either, or text.size(). The
  // text is well-formed from one code point before `from`.
  size_t FindFirst(std::string_view text, size_t from, NormalizedText* edge) const;

 private:
  enum class Mode { kNever, kWords, kSpaces, kLetterRuns, kModel };

  bool IsSafe(char32_t before, char32_t after, NormalizedText* edge) const;
  bool StandsAlone(char32_t code_point) const;
  // A letter or number, and nothing before or behind it changes that.
  bool EndsRun(char32_t code_point, NormalizedText* edge) const;
  // First or last code point of the normalised form; 0 when that is empty.
  char32_t NormalizedEdge(char32_t code_point, bool first, NormalizedText* edge) const;

  const PipelineParts& parts_;
  const AddedTokenMatcher& matcher_;
  Mode mode_ = Mode::kNever;
  bool punctuation_cuts_ = false;
  bool joins_spaces_ = false;  // the normaliser looks along white space
};

}  // namespace pergola::tokenizers
