#include "tokenizers/split_pattern.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "tokenizers/json_fields.h"
#include "tokenizers/word_scanner.h"

namespace pergola::tokenizers {
namespace {

class StringPattern final : public SplitPattern {
 public:
  explicit StringPattern(std::string text) : text_(std::move(text)) {}

  bool FindNext(std::string_view text, size_t from, TextSpan* match) const override {
    const size_t found = text.find(text_, from);
    if (found == std::string_view::npos) return false;
    *match = {found, found + text_.size()};
    return true;
  }

 private:
  std::string text_;
};

// Runs of at least `min` and at most `max` code points of one class.
template <typename InClass>
class RunPattern final : public SplitPattern {
 public:
  RunPattern(InClass in_class, size_t min, size_t max)
      : in_class_(in_class), min_(min), max_(max) {}

  bool FindNext(std::string_view text, size_t from, TextSpan* match) const override {
    for (size_t pos = from; pos < text.size();) {
      size_t end = pos;
      size_t count = 0;
      size_t next = pos;
      while (next < text.size() && count < max_ && in_class_(DecodeUtf8(text, &next))) {
        end = next;
        ++count;
      }
      if (count >= min_) {
        *match = {pos, end};
        return true;
      }
      pos = next;  // behind the code point that ended the run
    }
    return false;
  }

 private:
  InClass in_class_;
  size_t min_;
  size_t max_;
};

template <WordRules kRules>
class WordPattern final : public SplitPattern {
 public:
  bool FindNext(std::string_view text, size_t from, TextSpan* match) const override {
    if (from >= text.size()) return false;
    *match = {from, WordScanner<kRules>::MatchEnd(text, from)};
    return true;
  }
  bool tiles() const override { return true; }
  void Tile(std::string_view text, TextSpan piece, std::vector<TextSpan>* matches) const override {
    text = text.substr(0, piece.end);
    for (size_t pos = piece.begin; pos < piece.end;) {
      const size_t end = WordScanner<kRules>::MatchEnd(text, pos);
      matches->push_back({pos, end});
      pos = end;
    }
  }
};

constexpr WordRules kGpt2 = {
    .ignore_case = false, .space_before_words_only = true, .max_digits = 0, .newlines = false};
constexpr WordRules kLlama3 = {.max_digits = 3};
constexpr WordRules kQwen2 = {.max_digits = 1};
constexpr WordRules kQwen35 = {.max_digits = 1, .marks_are_letters = true};
constexpr WordRules kO200k = {.max_digits = 3, .cased = true};

template <WordRules kRules>
std::unique_ptr<SplitPattern> MakeWords() {
  return std::make_unique<WordPattern<kRules>>();
}

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

template <typename InClass>
std::unique_ptr<SplitPattern> MakeRun(InClass in_class, size_t min, size_t max) {
  return std::make_unique<RunPattern<InClass>>(in_class, min, max);
}

bool IsPunctuation(char32_t c) {
  const UnicodeCategory category = CategoryOf(c);
  return category >= kCategoryPc && category <= kCategoryPo;
}

struct KnownRegex {
  std::string_view regex;
  std::unique_ptr<SplitPattern> (*make)();
};

// Expressions of published tokenizer.json files, and of llama.cpp's table of pre-tokenisers.
constexpr KnownRegex kKnownRegexes[] = {
    {kGpt2Regex, [] { return MakeGpt2Pattern(); }},
    {kLlama3Regex, MakeWords<kLlama3>},
    {kQwen2Regex, MakeWords<kQwen2>},
    {kQwen35Regex, MakeWords<kQwen35>},
    {kO200kRegex, MakeWords<kO200k>},
    {R"( {2,})", [] { return MakeRun([](char32_t c) { return c == U' '; }, 2, kUnlimited); }},
    {R"( +)", [] { return MakeRun([](char32_t c) { return c == U' '; }, 1, kUnlimited); }},
    {R"(\s+)", [] { return MakeRun(IsRegexSpace, 1, kUnlimited); }},
    {R"(\s{2,})", [] { return MakeRun(IsRegexSpace, 2, kUnlimited); }},
    {R"(\s)", [] { return MakeRun(IsRegexSpace, 1, 1); }},
    {R"(\n)", [] { return MakeStringPattern("\n"); }},
    {R"(\p{N})", [] { return MakeRun(IsRegexNumber, 1, 1); }},
    {R"(\p{N}+)", [] { return MakeRun(IsRegexNumber, 1, kUnlimited); }},
    {R"(\p{N}{1,3})", [] { return MakeRun(IsRegexNumber, 1, 3); }},
    {R"(\d)",
     [] { return MakeRun([](char32_t c) { return CategoryOf(c) == kCategoryNd; }, 1, 1); }},
    {R"([0-9][0-9][0-9])",
     [] { return MakeRun([](char32_t c) { return c >= U'0' && c <= U'9'; }, 3, 3); }},
    {R"([\p{P}\$\+<=>\^~\|]+)",
     [] {
       const auto in_class = [](char32_t c) {
         return IsPunctuation(c) || std::u32string_view(U"$+<=>^~|").find(c) != std::string::npos;
       };
       return MakeRun(in_class, 1, kUnlimited);
     }},
};

}  // namespace

void SplitPattern::Tile(std::string_view text, TextSpan piece,
                        std::vector<TextSpan>* matches) const {
  text = text.substr(0, piece.end);
  TextSpan match;
  for (size_t pos = piece.begin; FindNext(text, pos, &match); pos = match.end) {
    matches->push_back(match);
  }
}

Result<std::unique_ptr<SplitPattern>> MakeRegexPattern(std::string_view regex,
                                                       const std::string& place) {
  for (const KnownRegex& known : kKnownRegexes) {
    if (regex == known.regex) return known.make();
  }
  return UnsupportedError("Regex " + std::string(regex), place);
}

std::unique_ptr<SplitPattern> MakeStringPattern(std::string text) {
  return std::make_unique<StringPattern>(std::move(text));
}

std::unique_ptr<SplitPattern> MakeGpt2Pattern() { return MakeWords<kGpt2>(); }

}  // namespace pergola::tokenizers
