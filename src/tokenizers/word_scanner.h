// One match of the family of expressions that byte-level BPE models cut text by: GPT-2's and its
// descendants (Llama 3, Qwen 2, o200k).
//
//   size_t end = WordScanner<kRules>::MatchEnd(text, pos);  // text[pos, end) is the match
//
// The alternatives, in the order in which they are tried; some models lack some:
//
//   'll              contraction ('s 't 're 've 'm 'll 'd)
//   ?letters         one code point that is no letter, number or newline may lead
//   numbers          at most so many
//   " "?others+      what is no letter, number or space, with the newlines behind
//   \s*[\r\n]+       white space up to the last newline of its run
//   \s+(?!\S)        white space but for its last code point, which leads the next word
//   \s+
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {

struct WordRules {
  bool ignore_case = true;  // of contractions
  bool space_before_words_only =
      false;             // " ?\p{L}+| ?\p{N}+" instead of "[^\r\n\p{L}\p{N}]?\p{L}+"
  int max_digits = 0;    // 0: no limit
  bool newlines = true;  // newlines behind others, and the alternative of their own
  bool marks_are_letters = false;
  bool cased = false;  // a word ends where its case falls back, and takes its contraction along
};

// What the expressions tell apart.
enum class RegexClass : uint8_t { kOther, kSpace, kLetter, kMark, kNumber };

inline RegexClass RegexClassOf(char32_t c) {
  static constexpr auto kAscii = [] {
    std::array<RegexClass, 128> classes{};
    for (size_t i = 0; i < classes.size(); ++i) {
      const bool letter = (i >= 'a' && i <= 'z') || (i >= 'A' && i <= 'Z');
      classes[i] = letter                                 ? RegexClass::kLetter
                   : i >= '0' && i <= '9'                 ? RegexClass::kNumber
                   : i == ' ' || (i >= '\t' && i <= '\r') ? RegexClass::kSpace
                                                          : RegexClass::kOther;
    }
    return classes;
  }();
  if (c < 128) return kAscii[c];
  const uint8_t kind = UnicodeRecord(c).category;
  if ((kind & kRegexSpace) != 0) return RegexClass::kSpace;
  const int category = kind & 31;
  if (category >= kCategoryLu && category <= kCategoryLo) return RegexClass::kLetter;
  if (category >= kCategoryMn && category <= kCategoryMe) return RegexClass::kMark;
  if (category >= kCategoryNd && category <= kCategoryNo) return RegexClass::kNumber;
  return RegexClass::kOther;
}

inline bool IsRegexSpace(char32_t c) { return RegexClassOf(c) == RegexClass::kSpace; }
inline bool IsRegexNumber(char32_t c) { return RegexClassOf(c) == RegexClass::kNumber; }

template <WordRules kRules>
class WordScanner {
 public:
  // End of the match at `pos` (< text.size()); every position has one.
  static size_t MatchEnd(std::string_view text, size_t pos) {
    size_t next = pos;
    const char32_t c = DecodeUtf8(text, &next);
    const RegexClass kind = RegexClassOf(c);
    if constexpr (!kRules.cased) {
      if (c == U'\'') {
        const size_t end = Contraction(text, pos);
        if (end > pos) return end;
      }
    }
    const size_t word = Word(text, pos, next, c, kind);
    if (word > pos) return word;
    if (kind == RegexClass::kNumber) return Numbers(text, pos);
    // One space may lead what is neither letter nor number.
    if (c == U' ' && next < text.size()) {
      size_t behind = next;
      const RegexClass second = RegexClassOf(DecodeUtf8(text, &behind));
      if (kRules.space_before_words_only && second == RegexClass::kNumber) {
        return Numbers(text, next);
      }
      if (IsOther(second)) return Others(text, behind);
    }
    if (kind != RegexClass::kSpace) return Others(text, next);
    return Spaces(text, pos);
  }

 private:
  static bool IsLetter(RegexClass kind) {
    return kind == RegexClass::kLetter || (kRules.marks_are_letters && kind == RegexClass::kMark);
  }
  static bool IsOther(RegexClass kind) {
    return kind == RegexClass::kOther || (!kRules.marks_are_letters && kind == RegexClass::kMark);
  }

  template <typename InRun>
  static size_t RunEnd(std::string_view text, size_t pos, const InRun& in_run) {
    while (pos < text.size()) {
      size_t next = pos;
      if (!in_run(DecodeUtf8(text, &next))) break;
      pos = next;
    }
    return pos;
  }
  static size_t Letters(std::string_view text, size_t pos) {
    return RunEnd(text, pos, [](char32_t c) { return IsLetter(RegexClassOf(c)); });
  }

  // End of a contraction at the apostrophe at `pos`, or `pos`.
  static size_t Contraction(std::string_view text, size_t pos) {
    const auto lower = [&](size_t i) {
      const char c = i < text.size() ? text[i] : '\0';
      return kRules.ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = lower(pos + 1);
    const char second = first == '\0' ? '\0' : lower(pos + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return pos + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return pos + 3;
    if (first == 'l' && second == 'l') return pos + 3;
    // A long s is an s to those who ignore case.
    if (kRules.ignore_case && text.substr(pos + 1).starts_with("\u017f")) return pos + 3;
    return pos;
  }

  // Letters, with what may lead them; `pos` when there are none.
  static size_t Word(std::string_view text, size_t pos, size_t next, char32_t c, RegexClass kind) {
    if constexpr (kRules.cased) return CasedWord(text, pos, next, c, kind);
    if (kind == RegexClass::kLetter) return Letters(text, next);
    const bool may_lead = kRules.space_before_words_only
                              ? c == U' '
                              : kind != RegexClass::kNumber && c != U'\r' && c != U'\n';
    if (may_lead) {
      const size_t end = Letters(text, next);
      if (end > next) return end;
    }
    return IsLetter(kind) ? next : pos;  // a mark alone
  }

  static bool IsUpper(char32_t c) {
    const UnicodeCategory category = CategoryOf(c);
    return (category >= kCategoryLu && category <= kCategoryMe) && category != kCategoryLl;
  }
  static bool IsLower(char32_t c) {
    const UnicodeCategory category = CategoryOf(c);
    return category == kCategoryLl || (category >= kCategoryLm && category <= kCategoryMe);
  }

  // End of upper* lower+ at `pos`, or `pos`. Letters without case and marks count as both, so the
  // upper ones give back down to the last that can be lower.
  static size_t FallingCase(std::string_view text, size_t pos) {
    const size_t upper_end = RunEnd(text, pos, IsUpper);
    const size_t end = RunEnd(text, upper_end, IsLower);
    if (end > upper_end) return end;
    for (size_t at = upper_end; at > pos;) {
      size_t next = at = PreviousUtf8(text, at);
      if (IsLower(DecodeUtf8(text, &next))) return next;
    }
    return pos;
  }

  static size_t CasedWord(std::string_view text, size_t pos, size_t next, char32_t c,
                          RegexClass kind) {
    const bool may_lead =
        kind != RegexClass::kLetter && kind != RegexClass::kNumber && c != U'\r' && c != U'\n';
    const auto with_contraction = [&](size_t end) {
      return end < text.size() && text[end] == '\'' ? Contraction(text, end) : end;
    };
    for (const bool falling : {true, false}) {
      for (const bool led : {true, false}) {
        if (led && !may_lead) continue;
        const size_t begin = led ? next : pos;
        const size_t end = falling ? FallingCase(text, begin) : RunEnd(text, begin, IsUpper);
        if (end > begin) return with_contraction(end);
      }
    }
    return pos;
  }

  static size_t Numbers(std::string_view text, size_t pos) {
    for (int count = 0; kRules.max_digits == 0 || count < kRules.max_digits; ++count) {
      size_t next = pos;
      if (pos >= text.size() || !IsRegexNumber(DecodeUtf8(text, &next))) break;
      pos = next;
    }
    return pos;
  }

  static size_t Others(std::string_view text, size_t pos) {
    pos = RunEnd(text, pos, [](char32_t c) { return IsOther(RegexClassOf(c)); });
    if (!kRules.newlines) return pos;
    const auto follows = [](char c) {
      return c == '\r' || c == '\n' || (kRules.cased && c == '/');
    };
    while (pos < text.size() && follows(text[pos])) ++pos;
    return pos;
  }

  static size_t Spaces(std::string_view text, size_t pos) {
    size_t last = pos;         // the last code point of the run
    size_t newline_end = pos;  // behind the last newline
    size_t end = pos;
    while (end < text.size()) {
      size_t next = end;
      const char32_t c = DecodeUtf8(text, &next);
      if (!IsRegexSpace(c)) break;
      last = end;
      end = next;
      if (c == U'\r' || c == U'\n') newline_end = next;
    }
    if (kRules.newlines && newline_end > pos) return newline_end;
    return end == text.size() || last == pos ? end : last;
  }
};

}  // namespace pergola::tokenizers
