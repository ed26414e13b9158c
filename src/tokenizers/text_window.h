// A text whose UTF-8 is checked as far as it is read, so that reading 512 tokens of 100 MB does not
// cost a pass over 100 MB.
#pragma once

#include <string>
#include <string_view>

#include "pergola/status.h"
#include "tokenizers/unicode.h"

namespace pergola::tokenizers {

inline Status InvalidUtf8Error(size_t offset) {
  return InvalidArgumentError("the text is not valid UTF-8 at byte " + std::to_string(offset));
}

// Thread-confined. The text must outlive it; `begin` is where reading starts, at a code point.
class TextWindow {
 public:
  TextWindow(std::string_view text, size_t begin) : text_(text), checked_(begin) {}

  std::string_view text() const { return text_; }
  // All before is well-formed, and a code point starts here (or the text ends).
  size_t checked() const { return checked_; }

  // Moves checked() to `end` or up to three bytes before it. INVALID_ARGUMENT names the first bad
  // byte.
  Status CheckUntil(size_t end) {
    end = end < text_.size() ? end : text_.size();
    for (int i = 0; i < 3 && end < text_.size() && end > checked_; ++i) {
      if (!IsUtf8Continuation(text_[end])) break;
      --end;
    }
    if (end <= checked_) return OkStatus();
    const size_t bad = FindInvalidUtf8(text_.substr(checked_, end - checked_));
    if (bad != kValidUtf8) return InvalidUtf8Error(checked_ + bad);
    checked_ = end;
    return OkStatus();
  }

 private:
  std::string_view text_;
  size_t checked_;
};

}  // namespace pergola::tokenizers
