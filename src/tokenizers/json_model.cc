// The `model` entry of tokenizer.json: vocabulary and merges.
#include <simdjson.h>

#include <utility>

#include "tokenizers/json_parts.h"
#include "tokenizers/vocabulary.h"
#include "tokenizers/wordpiece.h"

namespace pergola::tokenizers {
namespace {

Result<Vocabulary> ParseVocabulary(const JsonElement& model, const std::string& place) {
  simdjson::dom::object entries;
  if (model["vocab"].get(entries) != simdjson::SUCCESS) {
    return JsonTypeError(place, "vocab", "an object");
  }
  size_t num_tokens = 0;
  size_t num_bytes = 0;
  for (const auto& [token, id] : entries) {
    ++num_tokens;
    num_bytes += token.size();
  }
  Vocabulary vocabulary;
  vocabulary.Reserve(num_tokens, num_bytes);
  for (const auto& [token, element] : entries) {
    int64_t id = -1;
    if (element.get(id) != simdjson::SUCCESS) {
      return JsonTypeError(place, "vocab", "a table of tokens and integer ids");
    }
    Status status = vocabulary.Add(token, id);
    if (!status.ok()) return status.WithContext(place + ".vocab");
  }
  return vocabulary;
}

Result<std::unique_ptr<TokenModel>> ParseWordPiece(const JsonElement& model,
                                                   const std::string& place) {
  WordPieceOptions options;
  PERGOLA_ASSIGN_OR_RETURN(options.unk_token, JsonString(model, "unk_token", place, "[UNK]"));
  PERGOLA_ASSIGN_OR_RETURN(options.continuing_subword_prefix,
                           JsonString(model, "continuing_subword_prefix", place, "##"));
  PERGOLA_ASSIGN_OR_RETURN(int64_t max_chars, JsonInt(model, "max_input_chars_per_word", place));
  if (max_chars < 0) return JsonTypeError(place, "max_input_chars_per_word", "from 0 on");
  options.max_input_chars_per_word = static_cast<size_t>(max_chars);
  PERGOLA_ASSIGN_OR_RETURN(Vocabulary vocabulary, ParseVocabulary(model, place));
  PERGOLA_ASSIGN_OR_RETURN(auto word_piece,
                           WordPiece::Make(std::move(vocabulary), std::move(options)));
  return std::unique_ptr<TokenModel>(std::move(word_piece));
}

}  // namespace

Result<std::unique_ptr<TokenModel>> ParseTokenModel(const JsonElement& element,
                                                    const std::string& place) {
  PERGOLA_ASSIGN_OR_RETURN(std::string_view type, JsonString(element, "type", place, "BPE"));
  if (type == "WordPiece") return ParseWordPiece(element, place);
  return UnsupportedError(type, place);
}

}  // namespace pergola::tokenizers
