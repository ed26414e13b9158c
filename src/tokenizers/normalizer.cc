#include "tokenizers/normalizer.h"

#include <algorithm>
#include <span>
#include <utility>

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

// Keeps the code points that `keep` accepts.
template <typename Keep>
void Filter(NormalizedText* text, const Keep& keep) {
  std::vector<CodePointChange>& changes = text->scratch();
  changes.clear();
  size_t removed_at_start = 0;
  for (size_t pos = 0; pos < text->text().size();) {
    const char32_t code_point = DecodeUtf8(text->text(), &pos);
    if (keep(code_point)) {
      changes.push_back({code_point, 0});
    } else if (changes.empty()) {
      ++removed_at_start;
    } else {
      --changes.back().change;
    }
  }
  text->Transform(changes, removed_at_start);
}

void Lowercase(NormalizedText* text) {
  std::vector<CodePointChange>& changes = text->scratch();
  changes.clear();
  for (size_t pos = 0; pos < text->text().size();) {
    char32_t lower[2];
    const size_t count = ToLower(DecodeUtf8(text->text(), &pos), lower);
    changes.push_back({lower[0], 0});
    if (count == 2) changes.push_back({lower[1], 1});
  }
  text->Transform(changes, 0);
}

// Equal classes keep their order. Runs of marks are short, and std::stable_sort allocates.
void SortByClass(std::span<CodePointChange> marks) {
  constexpr size_t kShort = 32;
  const auto less = [](const CodePointChange& a, const CodePointChange& b) {
    return UnicodeRecord(a.code_point).combining_class <
           UnicodeRecord(b.code_point).combining_class;
  };
  if (marks.size() > kShort) {
    std::stable_sort(marks.begin(), marks.end(), less);
    return;
  }
  for (size_t i = 1; i < marks.size(); ++i) {
    for (size_t k = i; k > 0 && less(marks[k], marks[k - 1]); --k)
      std::swap(marks[k], marks[k - 1]);
  }
}

// Decomposes `text` into `changes`, marks in canonical order.
void DecomposeText(std::string_view text, DecompositionKind kind,
                   std::vector<CodePointChange>* changes) {
  changes->clear();
  size_t pending = 0;  // start of the run of marks that is still unsorted
  const auto sort_pending = [&] { SortByClass(std::span(*changes).subspan(pending)); };
  for (size_t pos = 0; pos < text.size();) {
    const char32_t code_point = DecodeUtf8(text, &pos);
    uint32_t scratch[3];
    const auto parts = Decompose(code_point, kind, scratch);
    const size_t count = std::max<size_t>(parts.size(), 1);
    for (size_t i = 0; i < count; ++i) {
      const char32_t part = parts.empty() ? code_point : parts[i];
      const bool starter = UnicodeRecord(part).combining_class == 0;
      if (starter && changes->size() - pending > 1) sort_pending();
      changes->push_back({part, i == 0 ? 0 : 1});
      if (starter) pending = changes->size();
    }
  }
  sort_pending();
}

// Canonical composition of decomposed text, in place.
void ComposeChanges(std::vector<CodePointChange>* changes) {
  size_t kept = 0;
  size_t starter = changes->size();  // index of the last starter among the kept, or none
  int last_class = -1;               // of the last kept after the starter; -1: none
  for (size_t i = 0; i < changes->size(); ++i) {
    const CodePointChange current = (*changes)[i];
    const int combining_class = UnicodeRecord(current.code_point).combining_class;
    if (starter != changes->size() && last_class < combining_class) {
      const char32_t composed = Compose((*changes)[starter].code_point, current.code_point);
      if (composed != 0) {
        (*changes)[starter].code_point = composed;
        (*changes)[starter].change += current.change - 1;
        continue;
      }
    }
    if (combining_class == 0) {
      starter = kept;
      last_class = -1;
    } else {
      last_class = combining_class;
    }
    (*changes)[kept++] = current;
  }
  changes->resize(kept);
}

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options) : options_(options) {}

  void Apply(NormalizedText* text) const override {
    if (options_.clean_text) CleanText(text);
    if (options_.handle_chinese_chars) SpaceIdeographs(text);
    if (options_.strip_accents) {
      DecomposeText(text->text(), DecompositionKind::kCanonical, &text->scratch());
      text->Transform(text->scratch(), 0);
      Filter(text, [](char32_t c) { return !HasFlag(c, kMarkNonspacing); });
    }
    if (options_.lowercase) Lowercase(text);
  }
  NormalizerReach reach() const override { return NormalizerReach::kNearby; }

 private:
  static void CleanText(NormalizedText* text) {
    const auto is_space_control = [](char32_t c) { return c == '\t' || c == '\n' || c == '\r'; };
    Filter(text, [&](char32_t c) {
      if (is_space_control(c)) return true;
      return c != 0xFFFD && !HasFlag(c, kOther);
    });
    std::vector<CodePointChange>& changes = text->scratch();
    changes.clear();
    for (size_t pos = 0; pos < text->text().size();) {
      const char32_t c = DecodeUtf8(text->text(), &pos);
      changes.push_back({HasFlag(c, kWhitespace) ? U' ' : c, 0});
    }
    text->Transform(changes, 0);
  }

  static void SpaceIdeographs(NormalizedText* text) {
    std::vector<CodePointChange>& changes = text->scratch();
    changes.clear();
    for (size_t pos = 0; pos < text->text().size();) {
      const char32_t c = DecodeUtf8(text->text(), &pos);
      if (IsCjkIdeograph(c)) {
        changes.insert(changes.end(), {{U' ', 0}, {c, 1}, {U' ', 1}});
      } else {
        changes.push_back({c, 0});
      }
    }
    text->Transform(changes, 0);
  }

  BertNormalizerOptions options_;
};

// Text that is in the form already, as nearly all is, costs a scan. What is not, is worked on from
// the starter before it to the next one that neither changes nor joins what is before it.
class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(UnicodeForm form) : form_(form) {}

  void Apply(NormalizedText* text) const override {
    const std::string_view all = text->text();
    const bool compatible = form_ == UnicodeForm::kNfkc || form_ == UnicodeForm::kNfkd;
    const bool compose = form_ == UnicodeForm::kNfc || form_ == UnicodeForm::kNfkc;
    bool rewriting = false;
    size_t kept = 0;
    for (size_t starter = 0, pos = FindChange(all, 0, &starter); pos < all.size();
         pos = FindChange(all, kept, &starter)) {
      if (!rewriting) text->BeginRewrite();
      rewriting = true;
      const size_t end = FindStarter(all, pos);
      text->Keep(kept, starter);
      DecomposeText(all.substr(starter, end - starter),
                    compatible ? DecompositionKind::kCompatible : DecompositionKind::kCanonical,
                    &text->scratch());
      if (compose) ComposeChanges(&text->scratch());
      for (const CodePointChange& change : text->scratch()) text->Put(change);
      kept = end;
    }
    if (!rewriting) return;
    text->Keep(kept, all.size());
    text->EndRewrite();
  }
  NormalizerReach reach() const override { return NormalizerReach::kNearby; }

 private:
  bool Changes(char32_t c, const unicode_tables::Record& record) const {
    switch (form_) {
      case UnicodeForm::kNfc:
        return (record.category & kNfcChanges) != 0;
      case UnicodeForm::kNfkc:
        return (record.grapheme & kNfkcChanges) != 0;
      case UnicodeForm::kNfd:
        return (record.flags & kDecomposes) != 0 || IsHangulSyllable(c);
      case UnicodeForm::kNfkd:
        return (record.flags & kDecomposesCompatibly) != 0 || IsHangulSyllable(c);
    }
    return true;
  }

  // The first code point from `pos` on that may change, or the end. `starter` becomes the last
  // inert starter before it, or `pos`.
  size_t FindChange(std::string_view text, size_t pos, size_t* starter) const {
    *starter = pos;
    int last_class = 0;
    while (pos < text.size()) {
      const size_t here = pos;
      if (static_cast<uint8_t>(text[pos]) < 0x80) {
        *starter = pos++;
        last_class = 0;
        continue;
      }
      const char32_t c = DecodeUtf8(text, &pos);
      const unicode_tables::Record& record = UnicodeRecord(c);
      const int combining_class = record.combining_class;
      if (Changes(c, record)) return here;
      if (combining_class == 0) {
        *starter = here;
      } else if (combining_class < last_class) {
        return here;
      }
      last_class = combining_class;
    }
    return pos;
  }

  // The first inert starter behind `pos`, or the end.
  size_t FindStarter(std::string_view text, size_t pos) const {
    DecodeUtf8(text, &pos);
    while (pos < text.size()) {
      size_t next = pos;
      const char32_t c = DecodeUtf8(text, &next);
      const unicode_tables::Record& record = UnicodeRecord(c);
      if (record.combining_class == 0 && !Changes(c, record)) break;
      pos = next;
    }
    return pos;
  }

  UnicodeForm form_;
};

class LowercaseNormalizer final : public Normalizer {
 public:
  void Apply(NormalizedText* text) const override { Lowercase(text); }
  NormalizerReach reach() const override { return NormalizerReach::kCodePoint; }
};

class StripAccentsNormalizer final : public Normalizer {
 public:
  void Apply(NormalizedText* text) const override {
    Filter(text, [](char32_t c) { return !HasFlag(c, kMark); });
  }
  NormalizerReach reach() const override { return NormalizerReach::kNearby; }
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}

  void Apply(NormalizedText* text) const override {
    const std::string_view all = text->text();
    size_t begin = 0;
    size_t end = all.size();
    while (left_ && begin < end) {
      size_t next = begin;
      if (!HasFlag(DecodeUtf8(all, &next), kWhitespace)) break;
      begin = next;
    }
    while (right_ && begin < end) {
      const size_t last = PreviousUtf8(all, end);
      size_t next = last;
      if (!HasFlag(DecodeUtf8(all, &next), kWhitespace)) break;
      end = last;
    }
    text->Crop(begin, end);
  }
  NormalizerReach reach() const override { return NormalizerReach::kWholeText; }

 private:
  bool left_;
  bool right_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void Apply(NormalizedText* text) const override { text->Replace(pattern_, content_); }
  NormalizerReach reach() const override {
    if (pattern_.size() > Utf8Length(pattern_[0])) return NormalizerReach::kWholeText;
    return content_.empty() ? NormalizerReach::kNearby : NormalizerReach::kCodePoint;
  }

 private:
  std::string pattern_;
  std::string content_;
};

class ReplaceMatchesNormalizer final : public Normalizer {
 public:
  ReplaceMatchesNormalizer(std::unique_ptr<SplitPattern> pattern, std::string content,
                           bool is_space_run)
      : pattern_(std::move(pattern)), content_(std::move(content)), is_space_run_(is_space_run) {}

  void Apply(NormalizedText* text) const override {
    const std::string_view all = text->text();
    TextSpan match;
    if (!pattern_->FindNext(all, 0, &match)) return;
    text->BeginRewrite();
    size_t from = 0;
    do {
      text->Keep(from, match.begin);
      from = match.end;
      text->SkipTo(from);
      text->PutBehind(content_);
    } while (pattern_->FindNext(all, from, &match));
    text->Keep(from, all.size());
    text->EndRewrite();
  }
  NormalizerReach reach() const override {
    return is_space_run_ ? NormalizerReach::kSpaceRuns : NormalizerReach::kWholeText;
  }

 private:
  std::unique_ptr<SplitPattern> pattern_;
  std::string content_;
  bool is_space_run_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string content) : content_(std::move(content)) {}

  void Apply(NormalizedText* text) const override {
    if (text->text().empty() || content_.empty()) return;
    std::vector<CodePointChange>& changes = text->scratch();
    changes.clear();
    for (size_t pos = 0; pos < content_.size();) {
      changes.push_back({DecodeUtf8(content_, &pos), changes.empty() ? 0 : 1});
    }
    size_t pos = 0;
    changes.push_back({DecodeUtf8(text->text(), &pos), 1});
    while (pos < text->text().size()) changes.push_back({DecodeUtf8(text->text(), &pos), 0});
    text->Transform(changes, 0);
  }
  NormalizerReach reach() const override { return NormalizerReach::kWholeText; }

 private:
  std::string content_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> parts)
      : parts_(std::move(parts)) {}

  void Apply(NormalizedText* text) const override {
    for (const auto& part : parts_) part->Apply(text);
  }
  NormalizerReach reach() const override {
    NormalizerReach farthest = NormalizerReach::kCodePoint;
    for (const auto& part : parts_) farthest = std::max(farthest, part->reach());
    return farthest;
  }
  bool may_shift_offsets() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const auto& part) { return part->may_shift_offsets(); });
  }
  bool ShiftsOffsets(std::string_view text) const override {
    // What an earlier part leaves at the start is not known here.
    for (size_t i = 1; i < parts_.size(); ++i) {
      if (parts_[i]->may_shift_offsets()) return true;
    }
    return !parts_.empty() && parts_[0]->ShiftsOffsets(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

}  // namespace

std::unique_ptr<Normalizer> MakeBertNormalizer(const BertNormalizerOptions& options) {
  return std::make_unique<BertNormalizer>(options);
}
std::unique_ptr<Normalizer> MakeUnicodeNormalizer(UnicodeForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}
std::unique_ptr<Normalizer> MakeLowercase() { return std::make_unique<LowercaseNormalizer>(); }
std::unique_ptr<Normalizer> MakeStripAccents() {
  return std::make_unique<StripAccentsNormalizer>();
}
std::unique_ptr<Normalizer> MakeStrip(bool left, bool right) {
  return std::make_unique<StripNormalizer>(left, right);
}
std::unique_ptr<Normalizer> MakeReplace(std::string pattern, std::string content) {
  return std::make_unique<ReplaceNormalizer>(std::move(pattern), std::move(content));
}
std::unique_ptr<Normalizer> MakeReplaceMatches(std::unique_ptr<SplitPattern> pattern,
                                               std::string content, bool is_space_run) {
  return std::make_unique<ReplaceMatchesNormalizer>(std::move(pattern), std::move(content),
                                                    is_space_run);
}
std::unique_ptr<Normalizer> MakePrepend(std::string content) {
  return std::make_unique<PrependNormalizer>(std::move(content));
}
std::unique_ptr<Normalizer> MakeNormalizerSequence(std::vector<std::unique_ptr<Normalizer>> parts) {
  return std::make_unique<NormalizerSequence>(std::move(parts));
}

}  // namespace pergola::tokenizers
