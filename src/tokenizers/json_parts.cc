#include "tokenizers/json_parts.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tokenizers/precompiled.h"

namespace pergola::tokenizers {
namespace {

constexpr int kMaxNesting = 16;

// "normalizer.normalizers[3]" nests once; counts how deep `place` already is.
Status CheckNesting(const std::string& place) {
  const auto depth = std::count(place.begin(), place.end(), '[');
  if (depth < kMaxNesting) return OkStatus();
  return InvalidArgumentError(place + ": sequences are nested deeper than " +
                              std::to_string(kMaxNesting));
}

// Parses every element of the array `field` with `parse`.
template <typename Part, typename Parse>
Result<std::vector<Part>> ParseList(const JsonElement& object, const char* field,
                                    const std::string& place, const Parse& parse) {
  PERGOLA_RETURN_IF_ERROR(CheckNesting(place));
  simdjson::dom::array array;
  if (object[field].get(array) != simdjson::SUCCESS) return JsonTypeError(place, field, "an array");
  std::vector<Part> parts;
  for (const JsonElement element : array) {
    PERGOLA_ASSIGN_OR_RETURN(
        Part part, parse(element, place + "." + field + "[" + std::to_string(parts.size()) + "]"));
    parts.push_back(std::move(part));
  }
  return parts;
}

// `pattern`: {"String": "..."} or {"Regex": "..."}.
struct PatternText {
  std::string text;  // not empty
  bool is_regex = false;
};

Result<PatternText> ParsePattern(const JsonElement& object, const std::string& place) {
  JsonElement pattern;
  if (object["pattern"].get(pattern) != simdjson::SUCCESS) {
    return JsonTypeError(place, "pattern", "an object");
  }
  std::string_view text;
  const bool is_regex = pattern["Regex"].get(text) == simdjson::SUCCESS;
  if (!is_regex) {
    PERGOLA_ASSIGN_OR_RETURN(text, JsonString(pattern, "String", place + ".pattern"));
  }
  if (text.empty()) return InvalidArgumentError(place + ": the pattern is empty");
  return PatternText{std::string(text), is_regex};
}

Result<std::unique_ptr<Normalizer>> ParseReplace(const JsonElement& element,
                                                 const std::string& place) {
  PERGOLA_ASSIGN_OR_RETURN(PatternText pattern, ParsePattern(element, place));
  PERGOLA_ASSIGN_OR_RETURN(std::string_view content, JsonString(element, "content", place));
  if (!pattern.is_regex) return MakeReplace(std::move(pattern.text), std::string(content));
  PERGOLA_ASSIGN_OR_RETURN(auto matcher, MakeRegexPattern(pattern.text, place + ".pattern"));
  const bool is_space_run = pattern.text.starts_with("\\s") || pattern.text.starts_with(" ");
  return MakeReplaceMatches(std::move(matcher), std::string(content), is_space_run);
}

// False when `text` is not base64.
bool DecodeBase64(std::string_view text, std::string* bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int8_t, 256> values;
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
  }
  if (text.size() % 4 != 0) return false;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  bytes->reserve(text.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char digit : text) {
    const int value = values[static_cast<uint8_t>(digit)];
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes->push_back(static_cast<char>(bits >> num_bits & 0xFF));
  }
  return true;
}

Result<std::unique_ptr<Normalizer>> ParsePrecompiled(const JsonElement& element,
                                                     const std::string& place) {
  PERGOLA_ASSIGN_OR_RETURN(const std::string charsmap, ParseCharsmap(element, place));
  auto normalizer = MakePrecompiled(charsmap);
  if (!normalizer.ok()) return normalizer.status().WithContext(place);
  return normalizer;
}

Result<SplitBehaviour> ParseBehaviour(const JsonElement& element, const std::string& place,
                                      std::string_view default_name) {
  PERGOLA_ASSIGN_OR_RETURN(std::string_view name,
                           default_name.empty()
                               ? JsonString(element, "behavior", place)
                               : JsonString(element, "behavior", place, default_name));
  static constexpr std::pair<std::string_view, SplitBehaviour> kBehaviours[] = {
      {"Removed", SplitBehaviour::kRemoved},
      {"Isolated", SplitBehaviour::kIsolated},
      {"MergedWithPrevious", SplitBehaviour::kMergedWithPrevious},
      {"MergedWithNext", SplitBehaviour::kMergedWithNext},
      {"Contiguous", SplitBehaviour::kContiguous}};
  for (const auto& [known, behaviour] : kBehaviours) {
    if (name == known) return behaviour;
  }
  return UnsupportedError(name, place + ".behavior");
}

Result<std::unique_ptr<Pretokenizer>> ParseSplit(const JsonElement& element,
                                                 const std::string& place) {
  PERGOLA_ASSIGN_OR_RETURN(PatternText pattern, ParsePattern(element, place));
  PERGOLA_ASSIGN_OR_RETURN(SplitBehaviour behaviour, ParseBehaviour(element, place, ""));
  PERGOLA_ASSIGN_OR_RETURN(bool invert, JsonBool(element, "invert", place, false));
  if (!pattern.is_regex) {
    const PretokenizerCuts cuts = pattern.text.size() == Utf8Length(pattern.text[0])
                                      ? PretokenizerCuts::kCodePoints
                                      : PretokenizerCuts::kNone;
    return MakeSplit(MakeStringPattern(std::move(pattern.text)), behaviour, invert, cuts);
  }
  PERGOLA_ASSIGN_OR_RETURN(auto matcher, MakeRegexPattern(pattern.text, place + ".pattern"));
  const PretokenizerCuts cuts = matcher->tiles() && behaviour == SplitBehaviour::kIsolated
                                    ? PretokenizerCuts::kLetterRuns
                                    : PretokenizerCuts::kNone;
  return MakeSplit(std::move(matcher), behaviour, invert, cuts);
}

Result<std::unique_ptr<Pretokenizer>> ParseMetaspace(const JsonElement& element,
                                                     const std::string& place) {
  MetaspaceOptions options;
  PERGOLA_ASSIGN_OR_RETURN(options.replacement,
                           JsonString(element, "replacement", place, "\u2581"));
  if (options.replacement.empty() ||
      options.replacement.size() != Utf8Length(options.replacement[0])) {
    return JsonTypeError(place, "replacement", "one character");
  }
  PERGOLA_ASSIGN_OR_RETURN(options.prepend_scheme, ParsePrependScheme(element, place));
  PERGOLA_ASSIGN_OR_RETURN(options.split, JsonBool(element, "split", place, true));
  return MakeMetaspace(std::move(options));
}

Result<std::unique_ptr<Pretokenizer>> ParseByteLevel(const JsonElement& element,
                                                     const std::string& place) {
  PERGOLA_ASSIGN_OR_RETURN(bool prefix, JsonBool(element, "add_prefix_space", place, true));
  PERGOLA_ASSIGN_OR_RETURN(bool use_regex, JsonBool(element, "use_regex", place, true));
  return MakeByteLevel(prefix, use_regex);
}

Result<std::unique_ptr<Pretokenizer>> ParsePretokenizerSequence(const JsonElement& element,
                                                                const std::string& place) {
  PERGOLA_ASSIGN_OR_RETURN(auto parts, ParseList<std::unique_ptr<Pretokenizer>>(
                                           element, "pretokenizers", place, ParsePretokenizer));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]) return InvalidArgumentError(place + ": a part of the sequence is null");
    if (parts[i]->maps_bytes() && i + 1 < parts.size()) {
      return UnsupportedError("ByteLevel before another part", place);
    }
  }
  return MakePretokenizerSequence(std::move(parts));
}

// ["[SEP]", 102]
Result<TokenId> ParseTokenPair(const JsonElement& object, const char* field,
                               const std::string& place) {
  simdjson::dom::array array;
  int64_t id = -1;
  if (object[field].get(array) != simdjson::SUCCESS || array.at(1).get(id) != simdjson::SUCCESS ||
      id < 0 || id > std::numeric_limits<TokenId>::max()) {
    return JsonTypeError(place, field, "a token and its id");
  }
  return static_cast<TokenId>(id);
}

// Ids of the special token `name` of a template.
Result<std::vector<TokenId>> TemplateIds(const JsonElement& tokens, std::string_view name,
                                         const std::string& place) {
  simdjson::dom::object table;
  simdjson::dom::array array;
  if (tokens.get(table) != simdjson::SUCCESS ||
      table.at_key(name)["ids"].get(array) != simdjson::SUCCESS) {
    return JsonTypeError(place, "special_tokens", "a table with the template's tokens");
  }
  std::vector<TokenId> ids;
  for (const JsonElement element : array) {
    int64_t id = -1;
    if (element.get(id) != simdjson::SUCCESS || id < 0 ||
        id > std::numeric_limits<TokenId>::max()) {
      return JsonTypeError(place, "special_tokens", "a table of ids");
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

Result<TemplatePiece> ParseTemplatePiece(const JsonElement& element, const JsonElement& tokens,
                                         const std::string& place) {
  TemplatePiece piece;
  JsonElement body;
  const bool special = element["SpecialToken"].get(body) == simdjson::SUCCESS;
  if (!special && element["Sequence"].get(body) != simdjson::SUCCESS) {
    return JsonTypeError(place, "Sequence", "given, nor is SpecialToken");
  }
  PERGOLA_ASSIGN_OR_RETURN(int64_t type_id, JsonInt(body, "type_id", place));
  if (type_id < 0 || type_id > std::numeric_limits<int32_t>::max()) {
    return InvalidArgumentError(place + ": type_id " + std::to_string(type_id) +
                                " is out of range");
  }
  piece.type_id = static_cast<int32_t>(type_id);
  PERGOLA_ASSIGN_OR_RETURN(std::string_view id, JsonString(body, "id", place));
  if (special) {
    piece.kind = TemplatePiece::Kind::kSpecial;
    PERGOLA_ASSIGN_OR_RETURN(piece.ids, TemplateIds(tokens, id, place));
  } else if (id == "A" || id == "B") {
    piece.kind = id == "A" ? TemplatePiece::Kind::kFirst : TemplatePiece::Kind::kSecond;
  } else {
    return InvalidArgumentError(place + ": a sequence is A or B");
  }
  return piece;
}

int64_t CountOf(const std::vector<TemplatePiece>& pieces, TemplatePiece::Kind kind) {
  return std::count_if(pieces.begin(), pieces.end(),
                       [kind](const TemplatePiece& piece) { return piece.kind == kind; });
}

Result<PostProcessor> ParseTemplate(const JsonElement& element, const std::string& place) {
  JsonElement tokens;
  if (element["special_tokens"].get(tokens) != simdjson::SUCCESS) {
    return JsonTypeError(place, "special_tokens", "an object");
  }
  const auto parse = [&](const JsonElement& piece, const std::string& piece_place) {
    return ParseTemplatePiece(piece, tokens, piece_place);
  };
  PostProcessor processor;
  PERGOLA_ASSIGN_OR_RETURN(processor.single,
                           ParseList<TemplatePiece>(element, "single", place, parse));
  PERGOLA_ASSIGN_OR_RETURN(processor.pair, ParseList<TemplatePiece>(element, "pair", place, parse));
  // A template without the text would lose it, one with the text twice could not be cut.
  if (CountOf(processor.single, TemplatePiece::Kind::kFirst) != 1) {
    return JsonTypeError(place, "single", "a template with the sequence A once");
  }
  if (CountOf(processor.pair, TemplatePiece::Kind::kFirst) > 1 ||
      CountOf(processor.pair, TemplatePiece::Kind::kSecond) > 1) {
    return JsonTypeError(place, "pair", "a template with each sequence once");
  }
  return processor;
}

Result<PostProcessor> ParseRoberta(const JsonElement& element, const std::string& place) {
  PERGOLA_ASSIGN_OR_RETURN(TokenId cls, ParseTokenPair(element, "cls", place));
  PERGOLA_ASSIGN_OR_RETURN(TokenId sep, ParseTokenPair(element, "sep", place));
  PostProcessor processor = PostProcessor::Roberta(cls, sep);
  PERGOLA_ASSIGN_OR_RETURN(processor.trim_offsets, JsonBool(element, "trim_offsets", place, true));
  PERGOLA_ASSIGN_OR_RETURN(processor.add_prefix_space,
                           JsonBool(element, "add_prefix_space", place, true));
  return processor;
}

// At most one part may add tokens: two templates would nest.
Result<PostProcessor> ParseProcessorSequence(const JsonElement& element, const std::string& place) {
  PERGOLA_ASSIGN_OR_RETURN(
      std::vector<PostProcessor> parts,
      ParseList<PostProcessor>(element, "processors", place, ParsePostProcessor));
  PostProcessor result;
  for (PostProcessor& part : parts) {
    const bool trim = result.trim_offsets || part.trim_offsets;
    const bool prefix = result.add_prefix_space || part.add_prefix_space;
    if (part.NumAddedTokens(false) + part.NumAddedTokens(true) > 0) {
      if (result.NumAddedTokens(false) + result.NumAddedTokens(true) > 0) {
        return UnsupportedError("Sequence of several templates", place);
      }
      result = std::move(part);
    }
    result.trim_offsets = trim;
    result.add_prefix_space = prefix;
  }
  return result;
}

Result<PostProcessor> ParseByteLevelProcessor(const JsonElement& element,
                                              const std::string& place) {
  PostProcessor processor;
  PERGOLA_ASSIGN_OR_RETURN(processor.trim_offsets, JsonBool(element, "trim_offsets", place, true));
  PERGOLA_ASSIGN_OR_RETURN(processor.add_prefix_space,
                           JsonBool(element, "add_prefix_space", place, true));
  return processor;
}

}  // namespace

Result<PrependScheme> ParsePrependScheme(const JsonElement& element, const std::string& place) {
  PERGOLA_ASSIGN_OR_RETURN(bool prefix, JsonBool(element, "add_prefix_space", place, true));
  PERGOLA_ASSIGN_OR_RETURN(std::string_view name, JsonString(element, "prepend_scheme", place,
                                                             prefix ? "always" : "never"));
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  return UnsupportedError(name, place + ".prepend_scheme");
}

Result<BertNormalizerOptions> ParseBertOptions(const JsonElement& element,
                                               const std::string& place) {
  BertNormalizerOptions options;
  PERGOLA_ASSIGN_OR_RETURN(options.clean_text, JsonBool(element, "clean_text", place, true));
  PERGOLA_ASSIGN_OR_RETURN(options.handle_chinese_chars,
                           JsonBool(element, "handle_chinese_chars", place, true));
  PERGOLA_ASSIGN_OR_RETURN(options.lowercase, JsonBool(element, "lowercase", place, true));
  PERGOLA_ASSIGN_OR_RETURN(options.strip_accents,
                           JsonBool(element, "strip_accents", place, options.lowercase));
  return options;
}

Result<std::unique_ptr<Normalizer>> ParseNormalizer(const JsonElement& element,
                                                    const std::string& place) {
  if (element.is_null()) return std::unique_ptr<Normalizer>();
  PERGOLA_ASSIGN_OR_RETURN(std::string_view type, JsonString(element, "type", place));
  if (type == "BertNormalizer") {
    PERGOLA_ASSIGN_OR_RETURN(BertNormalizerOptions options, ParseBertOptions(element, place));
    return MakeBertNormalizer(options);
  }
  if (type == "NFC") return MakeUnicodeNormalizer(UnicodeForm::kNfc);
  if (type == "NFD") return MakeUnicodeNormalizer(UnicodeForm::kNfd);
  if (type == "NFKC") return MakeUnicodeNormalizer(UnicodeForm::kNfkc);
  if (type == "NFKD") return MakeUnicodeNormalizer(UnicodeForm::kNfkd);
  if (type == "Precompiled") return ParsePrecompiled(element, place);
  if (type == "Lowercase") return MakeLowercase();
  if (type == "StripAccents") return MakeStripAccents();
  if (type == "Replace") return ParseReplace(element, place);
  if (type == "Strip") {
    PERGOLA_ASSIGN_OR_RETURN(bool left, JsonBool(element, "strip_left", place, true));
    PERGOLA_ASSIGN_OR_RETURN(bool right, JsonBool(element, "strip_right", place, true));
    return MakeStrip(left, right);
  }
  if (type == "Prepend") {
    PERGOLA_ASSIGN_OR_RETURN(std::string_view content, JsonString(element, "prepend", place));
    return MakePrepend(std::string(content));
  }
  if (type == "Sequence") {
    PERGOLA_ASSIGN_OR_RETURN(auto parts, ParseList<std::unique_ptr<Normalizer>>(
                                             element, "normalizers", place, ParseNormalizer));
    return MakeNormalizerSequence(std::move(parts));
  }
  return UnsupportedError(type, place);
}

Result<std::unique_ptr<Pretokenizer>> ParsePretokenizer(const JsonElement& element,
                                                        const std::string& place) {
  if (element.is_null()) return std::unique_ptr<Pretokenizer>();
  PERGOLA_ASSIGN_OR_RETURN(std::string_view type, JsonString(element, "type", place));
  if (type == "BertPreTokenizer") return MakeBertPretokenizer();
  if (type == "WhitespaceSplit") return MakeWhitespaceSplit();
  if (type == "Whitespace") return MakeWhitespace();
  if (type == "Split") return ParseSplit(element, place);
  if (type == "Metaspace") return ParseMetaspace(element, place);
  if (type == "ByteLevel") return ParseByteLevel(element, place);
  if (type == "Digits") {
    PERGOLA_ASSIGN_OR_RETURN(bool individual, JsonBool(element, "individual_digits", place, false));
    return MakeDigits(individual);
  }
  if (type == "Punctuation") {
    PERGOLA_ASSIGN_OR_RETURN(SplitBehaviour behaviour, ParseBehaviour(element, place, "Isolated"));
    return MakePunctuation(behaviour);
  }
  if (type == "Sequence") return ParsePretokenizerSequence(element, place);
  return UnsupportedError(type, place);
}

Result<PostProcessor> ParsePostProcessor(const JsonElement& element, const std::string& place) {
  if (element.is_null()) return PostProcessor();
  PERGOLA_ASSIGN_OR_RETURN(std::string_view type, JsonString(element, "type", place));
  if (type == "TemplateProcessing") return ParseTemplate(element, place);
  if (type == "BertProcessing") {
    PERGOLA_ASSIGN_OR_RETURN(TokenId cls, ParseTokenPair(element, "cls", place));
    PERGOLA_ASSIGN_OR_RETURN(TokenId sep, ParseTokenPair(element, "sep", place));
    return PostProcessor::Bert(cls, sep);
  }
  if (type == "RobertaProcessing") return ParseRoberta(element, place);
  if (type == "ByteLevel") return ParseByteLevelProcessor(element, place);
  if (type == "Sequence") return ParseProcessorSequence(element, place);
  return UnsupportedError(type, place);
}

Result<std::unique_ptr<Decoder>> ParseDecoder(const JsonElement& element,
                                              const std::string& place) {
  if (element.is_null()) return std::unique_ptr<Decoder>();
  PERGOLA_ASSIGN_OR_RETURN(std::string_view type, JsonString(element, "type", place));
  if (type == "WordPiece") {
    PERGOLA_ASSIGN_OR_RETURN(std::string_view prefix, JsonString(element, "prefix", place, "##"));
    PERGOLA_ASSIGN_OR_RETURN(bool cleanup, JsonBool(element, "cleanup", place, true));
    return MakeWordPieceDecoder(std::string(prefix), cleanup);
  }
  if (type == "Replace") {
    PERGOLA_ASSIGN_OR_RETURN(PatternText pattern, ParsePattern(element, place));
    PERGOLA_ASSIGN_OR_RETURN(std::string_view content, JsonString(element, "content", place));
    if (pattern.is_regex) return UnsupportedError("Regex " + pattern.text, place + ".pattern");
    return MakeReplaceDecoder(std::move(pattern.text), std::string(content));
  }
  if (type == "ByteLevel") return MakeByteLevelDecoder();
  if (type == "BPEDecoder") {
    PERGOLA_ASSIGN_OR_RETURN(std::string_view suffix, JsonString(element, "suffix", place, "</w>"));
    if (suffix.empty()) return JsonTypeError(place, "suffix", "text");
    return MakeBpeDecoder(std::string(suffix));
  }
  if (type == "Metaspace") {
    PERGOLA_ASSIGN_OR_RETURN(std::string_view mark,
                             JsonString(element, "replacement", place, "\u2581"));
    if (mark.empty()) return JsonTypeError(place, "replacement", "one character");
    PERGOLA_ASSIGN_OR_RETURN(PrependScheme scheme, ParsePrependScheme(element, place));
    return MakeMetaspaceDecoder(std::string(mark), scheme != PrependScheme::kNever);
  }
  if (type == "ByteFallback") return MakeByteFallbackDecoder();
  if (type == "Fuse") return MakeFuseDecoder();
  if (type == "Strip") {
    PERGOLA_ASSIGN_OR_RETURN(std::string_view content, JsonString(element, "content", place));
    PERGOLA_ASSIGN_OR_RETURN(int64_t start, JsonInt(element, "start", place));
    PERGOLA_ASSIGN_OR_RETURN(int64_t stop, JsonInt(element, "stop", place));
    if (content.empty() || start < 0 || stop < 0) {
      return InvalidArgumentError(place + ": Strip needs a content and counts from 0 on");
    }
    return MakeStripDecoder(std::string(content), static_cast<size_t>(start),
                            static_cast<size_t>(stop));
  }
  if (type == "Sequence") {
    PERGOLA_ASSIGN_OR_RETURN(
        auto parts, ParseList<std::unique_ptr<Decoder>>(element, "decoders", place, ParseDecoder));
    return MakeDecoderSequence(std::move(parts));
  }
  return UnsupportedError(type, place);
}

Result<std::string> ParseCharsmap(const JsonElement& element, const std::string& place) {
  PERGOLA_ASSIGN_OR_RETURN(std::string_view base64,
                           JsonString(element, "precompiled_charsmap", place));
  std::string charsmap;
  if (!DecodeBase64(base64, &charsmap)) {
    return JsonTypeError(place, "precompiled_charsmap", "base64");
  }
  return charsmap;
}

Result<AddedToken> ParseAddedToken(const JsonElement& element, const std::string& place) {
  AddedToken token;
  PERGOLA_ASSIGN_OR_RETURN(std::string_view content, JsonString(element, "content", place));
  token.content = content;
  PERGOLA_ASSIGN_OR_RETURN(token.single_word, JsonBool(element, "single_word", place, false));
  PERGOLA_ASSIGN_OR_RETURN(token.lstrip, JsonBool(element, "lstrip", place, false));
  PERGOLA_ASSIGN_OR_RETURN(token.rstrip, JsonBool(element, "rstrip", place, false));
  PERGOLA_ASSIGN_OR_RETURN(token.normalized, JsonBool(element, "normalized", place, true));
  PERGOLA_ASSIGN_OR_RETURN(token.special, JsonBool(element, "special", place, false));
  return token;
}

}  // namespace pergola::tokenizers
