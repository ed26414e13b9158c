#include "tokenizers/wordpiece.h"

#include <algorithm>
#include <utility>

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {

Result<std::unique_ptr<WordPiece>> WordPiece::Make(Vocabulary vocabulary,
                                                   WordPieceOptions options) {
  const TokenId unk = vocabulary.Find(options.unk_token);
  if (unk == Vocabulary::kNone) {
    return InvalidArgumentError("WordPiece: the unknown token '" + options.unk_token +
                                "' is not in the vocabulary");
  }
  return std::unique_ptr<WordPiece>(new WordPiece(std::move(vocabulary), std::move(options), unk));
}

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options, TokenId unk)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), unk_(unk) {
  const std::string_view prefix = options_.continuing_subword_prefix;
  for (size_t index = 0; index < vocabulary_.id_limit(); ++index) {
    const auto id = static_cast<TokenId>(index);
    const std::string_view token = vocabulary_.Token(id);
    if (token.empty()) continue;
    initial_.Insert(token, id);
    if (token.size() > prefix.size() && token.starts_with(prefix)) {
      continuation_.Insert(token.substr(prefix.size()), id);
    }
  }
}

void WordPiece::Tokenize(std::string_view piece, ModelScratch* /*scratch*/,
                         std::vector<ModelToken>* tokens) const {
  const auto size = static_cast<uint32_t>(piece.size());
  const auto num_chars = [&] {
    return static_cast<size_t>(
        std::count_if(piece.begin(), piece.end(), [](char c) { return !IsUtf8Continuation(c); }));
  };
  if (piece.size() > options_.max_input_chars_per_word &&
      num_chars() > options_.max_input_chars_per_word) {
    tokens->push_back({unk_, 0, size});
    return;
  }
  const TokenId whole = vocabulary_.Find(piece);
  if (whole != Vocabulary::kNone) {
    tokens->push_back({whole, 0, size});
    return;
  }
  const size_t first_token = tokens->size();
  for (uint32_t begin = 0; begin < size;) {
    const ByteTrie& trie = begin == 0 ? initial_ : continuation_;
    TokenId best = Vocabulary::kNone;
    uint32_t best_end = begin;
    ByteTrie::Node node = trie.root();
    for (uint32_t end = begin; end < size;) {
      node = trie.Step(node, piece[end++]);
      if (node == ByteTrie::kNowhere) break;
      if (trie.Value(node) != ByteTrie::kNoValue) {
        best = trie.Value(node);
        best_end = end;
      }
    }
    if (best == Vocabulary::kNone) {
      tokens->resize(first_token);
      tokens->push_back({unk_, 0, size});
      return;
    }
    tokens->push_back({best, begin, best_end});
    begin = best_end;
  }
}

}  // namespace pergola::tokenizers
