#include "tokenizers/precompiled.h"

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tokenizers/graphemes.h"
#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

constexpr size_t kLongestCluster = 5;

class Charsmap {
 public:
  static Result<Charsmap> Parse(std::string_view bytes) {
    uint32_t trie_bytes = 0;
    if (bytes.size() < sizeof(trie_bytes)) {
      return InvalidArgumentError("the charsmap has " + std::to_string(bytes.size()) + " bytes");
    }
    std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
    bytes.remove_prefix(sizeof(trie_bytes));
    if (trie_bytes > bytes.size() || trie_bytes < 4 || trie_bytes % 4 != 0) {
      return InvalidArgumentError("the charsmap has a trie of " + std::to_string(trie_bytes) +
                                  " bytes in " + std::to_string(bytes.size()));
    }
    Charsmap map;
    map.units_.resize(trie_bytes / 4);
    std::memcpy(map.units_.data(), bytes.data(), trie_bytes);
    map.replacements_ = bytes.substr(trie_bytes);
    if (const size_t bad = FindInvalidUtf8(map.replacements_); bad != kValidUtf8) {
      return InvalidArgumentError("the charsmap is not valid UTF-8 at byte " + std::to_string(bad) +
                                  " of its replacements");
    }
    return map;
  }

  // The replacement by the rule for the shortest prefix of `key` that has one.
  std::optional<std::string_view> Find(std::string_view key) const {
    size_t node = Offset(units_[0]);
    for (const char byte : key) {
      if (byte == '\0') return std::nullopt;
      node ^= static_cast<uint8_t>(byte);
      if (node >= units_.size()) return std::nullopt;
      const uint32_t unit = units_[node];
      if ((unit & 0x800000FFu) != static_cast<uint8_t>(byte)) return std::nullopt;
      node ^= Offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= units_.size()) return std::nullopt;
      const size_t begin = units_[node] & 0x7FFFFFFFu;
      if (begin > replacements_.size()) return std::nullopt;
      const std::string_view rest = std::string_view(replacements_).substr(begin);
      if (!rest.empty() && IsUtf8Continuation(rest[0])) return std::nullopt;
      return rest.substr(0, rest.find('\0'));
    }
    return std::nullopt;
  }

 private:
  static size_t Offset(uint32_t unit) { return size_t{unit >> 10} << ((unit & 1u << 9) >> 6); }

  std::vector<uint32_t> units_;
  std::string replacements_;
};

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += IsUtf8Continuation(byte) ? 0 : 1;
  return count;
}

// Walks a text and writes what becomes of it; nothing is written while nothing changes.
class CharsmapRewrite {
 public:
  explicit CharsmapRewrite(NormalizedText* text) : text_(text) {}

  // Old bytes [begin, end), up to which all is dealt with, become `replacement`.
  void Replace(size_t begin, size_t end, std::string_view replacement) {
    if (!rewriting_) text_->BeginRewrite();
    rewriting_ = true;
    KeepUntil(begin);
    const std::string_view old = text_->text().substr(begin, end - begin);
    const size_t old_count = CountCodePoints(old);
    size_t count = 0;
    for (size_t pos = 0; pos < replacement.size(); ++count) {
      text_->Put({DecodeUtf8(replacement, &pos), count < old_count ? 0 : 1});
    }
    kept_ = end;
    if (count >= old_count) return;
    // What goes before anything came is not accounted for in the reference library: all that
    // follows takes the places of what was before it.
    lags_ |= text_->rewritten_size() == 0;
    text_->RemoveBehind(old_count - count);
  }

  void Finish() {
    if (!rewriting_) return;
    KeepUntil(text_->text().size());
    text_->EndRewrite();
  }

 private:
  void KeepUntil(size_t end) {
    if (!lags_ || !text_->with_offsets()) {
      text_->Keep(kept_, end);
    } else {
      for (size_t pos = kept_; pos < end;) text_->Put({DecodeUtf8(text_->text(), &pos), 0});
    }
    kept_ = end;
  }

  NormalizedText* text_;
  size_t kept_ = 0;  // all before is written
  bool rewriting_ = false;
  bool lags_ = false;
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {
    for (size_t c = 1; c < plain_.size(); ++c) {
      const char byte = static_cast<char>(c);
      plain_[c] = !map_.Find({&byte, 1}).has_value();
    }
  }

  void Apply(NormalizedText* text) const override {
    const std::string_view all = text->text();
    CharsmapRewrite rewrite(text);
    for (size_t pos = 0; pos < all.size();) {
      const auto is_ascii = [&](size_t i) { return static_cast<uint8_t>(all[i]) < 0x80; };
      // Between ASCII characters a cluster ends, but for "\r\n", where it makes no difference.
      if (is_ascii(pos) && plain_[static_cast<size_t>(all[pos])] &&
          (pos + 1 == all.size() || is_ascii(pos + 1))) {
        ++pos;
        continue;
      }
      const size_t end = GraphemeEnd(all, pos);
      ApplyCluster(all, pos, end, &rewrite);
      pos = end;
    }
    rewrite.Finish();
  }
  NormalizerReach reach() const override { return NormalizerReach::kNearby; }
  bool may_shift_offsets() const override { return true; }
  bool ShiftsOffsets(std::string_view text) const override {
    if (text.empty()) return false;
    const size_t end = GraphemeEnd(text, 0);
    auto replacement = end <= kLongestCluster ? map_.Find(text.substr(0, end)) : std::nullopt;
    if (!replacement) replacement = map_.Find(text.substr(0, Utf8Length(text[0])));
    return replacement && replacement->empty();
  }

 private:
  void ApplyCluster(std::string_view all, size_t begin, size_t end,
                    CharsmapRewrite* rewrite) const {
    if (end - begin <= kLongestCluster) {
      if (const auto replacement = map_.Find(all.substr(begin, end - begin))) {
        rewrite->Replace(begin, end, *replacement);
        return;
      }
    }
    for (size_t pos = begin; pos < end;) {
      const size_t next = pos + Utf8Length(all[pos]);
      if (const auto replacement = map_.Find(all.substr(pos, next - pos))) {
        rewrite->Replace(pos, next, *replacement);
      }
      pos = next;
    }
  }

  Charsmap map_;
  std::array<bool, 128> plain_{};  // ASCII that no rule changes
};

}  // namespace

Result<std::unique_ptr<Normalizer>> MakePrecompiled(std::string_view charsmap) {
  PERGOLA_ASSIGN_OR_RETURN(Charsmap map, Charsmap::Parse(charsmap));
  return std::unique_ptr<Normalizer>(std::make_unique<Precompiled>(std::move(map)));
}

}  // namespace pergola::tokenizers
