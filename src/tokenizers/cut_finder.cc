#include "tokenizers/cut_finder.h"

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

bool IsAsciiSpace(char32_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

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
  if (cuts == PretokenizerCuts::kWords || cuts == PretokenizerCuts::kWordsAndPunctuation) {
    if (parts.normalizer && !KeepsWordBoundaries(*parts.normalizer)) return;
    mode_ = Mode::kWords;
    punctuation_cuts_ = cuts == PretokenizerCuts::kWordsAndPunctuation;
  } else if (cuts == PretokenizerCuts::kCodePoints && reach == NormalizerReach::kCodePoint) {
    mode_ = Mode::kModel;
  }
}

bool CutFinder::StandsAlone(char32_t c) const {
  if (c >= 128) return parts_.bert_ideographs && IsCjkIdeograph(c);
  return IsAsciiSpace(c) || (punctuation_cuts_ && HasFlag(c, kPunctuation));
}

char32_t CutFinder::NormalizedEdge(char32_t c, bool first) const {
  if (!parts_.normalizer) return c;
  char bytes[4];
  const size_t size = EncodeUtf8(c, bytes);
  NormalizedText text;
  text.Assign({bytes, size}, 0, false);
  parts_.normalizer->Apply(&text);
  size_t pos = first ? 0 : PreviousUtf8(text.text(), text.text().size());
  return DecodeUtf8(text.text(), &pos);
}

bool CutFinder::IsSafe(char32_t before, char32_t after) const {
  if (matcher_.LooksLeft() && HasFlag(before, kWhitespace)) return false;
  switch (mode_) {
    case Mode::kNever:
      return false;
    case Mode::kWords:
      return StandsAlone(after);
    case Mode::kModel:
      return parts_.model->IsBoundary(NormalizedEdge(before, false), NormalizedEdge(after, true));
  }
  return false;
}

size_t CutFinder::FindLast(std::string_view text, size_t from, size_t limit) const {
  if (mode_ == Mode::kNever || limit <= from) return from;
  size_t pos = PreviousUtf8(text, limit);
  size_t next = pos;
  char32_t after = DecodeUtf8(text, &next);
  while (pos > from) {
    const size_t previous = PreviousUtf8(text, pos);
    next = previous;
    const char32_t before = DecodeUtf8(text, &next);
    if (IsSafe(before, after)) return pos;
    pos = previous;
    after = before;
  }
  return from;
}

size_t CutFinder::FindFirst(std::string_view text, size_t from) const {
  if (mode_ == Mode::kNever || matcher_.LooksRight() || from == 0) return text.size();
  size_t pos = PreviousUtf8(text, from);
  char32_t before = DecodeUtf8(text, &pos);
  while (pos < text.size()) {
    const size_t cut = pos;
    const char32_t after = DecodeUtf8(text, &pos);
    if (!matcher_.MayContain(before, after) && IsSafe(before, after)) return cut;
    before = after;
  }
  return text.size();
}

}  // namespace pergola::tokenizers
