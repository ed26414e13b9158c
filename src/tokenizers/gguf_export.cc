#include "tokenizers/gguf_export.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/mapped_file.h"
#include "tokenizers/gguf_parts.h"
#include "tokenizers/json_parts.h"

namespace pergola::tokenizers {
namespace {

using simdjson::dom::array;
using Kind = TemplatePiece::Kind;

constexpr std::string_view kSpaceMark = "\u2581";
constexpr int64_t kMaxIds = 1 << 24;

std::string_view StringOf(const JsonElement& element) {
  std::string_view text;
  return element.get(text) == simdjson::SUCCESS ? text : std::string_view();
}

std::string_view Field(const JsonElement& element, const char* name) {
  JsonElement field;
  return element[name].get(field) == simdjson::SUCCESS ? StringOf(field) : std::string_view();
}

bool Flag(const JsonElement& element, const char* name) {
  bool value = false;
  return element[name].get(value) == simdjson::SUCCESS && value;
}

// The parts of root[name], sequences opened, in order.
std::vector<JsonElement> PartsOf(const JsonElement& root, const char* name, const char* list) {
  std::vector<JsonElement> open, parts;
  JsonElement element;
  if (root[name].get(element) == simdjson::SUCCESS && element.is_object()) open.push_back(element);
  while (!open.empty()) {
    element = open.back();
    open.pop_back();
    array members;
    if (Field(element, "type") != "Sequence" || element[list].get(members) != simdjson::SUCCESS) {
      parts.push_back(element);
      continue;
    }
    const std::vector<JsonElement> in_order(members.begin(), members.end());
    open.insert(open.end(), in_order.rbegin(), in_order.rend());
  }
  return parts;
}

const JsonElement* FindPart(const std::vector<JsonElement>& parts, std::string_view type) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const JsonElement& part) {
    return Field(part, "type") == type;
  });
  return found == parts.end() ? nullptr : &*found;
}

struct File {
  JsonElement root, model;
  std::vector<JsonElement> normalizers, pretokenizers;
};

// An id that no text gets keeps the name that llama.cpp's converter gives it.
void Grow(size_t size, GgufVocabularyFacts* facts) {
  for (size_t id = facts->tokens.size(); id < size; ++id) {
    facts->tokens.push_back("[PAD" + std::to_string(id) + "]");
    facts->token_type.push_back(kUnused);
  }
}

Status SetToken(std::string_view token, int64_t id, int32_t type, GgufVocabularyFacts* facts) {
  if (id < 0 || id >= kMaxIds) {
    return InvalidArgumentError("id " + std::to_string(id) + " of token '" + std::string(token) +
                                "' is outside 0 to " + std::to_string(kMaxIds));
  }
  Grow(static_cast<size_t>(id) + 1, facts);
  facts->tokens[static_cast<size_t>(id)] = token;
  facts->token_type[static_cast<size_t>(id)] = type;
  return OkStatus();
}

// Pieces of a table or, for Unigram, of an array of pairs.
Status ReadPieces(const File& file, GgufVocabularyFacts* facts) {
  simdjson::dom::object table;
  if (file.model["vocab"].get(table) == simdjson::SUCCESS) {
    for (const auto& [token, element] : table) {
      int64_t id = -1;
      if (element.get(id) != simdjson::SUCCESS) return JsonTypeError("model", "vocab", "a table");
      PERGOLA_RETURN_IF_ERROR(SetToken(token, id, kNormal, facts));
    }
    return OkStatus();
  }
  array pairs;
  if (file.model["vocab"].get(pairs) != simdjson::SUCCESS) {
    return JsonTypeError("model", "vocab", "a table or an array");
  }
  for (const JsonElement pair : pairs) {
    std::string_view piece;
    double score = 0;
    if (pair.at(0).get(piece) != simdjson::SUCCESS || pair.at(1).get(score) != simdjson::SUCCESS) {
      return JsonTypeError("model", "vocab", "an array of pieces and scores");
    }
    PERGOLA_RETURN_IF_ERROR(
        SetToken(piece, static_cast<int64_t>(facts->tokens.size()), kNormal, facts));
    facts->scores.push_back(static_cast<float>(score));
  }
  return OkStatus();
}

Status ReadAdded(const File& file, GgufVocabularyFacts* facts) {
  array added;
  if (file.root["added_tokens"].get(added) != simdjson::SUCCESS) return OkStatus();
  for (const JsonElement element : added) {
    PERGOLA_ASSIGN_OR_RETURN(const AddedToken token, ParseAddedToken(element, "added_tokens"));
    PERGOLA_ASSIGN_OR_RETURN(const int64_t id, JsonInt(element, "id", "added_tokens"));
    PERGOLA_RETURN_IF_ERROR(
        SetToken(token.content, id, token.special ? kControl : kUserDefined, facts));
  }
  return OkStatus();
}

// The tokens around one text.
Status ReadTemplate(const File& file, GgufVocabularyFacts* facts) {
  JsonElement element;
  if (file.root["post_processor"].get(element) != simdjson::SUCCESS) return OkStatus();
  PERGOLA_ASSIGN_OR_RETURN(const PostProcessor processor,
                           ParsePostProcessor(element, "post_processor"));
  std::vector<TokenId>* side = &facts->before;
  for (const TemplatePiece& piece : processor.single) {
    if (piece.kind == Kind::kFirst) side = &facts->after;
    if (piece.kind == Kind::kSpecial) side->insert(side->end(), piece.ids.begin(), piece.ids.end());
  }
  if (facts->before.size() > 1 || facts->after.size() > 1) {
    return UnimplementedError("a GGUF file has one token before and one behind a text, not more");
  }
  return OkStatus();
}

// Pieces that begin a word get the mark of a space, those inside words lose their "##".
Status ReadBert(const File& file, GgufVocabularyFacts* facts) {
  const JsonElement* normalizer = FindPart(file.normalizers, "BertNormalizer");
  if (normalizer == nullptr) return UnsupportedError("none but BertNormalizer", "normalizer");
  PERGOLA_ASSIGN_OR_RETURN(const BertNormalizerOptions options,
                           ParseBertOptions(*normalizer, "normalizer"));
  facts->model = "bert";
  facts->pre = "default";
  facts->lowercase = options.lowercase;
  if (options.strip_accents != options.lowercase) facts->strip_accents = options.strip_accents;
  for (size_t id = 0; id < facts->tokens.size(); ++id) {
    std::string& token = facts->tokens[id];
    if (facts->token_type[id] == kControl) continue;
    token = token.starts_with("##") ? token.substr(2) : std::string(kSpaceMark) + token;
  }
  return OkStatus();
}

// ["a", "b"], or in older files "a b".
Result<std::vector<std::string>> ReadMerges(const File& file) {
  array merges;
  if (file.model["merges"].get(merges) != simdjson::SUCCESS) {
    return JsonTypeError("model", "merges", "an array");
  }
  std::vector<std::string> lines;
  for (const JsonElement merge : merges) {
    array pair;
    if (merge.get(pair) != simdjson::SUCCESS) {
      lines.emplace_back(StringOf(merge));
      continue;
    }
    std::string_view left, right;
    if (pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) {
      return JsonTypeError("model", "merges", "an array of pairs");
    }
    lines.push_back(std::string(left) + " " + std::string(right));
  }
  return lines;
}

Status ReadByteLevel(const File& file, GgufVocabularyFacts* facts) {
  std::vector<std::string_view> regexes;
  for (const JsonElement& part : file.pretokenizers) {
    JsonElement pattern;
    if (part["pattern"].get(pattern) == simdjson::SUCCESS) {
      regexes.push_back(Field(pattern, "Regex"));
    }
    bool use_regex = true;
    if (Field(part, "type") != "ByteLevel") continue;
    if (part["use_regex"].get(use_regex) != simdjson::SUCCESS || use_regex) {
      regexes.push_back(kGpt2Regex);
    }
  }
  const bool nfc = FindPart(file.normalizers, "NFC") != nullptr;
  const bool ignore_merges = Flag(file.model, "ignore_merges");
  const std::span<const KnownPre> known = ListKnownPres();
  const auto pre = std::find_if(known.begin(), known.end(), [&](const KnownPre& each) {
    return each.regexes == regexes && each.nfc == nfc && each.ignore_merges == ignore_merges;
  });
  if (pre == known.end()) {
    return UnimplementedError(
        "no tokenizer.ggml.pre is known for this normalizer and pre_tokenizer");
  }
  facts->model = "gpt2";
  facts->pre = pre->name;
  PERGOLA_ASSIGN_OR_RETURN(facts->merges, ReadMerges(file));
  return OkStatus();
}

bool IsByteToken(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
}

void MarkBytes(GgufVocabularyFacts* facts) {
  for (size_t id = 0; id < facts->tokens.size(); ++id) {
    if (facts->token_type[id] == kNormal && IsByteToken(facts->tokens[id])) {
      facts->token_type[id] = kByte;
    }
  }
}

// A piece's score is the rank of the merge that makes it, falling; other pieces are not merged, nor
// are their scores looked at.
Status ReadScoredBpe(const File& file, GgufVocabularyFacts* facts) {
  facts->model = "llama";
  facts->pre = "default";
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<std::string> merges, ReadMerges(file));
  std::unordered_map<std::string, float> ranks;
  for (const std::string& line : merges) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) return JsonTypeError("model", "merges", "an array of pairs");
    ranks.try_emplace(line.substr(0, space) + line.substr(space + 1),
                      -static_cast<float>(ranks.size()));
  }
  constexpr float kNeverMerged = -1000;
  for (const std::string& token : facts->tokens) {
    const auto rank = ranks.find(token);
    facts->scores.push_back(rank == ranks.end() ? kNeverMerged : rank->second);
  }
  MarkBytes(facts);
  facts->add_space_prefix = FindPart(file.normalizers, "Prepend") != nullptr;
  return OkStatus();
}

Status ReadUnigram(const File& file, GgufVocabularyFacts* facts) {
  constexpr float kNeverChosen = -10000;
  facts->model = "t5";
  facts->pre = "default";
  facts->scores.resize(facts->tokens.size(), kNeverChosen);
  if (Flag(file.model, "byte_fallback")) MarkBytes(facts);
  if (const JsonElement* map = FindPart(file.normalizers, "Precompiled")) {
    PERGOLA_ASSIGN_OR_RETURN(facts->precompiled_charsmap, ParseCharsmap(*map, "normalizer"));
  }
  const JsonElement* metaspace = FindPart(file.pretokenizers, "Metaspace");
  if (metaspace == nullptr) return UnsupportedError("none with Metaspace", "pre_tokenizer");
  PERGOLA_ASSIGN_OR_RETURN(const PrependScheme scheme,
                           ParsePrependScheme(*metaspace, "pre_tokenizer"));
  facts->add_space_prefix = scheme == PrependScheme::kAlways;
  facts->remove_extra_whitespaces = FindPart(file.pretokenizers, "WhitespaceSplit") != nullptr;
  return OkStatus();
}

// The unknown token's id; its type too, where llama.cpp has one for it.
Status ReadUnknown(const File& file, GgufVocabularyFacts* facts) {
  const std::string_view name = Field(file.model, "unk_token");
  int64_t id = -1;
  if (file.model["unk_id"].get(id) != simdjson::SUCCESS) {
    const auto found = std::find(facts->tokens.begin(), facts->tokens.end(), name);
    if (name.empty() || found == facts->tokens.end()) return OkStatus();
    id = found - facts->tokens.begin();
  }
  if (id < 0 || id >= static_cast<int64_t>(facts->tokens.size())) {
    return JsonTypeError("model", "unk_id", "an id of the vocabulary");
  }
  facts->unknown = static_cast<TokenId>(id);
  if (!facts->scores.empty()) facts->token_type[static_cast<size_t>(id)] = kUnknown;
  return OkStatus();
}

Result<GgufVocabularyFacts> Read(const File& file, size_t vocab_size) {
  GgufVocabularyFacts facts;
  PERGOLA_RETURN_IF_ERROR(ReadPieces(file, &facts));
  PERGOLA_RETURN_IF_ERROR(ReadAdded(file, &facts));
  // Tokens that the table has no rows for cannot be used.
  facts.tokens.resize(std::min(facts.tokens.size(), vocab_size));
  facts.token_type.resize(facts.tokens.size());
  Grow(vocab_size, &facts);
  const std::string_view type = Field(file.model, "type");
  if (type == "WordPiece") {
    PERGOLA_RETURN_IF_ERROR(ReadBert(file, &facts));
  } else if (type == "Unigram") {
    PERGOLA_RETURN_IF_ERROR(ReadUnigram(file, &facts));
  } else if (type == "BPE" && FindPart(file.pretokenizers, "ByteLevel") != nullptr) {
    PERGOLA_RETURN_IF_ERROR(ReadByteLevel(file, &facts));
  } else if (type == "BPE" && Flag(file.model, "byte_fallback")) {
    PERGOLA_RETURN_IF_ERROR(ReadScoredBpe(file, &facts));
  } else {
    return UnimplementedError("no kind of GGUF vocabulary is like a '" + std::string(type) +
                              "' model with these parts");
  }
  PERGOLA_RETURN_IF_ERROR(ReadUnknown(file, &facts));
  PERGOLA_RETURN_IF_ERROR(ReadTemplate(file, &facts));
  return facts;
}

Status CompareIds(const Tokenizer& original, const Tokenizer& other, const std::string& text,
                  Encoding* a, Encoding* b) {
  PERGOLA_RETURN_IF_ERROR(original.Encode(text, {}, a));
  PERGOLA_RETURN_IF_ERROR(other.Encode(text, {}, b));
  if (a->ids == b->ids) return OkStatus();
  return UnimplementedError("a GGUF file cannot hold this tokenizer: '" + text +
                            "' would get other ids than from tokenizer.json");
}

}  // namespace

Result<GgufVocabularyFacts> ReadGgufFacts(const std::string& path, size_t vocab_size) {
  auto mapping = MappedFile::Open(path);
  if (!mapping.ok()) return mapping.status().WithContext("cannot read the tokenizer");
  simdjson::dom::parser parser;
  File file;
  const auto bytes = mapping->bytes();
  const simdjson::error_code error =
      parser.parse(reinterpret_cast<const char*>(bytes.data()), bytes.size()).get(file.root);
  if (error != simdjson::SUCCESS || file.root["model"].get(file.model) != simdjson::SUCCESS) {
    return InvalidArgumentError(path + ": not a tokenizer.json");
  }
  file.normalizers = PartsOf(file.root, "normalizer", "normalizers");
  file.pretokenizers = PartsOf(file.root, "pre_tokenizer", "pretokenizers");
  auto facts = Read(file, vocab_size);
  if (!facts.ok()) return facts.status().WithContext(path);
  return facts;
}

Status CheckSameIds(const Tokenizer& original, const Tokenizer& other) {
  static constexpr std::array<std::string_view, 14> kTexts = {
      "",
      " ",
      "  leading and  doubled   spaces ",
      "tabs\tand\n\nlines\r\n  indented",
      "It's 2026-11-30, 12345.678 EUR: don't WE'LL they'Re",
      "Ünïcödé ÅNGSTRÖM \u212b e\u0301 \ufb01 \u1e9e",
      "混合漢字かなカナ 한국어 \uac00\u11a8",
      "Привет мир שלום عالم नमस्ते ไทย",
      "\U0001F468\u200d\U0001F469\u200d\U0001F467 \u2764\ufe0f 1\ufe0f\u20e3",
      "\u00a0\u2003\u3000\u200b\ufeff",
      "if (x != y) {\n\t\treturn f(a[0], \"s\\n\");\n}",
      "https://a.b/c?d=e&f=g#h user@example.org",
      "\u2581\u2581 <0x41> ##ing [MASK] <mask> </s> <bos> <|endoftext|>",
      "\x01\x7f\ufffd\uffff\U0010ffff"};
  constexpr size_t kJoined = 6;
  Encoding a, b;
  for (const std::string_view text : kTexts) {
    PERGOLA_RETURN_IF_ERROR(CompareIds(original, other, std::string(text), &a, &b));
  }
  std::array<std::string, kJoined> latest;
  for (size_t id = 0; id < std::min(original.vocab_size(), other.vocab_size()); ++id) {
    const auto token = static_cast<TokenId>(id);
    const Result<std::string> text = original.Decode({&token, 1}, false);
    if (!text.ok()) continue;  // an id without a piece
    PERGOLA_RETURN_IF_ERROR(CompareIds(original, other, *text, &a, &b));
    latest[id % kJoined] = *text;
    if (id % kJoined + 1 < kJoined) continue;
    std::string joined;
    for (const std::string& part : latest) joined += part;
    PERGOLA_RETURN_IF_ERROR(CompareIds(original, other, joined, &a, &b));
  }
  return OkStatus();
}

}  // namespace pergola::tokenizers
