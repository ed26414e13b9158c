#include "tokenizers/cut_finder.h"

#include "tokenizers/unicode.h"
#include "tokenizers/word_scanner.h"

namespace pergola::tokenizers {
namespace {

bool IsAsciiSpace(char32_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Forms one grapheme cluster with whatever stands behind it.
bool IsPrepend(char32_t c) { return (UnicodeRecord(c).grapheme & 15) == kGraphemePrepend; }

// ASCII punctuation stays itself and white space stays white space.
bool KeepsWordBoundaries(const Normalizer& normalizer) {
  NormalizedText text;
  for (char32_t c = 1; c < 128; ++c) {
    if (!IsAsciiSpace(c) && !HasFlag(c, kPunctuation)) continue;
    const char byte = static_cast<char>(c);
    text.Assign({&byte, 1}, 0, false);
    normalizer.Apply(&text);
    if (text.text().size() != 1) return false;
    const char result = text.text()[0];
    if (IsAsciiSpace(c) ? !IsAsciiSpace(static_cast<uint8_t>(result)) : result != byte) {
      return false;
    }
  }
  return true;
}

}  // namespace

CutFinder::CutFinder(const PipelineParts& parts, const AddedTokenMatcher& matcher,
                     bool has_normalized_tokens)
    : parts_(parts), matcher_(matcher) {
  const NormalizerReach reach =
      parts.normalizer ? parts.normalizer->reach() : NormalizerReach::kCodePoint;
  const PretokenizerCuts cuts =
      parts.pretokenizer ? parts.pretokenizer->cuts() : PretokenizerCuts::kCodePoints;
  if (has_normalized_tokens || reach == NormalizerReach::kWholeText) return;
  joins_spaces_ = reach == NormalizerReach::kSpaceRuns;
  if (cuts == PretokenizerCuts::kWords || cuts == PretokenizerCuts::kWordsAndPunctuation) {
    if (parts.normalizer && !KeepsWordBoundaries(*parts.normalizer)) return;
    mode_ = Mode::kWords;
    punctuation_cuts_ = cuts == PretokenizerCuts::kWordsAndPunctuation;
  } else if (cuts == PretokenizerCuts::kSpaces || cuts == PretokenizerCuts::kLetterRuns) {
    NormalizedText edge;
    const bool keeps_space = NormalizedEdge(U' ', true, &edge) == U' ' && edge.text().size() <= 1;
    if (keeps_space) {
      mode_ = cuts == PretokenizerCuts::kSpaces ? Mode::kSpaces : Mode::kLetterRuns;
    }
  } else if (cuts == PretokenizerCuts::kCodePoints && reach == NormalizerReach::kCodePoint) {
    mode_ = Mode::kModel;
  }
}

bool CutFinder::StandsAlone(char32_t c) const {
  if (c >= 128) return parts_.bert_ideographs && IsCjkIdeograph(c);
  return IsAsciiSpace(c) || (punctuation_cuts_ && HasFlag(c, kPunctuation));
}

char32_t CutFinder::NormalizedEdge(char32_t c, bool first, NormalizedText* edge) const {
  if (!parts_.normalizer) return c;
  char bytes[4];
  const size_t size = EncodeUtf8(c, bytes);
  edge->Assign({bytes, size}, 0, false);
  parts_.normalizer->Apply(edge);
  if (edge->text().empty()) return 0;
  size_t pos = first ? 0 : PreviousUtf8(edge->text(), edge->text().size());
  return DecodeUtf8(edge->text(), &pos);
}

bool CutFinder::EndsRun(char32_t c, NormalizedText* edge) const {
  if (IsPrepend(c)) return false;
  const RegexClass kind = RegexClassOf(NormalizedEdge(c, false, edge));
  return kind == RegexClass::kLetter || kind == RegexClass::kNumber;
}

bool CutFinder::IsSafe(char32_t before, char32_t after, NormalizedText* edge) const {
  if ((matcher_.LooksLeft() || joins_spaces_) && HasFlag(before, kWhitespace)) return false;
  switch (mode_) {
    case Mode::kNever:
      return false;
    case Mode::kWords:
      return StandsAlone(after) && !IsPrepend(before);
    case Mode::kSpaces:
      return after == U' ' && EndsRun(before, edge);
    case Mode::kLetterRuns: {
      const unicode_tables::Record& record = UnicodeRecord(after);
      if (after == U'\'' || record.combining_class != 0 || (record.category & kNfcChanges) != 0 ||
          (record.grapheme & (kNfkcChanges | 15)) > kGraphemeControl || !EndsRun(before, edge)) {
        return false;
      }
      const RegexClass kind = RegexClassOf(NormalizedEdge(after, true, edge));
      return kind == RegexClass::kOther || kind == RegexClass::kSpace;
    }
    case Mode::kModel:
      return parts_.model->IsBoundary(NormalizedEdge(before, false, edge),
                                      NormalizedEdge(after, true, edge));
  }
  return false;
}

size_t CutFinder::FindLast(std::string_view text, size_t from, size_t limit,
                           NormalizedText* edge) const {
  if (mode_ == Mode::kNever || limit <= from) return from;
  size_t pos = PreviousUtf8(text, limit);
  size_t next = pos;
  char32_t after = DecodeUtf8(text, &next);
  while (pos > from) {
    const size_t previous = PreviousUtf8(text, pos);
    next = previous;
    const char32_t before = DecodeUtf8(text, &next);
    if (IsSafe(before, after, edge)) return pos;
    pos = previous;
    after = before;
  }
  return from;
}

size_t CutFinder::FindFirst(std::string_view text, size_t from, NormalizedText* edge) const {
  if (mode_ == Mode::kNever || matcher_.LooksRight() || from == 0) return text.size();
  size_t pos = PreviousUtf8(text, from);
  char32_t before = DecodeUtf8(text, &pos);
  while (pos < text.size()) {
    const size_t cut = pos;
    const char32_t after = DecodeUtf8(text, &pos);
    if (!matcher_.MayContain(before, after) && IsSafe(before, after, edge)) return cut;
    before = after;
  }
  return text.size();
}

}  // namespace pergola::tokenizers
