#include "tokenizers/token_run.h"

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

bool IsTrimmed(char32_t c) { return c == U'\u0120' || HasFlag(c, kWhitespace); }

TokenRun::Margin MarginOf(std::string_view token) {
  TokenRun::Margin margin{0, 0};
  for (size_t pos = 0; pos < token.size() && IsTrimmed(DecodeUtf8(token, &pos));) ++margin.leading;
  for (size_t pos = token.size(); pos > 0; ++margin.trailing) {
    pos = PreviousUtf8(token, pos);
    size_t next = pos;
    if (!IsTrimmed(DecodeUtf8(token, &next))) break;
  }
  return margin;
}

// Whether text[0, end) has at least `count` code points.
bool HasCodePoints(std::string_view text, size_t end, size_t count) {
  size_t pos = 0;
  while (count > 0 && pos < end) {
    pos += Utf8Length(text[pos]);
    --count;
  }
  return count == 0;
}

}  // namespace

void TokenRun::Clear() {
  ids.clear();
  offsets.clear();
  margins.clear();
  complete = true;
  text = {};
  begin = 0;
}

void TokenRun::Push(TokenId id, ByteSpan span, std::string_view token, bool trims) {
  if (trims) margins.push_back(MarginOf(token));
  offsets.push_back(span);
  ids.push_back(id);
}

void TokenRun::Trim(bool add_prefix_space) {
  for (size_t i = 0; i < margins.size(); ++i) {
    auto [leading, trailing] = margins[i];
    ByteSpan& span = offsets[i];
    const bool first = i == 0 || span.begin == 0;
    if (first && add_prefix_space && leading == 1) leading = 0;
    for (; leading > 0 && span.begin < span.end; --leading) {
      span.begin += Utf8Length(text[span.begin]);
    }
    if (!HasCodePoints(text, span.end, trailing)) continue;
    for (; trailing > 0 && span.end > span.begin; --trailing) {
      span.end = PreviousUtf8(text, span.end);
    }
  }
}

void TokenRun::Cut(size_t count, TruncationSide side) {
  if (ids.size() <= count) return;
  const auto surplus = static_cast<ptrdiff_t>(ids.size() - count);
  if (side == TruncationSide::kLeft) {
    ids.erase(ids.begin(), ids.begin() + surplus);
    if (!offsets.empty()) offsets.erase(offsets.begin(), offsets.begin() + surplus);
    if (!margins.empty()) margins.erase(margins.begin(), margins.begin() + surplus);
  } else {
    ids.resize(count);
    if (!offsets.empty()) offsets.resize(count);
    if (!margins.empty()) margins.resize(count);
  }
}

void Assemble(const std::vector<TemplatePiece>& pieces, const TokenRun& first,
              const TokenRun& second, const EncodeOptions& options, Encoding* encoding) {
  using Kind = TemplatePiece::Kind;
  for (const TemplatePiece& piece : pieces) {
    const bool special = piece.kind == Kind::kSpecial;
    if (special && !options.add_special_tokens) continue;
    const TokenRun& run = piece.kind == Kind::kSecond ? second : first;
    const std::vector<TokenId>& ids = special ? piece.ids : run.ids;
    encoding->ids.insert(encoding->ids.end(), ids.begin(), ids.end());
    encoding->type_ids.insert(encoding->type_ids.end(), ids.size(), piece.type_id);
    if (!options.with_offsets) continue;
    encoding->special_mask.insert(encoding->special_mask.end(), ids.size(), special ? 1 : 0);
    if (special) {
      encoding->offsets.insert(encoding->offsets.end(), ids.size(), ByteSpan{});
    } else {
      encoding->offsets.insert(encoding->offsets.end(), run.offsets.begin(), run.offsets.end());
    }
  }
  // A limit below the number of special tokens: the closing one stays.
  if (encoding->ids.size() <= options.max_tokens) return;
  const size_t surplus = encoding->ids.size() - options.max_tokens;
  const auto cut = [&](auto* values) {
    if (values->empty()) return;
    const size_t kept = options.max_tokens > 0 ? 1 : 0;
    const auto end = values->end() - static_cast<ptrdiff_t>(kept);
    values->erase(end - static_cast<ptrdiff_t>(surplus), end);
  };
  cut(&encoding->ids);
  cut(&encoding->type_ids);
  cut(&encoding->offsets);
  cut(&encoding->special_mask);
}

}  // namespace pergola::tokenizers
