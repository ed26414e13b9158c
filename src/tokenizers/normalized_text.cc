#include "tokenizers/normalized_text.h"

#include "core/check.h"
#include "tokenizers/unicode.h"

namespace pergola::tokenizers {

void NormalizedText::Assign(std::string_view text, size_t offset, bool with_offsets) {
  text_.assign(text);
  with_offsets_ = with_offsets;
  origins_.clear();
  if (!with_offsets) return;
  origins_.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t length = Utf8Length(text[pos]);
    origins_.insert(origins_.end(), length, ByteSpan{offset + pos, offset + pos + length});
    pos += length;
  }
}

void NormalizedText::Transform(std::span<const CodePointChange> changes, size_t removed_at_start) {
  next_text_.clear();
  next_origins_.clear();
  size_t old_pos = 0;
  const auto skip_one = [&] {
    PERGOLA_DCHECK(old_pos < text_.size());
    old_pos += Utf8Length(text_[old_pos]);
  };
  if (with_offsets_) {
    for (size_t i = 0; i < removed_at_start; ++i) skip_one();
  }
  for (const CodePointChange& change : changes) {
    const size_t before = next_text_.size();
    AppendUtf8(change.code_point, &next_text_);
    if (!with_offsets_) continue;
    ByteSpan origin;
    if (change.change > 0) {
      if (old_pos > 0) origin = origins_[old_pos - 1];
    } else {
      origin = origins_[old_pos];
      for (int32_t i = change.change; i <= 0; ++i) skip_one();
    }
    next_origins_.insert(next_origins_.end(), next_text_.size() - before, origin);
  }
  text_.swap(next_text_);
  origins_.swap(next_origins_);
}

void NormalizedText::Replace(std::string_view pattern, std::string_view content) {
  size_t found = text_.find(pattern);
  if (found == std::string::npos) return;
  if (pattern.size() == 1 && content.size() == 1) {
    for (; found != std::string::npos; found = text_.find(pattern, found + 1)) {
      text_[found] = content[0];
    }
    return;
  }
  next_text_.clear();
  next_origins_.clear();
  size_t from = 0;
  const auto keep_until = [&](size_t end) {
    next_text_.append(text_, from, end - from);
    if (!with_offsets_) return;
    next_origins_.insert(next_origins_.end(), origins_.begin() + static_cast<ptrdiff_t>(from),
                         origins_.begin() + static_cast<ptrdiff_t>(end));
  };
  for (; found != std::string::npos; found = text_.find(pattern, from)) {
    keep_until(found);
    from = found + pattern.size();
    next_text_.append(content);
    if (with_offsets_) {
      next_origins_.insert(next_origins_.end(), content.size(), origins_[from - 1]);
    }
  }
  keep_until(text_.size());
  text_.swap(next_text_);
  origins_.swap(next_origins_);
}

void NormalizedText::Crop(size_t begin, size_t end) {
  text_.erase(end);
  text_.erase(0, begin);
  if (!with_offsets_) return;
  origins_.erase(origins_.begin() + static_cast<ptrdiff_t>(end), origins_.end());
  origins_.erase(origins_.begin(), origins_.begin() + static_cast<ptrdiff_t>(begin));
}

}  // namespace pergola::tokenizers
