#include "tokenizers/graphemes.h"

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

// What the rules look at behind the last code point.
struct Context {
  GraphemeClass last;
  bool odd_regional = false;      // an odd number of regional indicators stands here (GB12)
  bool pictograph = false;        // a pictograph and what extends it (GB11)
  bool consonant = false;         // a consonant and what extends it (GB9c)
  bool linked_consonant = false;  // likewise, with a linker among it
};

bool JoinsHangul(GraphemeClass last, GraphemeClass next) {
  switch (last) {
    case kGraphemeLead:
      return next == kGraphemeLead || next == kGraphemeVowel || next == kGraphemeLv ||
             next == kGraphemeLvt;
    case kGraphemeLv:
    case kGraphemeVowel:
      return next == kGraphemeVowel || next == kGraphemeTrail;
    case kGraphemeLvt:
    case kGraphemeTrail:
      return next == kGraphemeTrail;
    default:
      return false;
  }
}

bool Joins(const Context& context, GraphemeClass next, int conjunct) {
  if (next == kGraphemeControl || context.last == kGraphemeControl) return false;
  if (next == kGraphemeExtend || next == kGraphemeZwj || next == kGraphemeSpacingMark) return true;
  if (context.last == kGraphemePrepend) return true;
  if (JoinsHangul(context.last, next)) return true;
  if (context.linked_consonant && conjunct == kConjunctConsonant) return true;
  if (next == kGraphemePictograph) return context.pictograph && context.last == kGraphemeZwj;
  return next == kGraphemeRegional && context.odd_regional;
}

void Advance(GraphemeClass next, int conjunct, Context* context) {
  context->odd_regional = next == kGraphemeRegional && !context->odd_regional;
  const bool extends = next == kGraphemeExtend || next == kGraphemeZwj;
  // Behind a joiner nothing but a pictograph goes on.
  const bool still = context->pictograph && extends && context->last != kGraphemeZwj;
  context->pictograph = next == kGraphemePictograph || still;
  if (conjunct == kConjunctConsonant) {
    context->consonant = true;
    context->linked_consonant = false;
  } else if (conjunct == 0) {
    context->consonant = context->linked_consonant = false;
  } else if (conjunct == kConjunctLinker && context->consonant) {
    context->linked_consonant = true;
  }
  context->last = next;
}

}  // namespace

size_t GraphemeEnd(std::string_view text, size_t begin) {
  size_t pos = begin;
  const char32_t first = DecodeUtf8(text, &pos);
  if (first == U'\r' && pos < text.size() && text[pos] == '\n') return pos + 1;
  Context context{kGraphemeOther};
  char32_t c = first;
  while (true) {
    const uint8_t record = UnicodeRecord(c).grapheme;
    Advance(static_cast<GraphemeClass>(record & 15), record & kConjunctExtend, &context);
    if (pos >= text.size()) return pos;
    size_t behind = pos;
    c = DecodeUtf8(text, &behind);
    const uint8_t next = UnicodeRecord(c).grapheme;
    if (!Joins(context, static_cast<GraphemeClass>(next & 15), next & kConjunctExtend)) return pos;
    pos = behind;
  }
}

}  // namespace pergola::tokenizers
