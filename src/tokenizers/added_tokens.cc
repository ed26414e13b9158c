#include "tokenizers/added_tokens.h"

#include <algorithm>

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

bool EndsWithWord(std::string_view text) {
  if (text.empty()) return false;
  size_t pos = PreviousUtf8(text, text.size());
  return HasFlag(DecodeUtf8(text, &pos), kWord);
}

bool StartsWithWord(std::string_view text) {
  size_t pos = 0;
  return !text.empty() && HasFlag(DecodeUtf8(text, &pos), kWord);
}

size_t SkipSpaceBackwards(std::string_view text, size_t pos) {
  while (pos > 0) {
    const size_t previous = PreviousUtf8(text, pos);
    size_t next = previous;
    if (!HasFlag(DecodeUtf8(text, &next), kWhitespace)) break;
    pos = previous;
  }
  return pos;
}

size_t SkipSpace(std::string_view text, size_t pos) {
  while (pos < text.size()) {
    size_t next = pos;
    if (!HasFlag(DecodeUtf8(text, &next), kWhitespace)) break;
    pos = next;
  }
  return pos;
}

}  // namespace

void AddedTokenMatcher::Insert(const AddedToken& token, std::string_view pattern, TokenId id) {
  if (pattern.empty()) return;
  trie_.Insert(pattern, static_cast<int32_t>(entries_.size()));
  entries_.push_back({id, token.single_word, token.lstrip, token.rstrip});
  first_bytes_.set(static_cast<uint8_t>(pattern[0]));
  looks_left_ |= token.lstrip || token.single_word;
  looks_right_ |= token.rstrip || token.single_word;
  size_t pos = 0;
  char32_t before = DecodeUtf8(pattern, &pos);
  while (pos < pattern.size()) {
    const char32_t after = DecodeUtf8(pattern, &pos);
    pairs_.Insert(before, after);
    before = after;
  }
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::FindNext(std::string_view text,
                                                                    size_t scan, size_t taken,
                                                                    size_t limit) const {
  for (size_t pos = scan; pos < limit; ++pos) {
    if (!first_bytes_[static_cast<uint8_t>(text[pos])]) continue;
    int32_t found = ByteTrie::kNoValue;
    size_t token_end = pos;
    ByteTrie::Node node = trie_.root();
    for (size_t end = pos; end < text.size();) {
      node = trie_.Step(node, text[end++]);
      if (node == ByteTrie::kNowhere) break;
      if (trie_.Value(node) != ByteTrie::kNoValue) {
        found = trie_.Value(node);
        token_end = end;
      }
    }
    if (found == ByteTrie::kNoValue) continue;
    const Entry& entry = entries_[static_cast<size_t>(found)];
    if (entry.single_word &&
        (EndsWithWord(text.substr(0, pos)) || StartsWithWord(text.substr(token_end)))) {
      pos = token_end - 1;
      continue;
    }
    Match match{pos, token_end, token_end, entry.id};
    if (entry.lstrip) match.begin = std::max(SkipSpaceBackwards(text, pos), taken);
    if (entry.rstrip) match.end = SkipSpace(text, token_end);
    return match;
  }
  return std::nullopt;
}

}  // namespace pergola::tokenizers
