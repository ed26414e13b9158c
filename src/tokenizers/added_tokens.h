// Tokens that are found in a text as they are, before or after normalisation: "[MASK]", "<bos>",
// runs of newlines.
//
//   AddedTokenMatcher matcher;
//   matcher.Insert({.content = "<mask>", .lstrip = true}, "<mask>", 4);
//   if (auto match = matcher.FindNext(text, 0, 0, text.size())) ...
//
// The leftmost token wins, then the longest.
#pragma once

#include <array>
#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/byte_trie.h"
#include "tokenizers/code_point_pairs.h"
#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {

struct AddedToken {
  std::string content;
  bool single_word = false;  // not next to a letter, digit, mark or underscore
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = false;   // looked for after normalisation, itself normalised
  bool special = false;
};

// Filled once, then immutable and thread-safe.
class AddedTokenMatcher {
 public:
  struct Match {
    size_t begin;     // with the white space taken
    size_t end;       // likewise
    size_t scan_end;  // where the search goes on: behind the token itself
    TokenId id;
  };

  // `pattern`: the content, or its normalised form; an empty one is never found.
  void Insert(const AddedToken& token, std::string_view pattern, TokenId id);

  // The next token that starts in [scan, limit); it may end beyond. White space before `taken`
  // belongs to an earlier match. With tokens that look to the right (LooksRight()) the text must be
  // valid UTF-8 beyond `limit` too.
  std::optional<Match> FindNext(std::string_view text, size_t scan, size_t taken,
                                size_t limit) const;

  bool empty() const { return trie_.empty(); }
  // Some token takes white space before it.
  bool LooksLeft() const { return looks_left_; }
  // Some token takes the white space behind it or is a single word.
  bool LooksRight() const { return looks_right_; }
  // False only if no token contains `before` followed by `after`.
  bool MayContain(char32_t before, char32_t after) const { return pairs_.Contains(before, after); }

 private:
  struct Entry {
    TokenId id;
    bool single_word;
    bool lstrip;
    bool rstrip;
  };

  ByteTrie trie_;  // values: indices into entries_
  std::vector<Entry> entries_;
  std::bitset<256> first_bytes_;
  CodePointPairs pairs_;
  bool looks_left_ = false;
  bool looks_right_ = false;
};

}  // namespace pergola::tokenizers
