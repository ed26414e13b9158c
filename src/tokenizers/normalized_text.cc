#include "tokenizers/normalized_text.h"

#include "core/check.h"

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

void NormalizedText::AssignPart(const NormalizedText& whole, size_t begin, size_t end) {
  text_.assign(whole.text_, begin, end - begin);
  with_offsets_ = whole.with_offsets_;
  origins_.clear();
  if (!with_offsets_) return;
  origins_.assign(whole.origins_.begin() + static_cast<ptrdiff_t>(begin),
                  whole.origins_.begin() + static_cast<ptrdiff_t>(end));
}

void NormalizedText::BeginRewrite() {
  next_text_.clear();
  next_origins_.clear();
  cursor_ = 0;
  last_was_inserted_ = false;
}

void NormalizedText::EndRewrite() {
  text_.swap(next_text_);
  origins_.swap(next_origins_);
}

void NormalizedText::Keep(size_t begin, size_t end) {
  if (begin == end) return;
  next_text_.append(text_, begin, end - begin);
  cursor_ = end;
  last_was_inserted_ = false;
  if (!with_offsets_) return;
  next_origins_.insert(next_origins_.end(), origins_.begin() + static_cast<ptrdiff_t>(begin),
                       origins_.begin() + static_cast<ptrdiff_t>(end));
}

void NormalizedText::Put(CodePointChange change) {
  const size_t before = next_text_.size();
  AppendUtf8(change.code_point, &next_text_);
  if (!with_offsets_) return;
  last_was_inserted_ = change.change > 0;
  ByteSpan origin;
  if (last_was_inserted_) {
    if (cursor_ > 0) origin = origins_[cursor_ - 1];
  } else {
    PERGOLA_DCHECK(cursor_ < text_.size());
    origin = origins_[cursor_];
    for (int32_t i = change.change; i <= 0; ++i) SkipOne();
  }
  next_origins_.insert(next_origins_.end(), next_text_.size() - before, origin);
}

void NormalizedText::PutBehind(std::string_view bytes) {
  next_text_.append(bytes);
  if (!with_offsets_) return;
  last_was_inserted_ = true;
  next_origins_.insert(next_origins_.end(), bytes.size(),
                       cursor_ > 0 ? origins_[cursor_ - 1] : ByteSpan{});
}

void NormalizedText::RemoveBehind(size_t count) {
  if (!with_offsets_ || next_text_.empty() || count == 0) return;
  if (last_was_inserted_ && cursor_ < text_.size()) {
    for (size_t i = PreviousUtf8(next_text_, next_text_.size()); i < next_text_.size(); ++i) {
      next_origins_[i] = origins_[cursor_];
    }
  }
  last_was_inserted_ = false;
  for (size_t i = 0; i < count; ++i) SkipOne();
}

void NormalizedText::Transform(std::span<const CodePointChange> changes, size_t removed_at_start) {
  BeginRewrite();
  if (with_offsets_) {
    for (size_t i = 0; i < removed_at_start; ++i) SkipOne();
  }
  for (const CodePointChange& change : changes) Put(change);
  EndRewrite();
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
  BeginRewrite();
  size_t from = 0;
  for (; found != std::string::npos; found = text_.find(pattern, from)) {
    Keep(from, found);
    from = found + pattern.size();
    SkipTo(from);
    PutBehind(content);
  }
  Keep(from, text_.size());
  EndRewrite();
}

void NormalizedText::Crop(size_t begin, size_t end) {
  text_.erase(end);
  text_.erase(0, begin);
  if (!with_offsets_) return;
  origins_.erase(origins_.begin() + static_cast<ptrdiff_t>(end), origins_.end());
  origins_.erase(origins_.begin(), origins_.begin() + static_cast<ptrdiff_t>(begin));
}

}  // namespace pergola::tokenizers
