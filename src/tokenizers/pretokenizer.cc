#include "tokenizers/pretokenizer.h"

#include <utility>

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

// Cuts at white space, which is dropped, and around code points for which `alone` holds.
template <typename Alone>
void SplitWords(std::string_view text, const Alone& alone, std::vector<TextSpan>* pieces) {
  std::vector<TextSpan> words;
  for (const TextSpan piece : *pieces) {
    size_t word_begin = piece.begin;
    const auto end_word = [&](size_t end) {
      if (end > word_begin) words.push_back({word_begin, end});
    };
    for (size_t pos = piece.begin; pos < piece.end;) {
      const size_t begin = pos;
      const char32_t c = DecodeUtf8(text, &pos);
      if (HasFlag(c, kWhitespace)) {
        end_word(begin);
        word_begin = pos;
      } else if (alone(c)) {
        end_word(begin);
        words.push_back({begin, pos});
        word_begin = pos;
      }
    }
    end_word(piece.end);
  }
  pieces->swap(words);
}

class BertPretokenizer final : public Pretokenizer {
 public:
  void Split(std::string_view text, std::vector<TextSpan>* pieces) const override {
    SplitWords(
        text, [](char32_t c) { return HasFlag(c, kPunctuation); }, pieces);
  }
  PretokenizerCuts cuts() const override { return PretokenizerCuts::kWordsAndPunctuation; }
};

class WhitespaceSplit final : public Pretokenizer {
 public:
  void Split(std::string_view text, std::vector<TextSpan>* pieces) const override {
    SplitWords(
        text, [](char32_t) { return false; }, pieces);
  }
  PretokenizerCuts cuts() const override { return PretokenizerCuts::kWords; }
};

class StringSplit final : public Pretokenizer {
 public:
  StringSplit(std::string pattern, SplitBehaviour behaviour, bool invert)
      : pattern_(std::move(pattern)), behaviour_(behaviour), invert_(invert) {}

  void Split(std::string_view text, std::vector<TextSpan>* pieces) const override {
    std::vector<TextSpan> result;
    for (const TextSpan piece : *pieces) {
      std::vector<Part> parts = FindParts(text.substr(0, piece.end), piece.begin);
      Arrange(parts, &result);
    }
    pieces->swap(result);
  }
  PretokenizerCuts cuts() const override {
    return pattern_.size() == Utf8Length(pattern_[0]) ? PretokenizerCuts::kCodePoints
                                                      : PretokenizerCuts::kNone;
  }

 private:
  struct Part {
    TextSpan span;
    bool match;
  };

  // The text from `from` on as matches and what lies between them.
  std::vector<Part> FindParts(std::string_view text, size_t from) const {
    std::vector<Part> parts;
    while (from < text.size()) {
      const size_t found = text.find(pattern_, from);
      const size_t end = found == std::string_view::npos ? text.size() : found;
      if (end > from) parts.push_back({{from, end}, invert_});
      if (end == text.size()) break;
      parts.push_back({{end, end + pattern_.size()}, !invert_});
      from = end + pattern_.size();
    }
    return parts;
  }

  void Arrange(const std::vector<Part>& parts, std::vector<TextSpan>* result) const {
    const size_t first = result->size();
    bool previous_match = false;
    for (const Part& part : parts) {
      bool joins = false;
      switch (behaviour_) {
        case SplitBehaviour::kRemoved:
          if (part.match) continue;
          break;
        case SplitBehaviour::kIsolated:
          break;
        case SplitBehaviour::kMergedWithPrevious:
          joins = part.match && !previous_match;
          break;
        case SplitBehaviour::kMergedWithNext:
          joins = !part.match && previous_match;
          break;
        case SplitBehaviour::kContiguous:
          joins = part.match == previous_match;
          break;
      }
      if (joins && result->size() > first) {
        result->back().end = part.span.end;
      } else {
        result->push_back(part.span);
      }
      previous_match = part.match;
    }
  }

  std::string pattern_;
  SplitBehaviour behaviour_;
  bool invert_;
};

class PretokenizerSequence final : public Pretokenizer {
 public:
  explicit PretokenizerSequence(std::vector<std::unique_ptr<Pretokenizer>> parts)
      : parts_(std::move(parts)) {}

  void Split(std::string_view text, std::vector<TextSpan>* pieces) const override {
    for (const auto& part : parts_) part->Split(text, pieces);
  }
  PretokenizerCuts cuts() const override {
    if (parts_.empty()) return PretokenizerCuts::kCodePoints;
    // What cuts first cuts for all that follow; a pattern of several code points spoils it.
    PretokenizerCuts cuts = parts_[0]->cuts();
    for (const auto& part : parts_) {
      if (part->cuts() == PretokenizerCuts::kNone) cuts = PretokenizerCuts::kNone;
    }
    return cuts;
  }

 private:
  std::vector<std::unique_ptr<Pretokenizer>> parts_;
};

}  // namespace

std::unique_ptr<Pretokenizer> MakeBertPretokenizer() {
  return std::make_unique<BertPretokenizer>();
}
std::unique_ptr<Pretokenizer> MakeWhitespaceSplit() { return std::make_unique<WhitespaceSplit>(); }
std::unique_ptr<Pretokenizer> MakeStringSplit(std::string pattern, SplitBehaviour behaviour,
                                              bool invert) {
  return std::make_unique<StringSplit>(std::move(pattern), behaviour, invert);
}
std::unique_ptr<Pretokenizer> MakePretokenizerSequence(
    std::vector<std::unique_ptr<Pretokenizer>> parts) {
  return std::make_unique<PretokenizerSequence>(std::move(parts));
}

}  // namespace pergola::tokenizers
