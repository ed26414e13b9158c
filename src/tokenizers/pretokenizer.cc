#include "tokenizers/pretokenizer.h"

#include <utility>

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

// Cuts at white space, which is dropped, and around code points for which `alone` holds.
template <typename Alone>
void SplitWords(std::string_view text, const Alone& alone, PieceList* pieces) {
  for (const TextSpan piece : pieces->spans) {
    size_t word_begin = piece.begin;
    const auto end_word = [&](size_t end) {
      if (end > word_begin) pieces->next.push_back({word_begin, end});
    };
    for (size_t pos = piece.begin; pos < piece.end;) {
      const size_t begin = pos;
      const char32_t c = DecodeUtf8(text, &pos);
      if (HasFlag(c, kWhitespace)) {
        end_word(begin);
        word_begin = pos;
      } else if (alone(c)) {
        end_word(begin);
        pieces->next.push_back({begin, pos});
        word_begin = pos;
      }
    }
    end_word(piece.end);
  }
  pieces->Commit();
}

class BertPretokenizer final : public Pretokenizer {
 public:
  void Split(NormalizedText* text, PieceList* pieces) const override {
    SplitWords(
        text->text(), [](char32_t c) { return HasFlag(c, kPunctuation); }, pieces);
  }
  PretokenizerCuts cuts() const override { return PretokenizerCuts::kWordsAndPunctuation; }
};

class WhitespaceSplit final : public Pretokenizer {
 public:
  void Split(NormalizedText* text, PieceList* pieces) const override {
    SplitWords(
        text->text(), [](char32_t) { return false; }, pieces);
  }
  PretokenizerCuts cuts() const override { return PretokenizerCuts::kWords; }
};

// \w+|[^\w\s]+
class Whitespace final : public Pretokenizer {
 public:
  void Split(NormalizedText* text, PieceList* pieces) const override {
    enum Kind { kSpace, kInWord, kNeither };
    for (const TextSpan piece : pieces->spans) {
      size_t begin = piece.begin;
      Kind kind = kSpace;
      for (size_t pos = piece.begin; pos < piece.end;) {
        const size_t here = pos;
        const char32_t c = DecodeUtf8(text->text(), &pos);
        const Kind next = HasFlag(c, kWord) ? kInWord : HasFlag(c, kWhitespace) ? kSpace : kNeither;
        if (next == kind) continue;
        if (kind != kSpace) pieces->next.push_back({begin, here});
        begin = here;
        kind = next;
      }
      if (kind != kSpace) pieces->next.push_back({begin, piece.end});
    }
    pieces->Commit();
  }
  PretokenizerCuts cuts() const override { return PretokenizerCuts::kWords; }
};

// Collects matches and what lies between them into pieces, as the behaviour says.
class PieceArranger {
 public:
  PieceArranger(SplitBehaviour behaviour, std::vector<TextSpan>* pieces)
      : behaviour_(behaviour), first_(pieces->size()), pieces_(pieces) {}

  void Add(TextSpan span, bool match) {
    if (span.begin == span.end) return;
    const bool joins = Joins(match);
    previous_match_ = match;
    if (behaviour_ == SplitBehaviour::kRemoved && match) return;
    if (joins && pieces_->size() > first_) {
      pieces_->back().end = span.end;
    } else {
      pieces_->push_back(span);
    }
  }

 private:
  bool Joins(bool match) const {
    switch (behaviour_) {
      case SplitBehaviour::kMergedWithPrevious:
        return match && !previous_match_;
      case SplitBehaviour::kMergedWithNext:
        return !match && previous_match_;
      case SplitBehaviour::kContiguous:
        return match == previous_match_;
      case SplitBehaviour::kRemoved:
      case SplitBehaviour::kIsolated:
        break;
    }
    return false;
  }

  SplitBehaviour behaviour_;
  size_t first_;
  bool previous_match_ = false;
  std::vector<TextSpan>* pieces_;
};

class PatternSplit final : public Pretokenizer {
 public:
  PatternSplit(std::unique_ptr<SplitPattern> pattern, SplitBehaviour behaviour, bool invert,
               PretokenizerCuts cuts)
      : pattern_(std::move(pattern)),
        behaviour_(behaviour),
        invert_(invert),
        tiles_(pattern_->tiles() && behaviour == SplitBehaviour::kIsolated),
        cuts_(cuts) {}

  void Split(NormalizedText* text, PieceList* pieces) const override {
    for (const TextSpan piece : pieces->spans) {
      if (tiles_) {
        pattern_->Tile(text->text(), piece, &pieces->next);
      } else {
        SplitPiece(text->text(), piece, &pieces->next);
      }
    }
    pieces->Commit();
  }
  PretokenizerCuts cuts() const override { return cuts_; }

 private:
  void SplitPiece(std::string_view text, TextSpan piece, std::vector<TextSpan>* pieces) const {
    PieceArranger arranger(behaviour_, pieces);
    text = text.substr(piece.begin, piece.end - piece.begin);
    const auto add = [&](size_t begin, size_t end, bool match) {
      arranger.Add({piece.begin + begin, piece.begin + end}, match != invert_);
    };
    size_t from = 0;
    TextSpan match;
    while (from < text.size() && pattern_->FindNext(text, from, &match)) {
      add(from, match.begin, false);
      add(match.begin, match.end, true);
      from = match.end;
    }
    add(from, text.size(), false);
  }

  std::unique_ptr<SplitPattern> pattern_;
  SplitBehaviour behaviour_;
  bool invert_;
  bool tiles_;
  PretokenizerCuts cuts_;
};

// Splits at single code points of one class.
class ClassSplit final : public Pretokenizer {
 public:
  ClassSplit(bool (*in_class)(char32_t), SplitBehaviour behaviour)
      : in_class_(in_class), behaviour_(behaviour) {}

  void Split(NormalizedText* text, PieceList* pieces) const override {
    for (const TextSpan piece : pieces->spans) {
      PieceArranger arranger(behaviour_, &pieces->next);
      size_t rest = piece.begin;  // start of what is not in the class
      for (size_t pos = piece.begin; pos < piece.end;) {
        const size_t begin = pos;
        if (!in_class_(DecodeUtf8(text->text(), &pos))) continue;
        arranger.Add({rest, begin}, false);
        arranger.Add({begin, pos}, true);
        rest = pos;
      }
      arranger.Add({rest, piece.end}, false);
    }
    pieces->Commit();
  }
  PretokenizerCuts cuts() const override { return PretokenizerCuts::kCodePoints; }

 private:
  bool (*in_class_)(char32_t);
  SplitBehaviour behaviour_;
};

// Puts `first` before the code point at `pos`; both have the place of the latter.
void PutBeforeFirst(std::string_view first, size_t pos, NormalizedText* text) {
  size_t from = 0;
  text->Put({DecodeUtf8(first, &from), 0});
  text->Put({DecodeUtf8(text->text(), &pos), 1});
}

class Metaspace final : public Pretokenizer {
 public:
  explicit Metaspace(MetaspaceOptions options) : options_(std::move(options)) {}

  void Split(NormalizedText* text, PieceList* pieces) const override {
    text->BeginRewrite();
    for (const TextSpan piece : pieces->spans) {
      text->SkipTo(piece.begin);
      size_t piece_begin = text->rewritten_size();
      size_t from = piece.begin;
      const std::string_view old = text->text().substr(0, piece.end);
      const auto is_mark = [&](size_t pos) {
        return old[pos] == ' ' || old.substr(pos).starts_with(options_.replacement);
      };
      if (Prepends(*text, piece) && !is_mark(piece.begin)) {
        PutBeforeFirst(options_.replacement, piece.begin, text);
        from += Utf8Length(old[from]);
      }
      const auto begin_piece = [&] {
        if (!options_.split || text->rewritten_size() == piece_begin) return;
        pieces->next.push_back({piece_begin, text->rewritten_size()});
        piece_begin = text->rewritten_size();
      };
      for (size_t pos = from; pos < piece.end;) {
        if (!is_mark(pos)) {
          ++pos;
          continue;
        }
        text->Keep(from, pos);
        begin_piece();
        if (old[pos] == ' ') {
          from = pos + 1;
          text->SkipTo(from);
          text->PutBehind(options_.replacement);
        } else {
          from = pos + options_.replacement.size();
          text->Keep(pos, from);
        }
        pos = from;
      }
      text->Keep(from, piece.end);
      pieces->next.push_back({piece_begin, text->rewritten_size()});
    }
    text->EndRewrite();
    pieces->Commit();
  }
  PretokenizerCuts cuts() const override {
    return options_.split ? PretokenizerCuts::kSpaces : PretokenizerCuts::kNone;
  }
  bool needs_offsets() const override { return options_.prepend_scheme == PrependScheme::kFirst; }

 private:
  bool Prepends(const NormalizedText& text, TextSpan piece) const {
    switch (options_.prepend_scheme) {
      case PrependScheme::kNever:
        return false;
      case PrependScheme::kFirst:
        return text.Original(piece.begin, piece.end).begin == 0;
      case PrependScheme::kAlways:
        break;
    }
    return true;
  }

  MetaspaceOptions options_;
};

class ByteLevel final : public Pretokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
    if (use_regex) pattern_ = MakeGpt2Pattern();
  }

  void Split(NormalizedText* text, PieceList* pieces) const override {
    if (add_prefix_space_) AddPrefixSpaces(text, pieces);
    if (!pattern_) return;
    for (const TextSpan piece : pieces->spans) pattern_->Tile(text->text(), piece, &pieces->next);
    pieces->Commit();
  }
  PretokenizerCuts cuts() const override {
    if (!pattern_) {
      return add_prefix_space_ ? PretokenizerCuts::kNone : PretokenizerCuts::kCodePoints;
    }
    return add_prefix_space_ ? PretokenizerCuts::kSpaces : PretokenizerCuts::kLetterRuns;
  }
  bool maps_bytes() const override { return true; }

 private:
  static void AddPrefixSpaces(NormalizedText* text, PieceList* pieces) {
    text->BeginRewrite();
    for (const TextSpan piece : pieces->spans) {
      const size_t begin = text->rewritten_size();
      text->SkipTo(piece.begin);
      size_t from = piece.begin;
      if (text->text()[from] != ' ') {
        PutBeforeFirst(" ", from, text);
        from += Utf8Length(text->text()[from]);
      }
      text->Keep(from, piece.end);
      pieces->next.push_back({begin, text->rewritten_size()});
    }
    text->EndRewrite();
    pieces->Commit();
  }

  bool add_prefix_space_;
  std::unique_ptr<SplitPattern> pattern_;
};

class PretokenizerSequence final : public Pretokenizer {
 public:
  explicit PretokenizerSequence(std::vector<std::unique_ptr<Pretokenizer>> parts)
      : parts_(std::move(parts)) {}

  void Split(NormalizedText* text, PieceList* pieces) const override {
    for (const auto& part : parts_) part->Split(text, pieces);
  }
  // What the first part certainly cuts is cut for all that follow, whatever they do.
  PretokenizerCuts cuts() const override {
    PretokenizerCuts first = PretokenizerCuts::kCodePoints;
    bool all_by_code_point = true;
    for (const auto& part : parts_) {
      all_by_code_point &= part->cuts() == PretokenizerCuts::kCodePoints;
    }
    if (!parts_.empty()) first = parts_[0]->cuts();
    if (first == PretokenizerCuts::kCodePoints && !all_by_code_point) {
      return PretokenizerCuts::kNone;
    }
    if (first != PretokenizerCuts::kLetterRuns) return first;
    // A part that looks at the start of its piece sees another one where a text is cut.
    for (const auto& part : parts_) {
      if (part->cuts() == PretokenizerCuts::kSpaces || part->cuts() == PretokenizerCuts::kNone) {
        return PretokenizerCuts::kSpaces;
      }
    }
    return first;
  }
  bool maps_bytes() const override { return !parts_.empty() && parts_.back()->maps_bytes(); }
  bool needs_offsets() const override {
    for (const auto& part : parts_) {
      if (part->needs_offsets()) return true;
    }
    return false;
  }

 private:
  std::vector<std::unique_ptr<Pretokenizer>> parts_;
};

}  // namespace

std::unique_ptr<Pretokenizer> MakeBertPretokenizer() {
  return std::make_unique<BertPretokenizer>();
}
std::unique_ptr<Pretokenizer> MakeWhitespaceSplit() { return std::make_unique<WhitespaceSplit>(); }
std::unique_ptr<Pretokenizer> MakeWhitespace() { return std::make_unique<Whitespace>(); }
std::unique_ptr<Pretokenizer> MakePunctuation(SplitBehaviour behaviour) {
  return std::make_unique<ClassSplit>([](char32_t c) { return HasFlag(c, kPunctuation); },
                                      behaviour);
}
std::unique_ptr<Pretokenizer> MakeDigits(bool individual) {
  return std::make_unique<ClassSplit>(
      [](char32_t c) { return (UnicodeRecord(c).category & kNumeric) != 0; },
      individual ? SplitBehaviour::kIsolated : SplitBehaviour::kContiguous);
}
std::unique_ptr<Pretokenizer> MakeSplit(std::unique_ptr<SplitPattern> pattern,
                                        SplitBehaviour behaviour, bool invert,
                                        PretokenizerCuts cuts) {
  return std::make_unique<PatternSplit>(std::move(pattern), behaviour, invert, cuts);
}
std::unique_ptr<Pretokenizer> MakeMetaspace(MetaspaceOptions options) {
  return std::make_unique<Metaspace>(std::move(options));
}
std::unique_ptr<Pretokenizer> MakeByteLevel(bool add_prefix_space, bool use_regex) {
  return std::make_unique<ByteLevel>(add_prefix_space, use_regex);
}
std::unique_ptr<Pretokenizer> MakePretokenizerSequence(
    std::vector<std::unique_ptr<Pretokenizer>> parts) {
  return std::make_unique<PretokenizerSequence>(std::move(parts));
}

}  // namespace pergola::tokenizers
