// tokenizer.json as a whole: see the `tokenizers` library's format. Entries not read: truncation
// and padding (the model's limits rule), version.
#include <simdjson.h>

#include <utility>

#include "core/mapped_file.h"
#include "tokenizers/json_parts.h"
#include "tokenizers/pipeline.h"
#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kPageBytes = 4096;  // or a multiple of it

// The entry `name`, or null.
JsonElement Entry(const JsonElement& root, const char* name, const JsonElement& null) {
  JsonElement element;
  return root[name].get(element) == simdjson::SUCCESS ? element : null;
}

// Whether plain ASCII words may take the short way through BERT's parts.
Status RecogniseBert(const JsonElement& normalizer, const JsonElement& pretokenizer,
                     PipelineParts* parts) {
  if (normalizer.is_null() || pretokenizer.is_null()) return OkStatus();
  PERGOLA_ASSIGN_OR_RETURN(std::string_view first, JsonString(normalizer, "type", "normalizer"));
  PERGOLA_ASSIGN_OR_RETURN(std::string_view second,
                           JsonString(pretokenizer, "type", "pre_tokenizer"));
  if (first != "BertNormalizer" || second != "BertPreTokenizer") return OkStatus();
  PERGOLA_ASSIGN_OR_RETURN(BertNormalizerOptions options,
                           ParseBertOptions(normalizer, "normalizer"));
  parts->bert_ascii = true;
  parts->bert_lowercase = options.lowercase;
  parts->bert_ideographs = options.handle_chinese_chars;
  return OkStatus();
}

Result<std::unique_ptr<Tokenizer>> Build(const JsonElement& root) {
  simdjson::dom::parser parser;
  JsonElement null;
  if (parser.parse(std::string("null")).get(null) != simdjson::SUCCESS) {
    return InternalError("the JSON parser is out of memory");
  }
  PipelineParts parts;
  const JsonElement normalizer = Entry(root, "normalizer", null);
  const JsonElement pretokenizer = Entry(root, "pre_tokenizer", null);
  PERGOLA_ASSIGN_OR_RETURN(parts.normalizer, ParseNormalizer(normalizer, "normalizer"));
  PERGOLA_ASSIGN_OR_RETURN(parts.pretokenizer, ParsePretokenizer(pretokenizer, "pre_tokenizer"));
  PERGOLA_RETURN_IF_ERROR(RecogniseBert(normalizer, pretokenizer, &parts));
  const bool byte_level = parts.pretokenizer && parts.pretokenizer->maps_bytes();
  PERGOLA_ASSIGN_OR_RETURN(parts.model,
                           ParseTokenModel(Entry(root, "model", null), "model", byte_level));
  PERGOLA_ASSIGN_OR_RETURN(
      parts.post_processor,
      ParsePostProcessor(Entry(root, "post_processor", null), "post_processor"));
  PERGOLA_ASSIGN_OR_RETURN(parts.decoder, ParseDecoder(Entry(root, "decoder", null), "decoder"));
  simdjson::dom::array added;
  if (root["added_tokens"].get(added) == simdjson::SUCCESS) {
    for (const JsonElement element : added) {
      PERGOLA_ASSIGN_OR_RETURN(
          AddedToken token,
          ParseAddedToken(element,
                          "added_tokens[" + std::to_string(parts.added_tokens.size()) + "]"));
      parts.added_tokens.push_back(std::move(token));
    }
  }
  return MakePipelineTokenizer(std::move(parts));
}

// `json` is followed by SIMDJSON_PADDING bytes that may be read.
Result<std::unique_ptr<Tokenizer>> Parse(std::string_view json) {
  simdjson::dom::parser parser;
  JsonElement root;
  simdjson::error_code error = parser.allocate(json.size(), kMaxDepth);
  if (error == simdjson::SUCCESS) {
    error = parser.parse(json.data(), json.size(), /*realloc_if_needed=*/false).get(root);
  }
  if (error != simdjson::SUCCESS) {
    return InvalidArgumentError(std::string("not valid JSON: ") + simdjson::error_message(error));
  }
  if (!root.is_object()) return InvalidArgumentError("not a JSON object");
  return Build(root);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> ParseTokenizerJson(std::string_view json) {
  return Parse(simdjson::padded_string(json));
}

Result<std::unique_ptr<Tokenizer>> LoadTokenizerJson(const std::string& path) {
  auto file = MappedFile::Open(path);
  if (!file.ok()) return file.status().WithContext("cannot read the tokenizer");
  const std::string_view json(reinterpret_cast<const char*>(file->bytes().data()),
                              file->bytes().size());
  // The rest of the last page is there and zero; where it is too short, the file is copied.
  const size_t beyond = kPageBytes - 1 - (json.size() - 1) % kPageBytes;
  auto tokenizer = beyond >= simdjson::SIMDJSON_PADDING ? Parse(json) : ParseTokenizerJson(json);
  if (!tokenizer.ok()) return tokenizer.status().WithContext(path);
  return tokenizer;
}

}  // namespace pergola::tokenizers
