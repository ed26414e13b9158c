// The `model` entry of tokenizer.json: vocabulary and merges.
#include <simdjson.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "tokenizers/bpe.h"
#include "tokenizers/json_parts.h"
#include "tokenizers/unigram.h"
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
  std::array<Vocabulary::Entry, 256> block;
  size_t count = 0;
  for (const auto& [token, element] : entries) {
    int64_t id = -1;
    if (element.get(id) != simdjson::SUCCESS) {
      return JsonTypeError(place, "vocab", "a table of tokens and integer ids");
    }
    block[count] = {token, id};
    if (++count < block.size()) continue;
    PERGOLA_RETURN_IF_ERROR(vocabulary.Add(block).WithContext(place + ".vocab"));
    count = 0;
  }
  PERGOLA_RETURN_IF_ERROR(
      vocabulary.Add(std::span(block).first(count)).WithContext(place + ".vocab"));
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

// `value` as the reference library's JSON parser reads its shortest decimal form, which is not
// always to the nearest double: all digits as an integer, then one division or multiplication by a
// power of ten. Scores must be equal to the bit where two ways to cut a word are equally good.
double AsReferenceReads(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific);
  uint64_t digits = 0;
  int exponent = 0;
  const char* at = text;
  for (bool decimals = false; at < end.ptr && *at != 'e'; ++at) {
    if (*at == '.') decimals = true;
    if (*at < '0' || *at > '9') continue;
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    if (decimals) --exponent;
  }
  int shift = 0;
  if (at + 2 < end.ptr) std::from_chars(at + 2, end.ptr, shift);
  exponent += at + 1 < end.ptr && at[1] == '-' ? -shift : shift;
  double power = 1;
  if (std::abs(exponent) > 22) return value;  // powers beyond are no doubles
  for (int i = 0; i < std::abs(exponent); ++i) power *= 10;
  const auto integer = static_cast<double>(digits);
  const double result = exponent < 0 ? integer / power : integer * power;
  return value < 0 ? -result : result;
}

// vocab: [["<s>", 0.0], ...]
Result<std::unique_ptr<TokenModel>> ParseUnigram(const JsonElement& model,
                                                 const std::string& place) {
  UnigramOptions options;
  PERGOLA_ASSIGN_OR_RETURN(int64_t unk, JsonInt(model, "unk_id", place));
  if (unk < 0 || unk > std::numeric_limits<TokenId>::max()) {
    return JsonTypeError(place, "unk_id", "an id");
  }
  options.unk = static_cast<TokenId>(unk);
  PERGOLA_ASSIGN_OR_RETURN(options.byte_fallback, JsonBool(model, "byte_fallback", place, false));
  simdjson::dom::array entries;
  if (model["vocab"].get(entries) != simdjson::SUCCESS) {
    return JsonTypeError(place, "vocab", "an array");
  }
  std::vector<Vocabulary::Entry> pieces;
  std::vector<double> scores;
  size_t num_bytes = 0;
  for (const JsonElement entry : entries) {
    simdjson::dom::array pair;
    std::string_view piece;
    double score = 0;
    if (entry.get(pair) != simdjson::SUCCESS || pair.at(0).get(piece) != simdjson::SUCCESS ||
        pair.at(1).get(score) != simdjson::SUCCESS) {
      return InvalidArgumentError(place + ".vocab[" + std::to_string(pieces.size()) +
                                  "] is not a piece and its score");
    }
    pieces.push_back({piece, static_cast<int64_t>(pieces.size())});
    scores.push_back(AsReferenceReads(score));
    num_bytes += piece.size();
  }
  Vocabulary vocabulary;
  vocabulary.Reserve(pieces.size(), num_bytes);
  PERGOLA_RETURN_IF_ERROR(vocabulary.Add(pieces).WithContext(place + ".vocab"));
  PERGOLA_ASSIGN_OR_RETURN(auto unigram,
                           Unigram::Make(std::move(vocabulary), std::move(scores), options));
  return std::unique_ptr<TokenModel>(std::move(unigram));
}

// ["a", "b"], or in older files "a b".
bool ParseMerge(const JsonElement& element, Merge* merge) {
  std::string_view line;
  if (element.get(line) == simdjson::SUCCESS) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) return false;
    *merge = {line.substr(0, space), line.substr(space + 1)};
    return merge->right.find(' ') == std::string_view::npos;
  }
  simdjson::dom::array pair;
  if (element.get(pair) != simdjson::SUCCESS) return false;
  auto part = pair.begin();
  const auto next = [&](std::string_view* text) {
    if (part == pair.end() || (*part).get(*text) != simdjson::SUCCESS) return false;
    ++part;
    return true;
  };
  return next(&merge->left) && next(&merge->right) && part == pair.end();
}

Status ParseMerges(const simdjson::dom::array& merges, const std::string& place, Bpe* bpe) {
  std::array<Merge, 512> block;
  size_t count = 0;
  size_t index = 0;
  for (const JsonElement element : merges) {
    if (!ParseMerge(element, &block[count])) {
      return InvalidArgumentError(place + ".merges[" + std::to_string(index) +
                                  "] is not a pair of tokens");
    }
    ++index;
    if (++count < block.size()) continue;
    PERGOLA_RETURN_IF_ERROR(bpe->AddMerges(block));
    count = 0;
  }
  return bpe->AddMerges(std::span(block).first(count));
}

// What continues or ends a word in a BPE of the old kind.
Status RefuseAffixes(const JsonElement& model, const std::string& place) {
  for (const char* field : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    PERGOLA_ASSIGN_OR_RETURN(std::string_view affix, JsonString(model, field, place, ""));
    if (!affix.empty()) return UnsupportedError(field, place);
  }
  JsonElement dropout;
  double rate = 0;
  if (model["dropout"].get(dropout) == simdjson::SUCCESS && !dropout.is_null() &&
      (dropout.get(rate) != simdjson::SUCCESS || rate != 0)) {
    return UnsupportedError("dropout", place);
  }
  return OkStatus();
}

Result<std::unique_ptr<TokenModel>> ParseBpe(const JsonElement& model, const std::string& place,
                                             bool byte_level) {
  PERGOLA_RETURN_IF_ERROR(RefuseAffixes(model, place));
  BpeOptions options;
  options.byte_level = byte_level;
  PERGOLA_ASSIGN_OR_RETURN(options.unk_token, JsonString(model, "unk_token", place, ""));
  PERGOLA_ASSIGN_OR_RETURN(options.byte_fallback, JsonBool(model, "byte_fallback", place, false));
  PERGOLA_ASSIGN_OR_RETURN(options.fuse_unk, JsonBool(model, "fuse_unk", place, false));
  PERGOLA_ASSIGN_OR_RETURN(options.ignore_merges, JsonBool(model, "ignore_merges", place, false));
  simdjson::dom::array merges;
  if (model["merges"].get(merges) != simdjson::SUCCESS) {
    return JsonTypeError(place, "merges", "an array");
  }
  size_t num_merges = merges.size();  // saturates at 2^24 - 1
  if (num_merges >= 0xFFFFFF) return InvalidArgumentError(place + ": too many merges");
  PERGOLA_ASSIGN_OR_RETURN(Vocabulary vocabulary, ParseVocabulary(model, place));
  PERGOLA_ASSIGN_OR_RETURN(auto bpe,
                           Bpe::Make(std::move(vocabulary), std::move(options), num_merges));
  PERGOLA_RETURN_IF_ERROR(ParseMerges(merges, place, bpe.get()));
  return std::unique_ptr<TokenModel>(std::move(bpe));
}

}  // namespace

Result<std::unique_ptr<TokenModel>> ParseTokenModel(const JsonElement& element,
                                                    const std::string& place, bool byte_level) {
  if (!element.is_object()) return InvalidArgumentError(place + " is missing or not an object");
  PERGOLA_ASSIGN_OR_RETURN(std::string_view type, JsonString(element, "type", place, "BPE"));
  if (type == "WordPiece") return ParseWordPiece(element, place);
  if (type == "Unigram") return ParseUnigram(element, place);
  if (type == "BPE") return ParseBpe(element, place, byte_level);
  return UnsupportedError(type, place);
}

}  // namespace pergola::tokenizers
