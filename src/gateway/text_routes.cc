#include "gateway/text_routes.h"

#include <utility>

#include "gateway/embed_path.h"
#include "gateway/json_writer.h"

namespace pergola::gateway {
namespace {

using tokenizers::ByteSpan;
using tokenizers::Encoding;
using tokenizers::Tokenizer;

struct Tokenized {
  std::shared_ptr<const text::TextModel> model;  // second owner: the routes
  std::vector<std::string> texts;
  std::vector<Encoding> encodings;
};

void AppendToken(const Tokenized& tokenized, size_t text, size_t index, std::string* out) {
  const Tokenizer& tokenizer = tokenized.model->tokenizer();
  const Encoding& encoding = tokenized.encodings[text];
  const bool special = encoding.special_mask[index] != 0;
  const ByteSpan span = encoding.offsets[index];
  out->append("{\"id\":");
  AppendJsonInteger(encoding.ids[index], out);
  out->append(",\"text\":");
  AppendJsonString(
      special ? tokenizer.IdToToken(encoding.ids[index])
              : std::string_view(tokenized.texts[text]).substr(span.begin, span.end - span.begin),
      out);
  out->append(special ? ",\"special\":true" : ",\"special\":false");
  if (special) {
    out->append(",\"start\":null,\"stop\":null}");
    return;
  }
  out->append(",\"start\":");
  AppendJsonInteger(static_cast<int64_t>(span.begin), out);
  out->append(",\"stop\":");
  AppendJsonInteger(static_cast<int64_t>(span.end), out);
  out->push_back('}');
}

AnswerParts RenderTokens(std::shared_ptr<const Tokenized> tokenized) {
  return [tokenized = std::move(tokenized), text = size_t{0},
          token = size_t{0}](std::string* out) mutable {
    constexpr size_t kTokensAtOnce = 256;
    if (token == 0) out->append(text == 0 ? "[[" : ",[");
    const size_t count = tokenized->encodings[text].ids.size();
    for (size_t end = std::min(count, token + kTokensAtOnce); token < end; ++token) {
      if (token > 0) out->push_back(',');
      AppendToken(*tokenized, text, token, out);
    }
    if (token < count) return true;
    out->push_back(']');
    token = 0;
    if (++text < tokenized->encodings.size()) return true;
    out->push_back(']');
    return false;
  };
}

MaybeFailure ReadDecodeIds(const std::optional<JsonValue>& value,
                           std::vector<std::vector<int32_t>>* lists) {
  if (!value || !value->is(JsonKind::kArray)) {
    return Failure::Invalid("ids", "ids must be a list of token ids or a list of such lists");
  }
  if (value->size() == 0) {
    Failure failure = Failure::Invalid("ids", "ids is an empty list");
    failure.empty = true;
    return failure;
  }
  bool nested = false;
  value->EachItem([&](size_t, JsonValue item) {
    nested = item.is(JsonKind::kArray);
    return false;
  });
  const auto read_list = [&](const JsonValue& list, const std::string& place) {
    MaybeFailure failure;
    std::vector<int32_t>& ids = lists->emplace_back();
    list.EachItem([&](size_t index, JsonValue item) {
      const std::string where = place + "[" + std::to_string(index) + "]";
      if (!item.is(JsonKind::kInteger)) {
        failure = Failure::Invalid("ids", where + " is " + std::string(JsonKindName(item.kind())) +
                                              ", it must be a token id");
      } else if (item.integer() < 0 || item.integer() > INT32_MAX) {
        failure = Failure::Invalid("ids", where + " is " + std::to_string(item.integer()) +
                                              ", which is outside the vocabulary");
      } else {
        ids.push_back(static_cast<int32_t>(item.integer()));
      }
      return !failure;
    });
    return failure;
  };
  if (!nested) return read_list(*value, "ids");
  MaybeFailure failure;
  value->EachItem([&](size_t index, JsonValue item) {
    const std::string place = "ids[" + std::to_string(index) + "]";
    failure =
        item.is(JsonKind::kArray)
            ? read_list(item, place)
            : Failure::Invalid("ids", place + " is " + std::string(JsonKindName(item.kind())) +
                                          ", it must be a list of token ids");
    return !failure;
  });
  return failure;
}

}  // namespace

MaybeFailure Tokenize(const RoutesOptions& options, const JsonValue& body, const GivenUp& given_up,
                      AnswerParts* parts) {
  Fields fields(body, {"inputs", "add_special_tokens"});
  if (fields.failure()) return fields.failure();
  tokenizers::EncodeOptions encode;
  encode.with_offsets = true;
  encode.add_special_tokens = fields.Bool("add_special_tokens").value_or(true);
  if (fields.failure()) return fields.failure();
  auto tokenized = std::make_shared<Tokenized>();
  const std::optional<JsonValue> inputs = fields.Get("inputs");
  if (inputs && inputs->is(JsonKind::kString)) {
    tokenized->texts.emplace_back(inputs->string());
  } else if (MaybeFailure failure =
                 ReadTexts(inputs, "inputs", {options.max_batch_inputs}, &tokenized->texts)) {
    return failure;
  }
  tokenized->model = options.models.front().text;
  size_t left = static_cast<size_t>(options.max_tokenize_tokens);
  for (size_t i = 0; i < tokenized->texts.size(); ++i) {
    if (MaybeFailure failure = given_up()) return failure;
    encode.max_tokens = left + 1;  // more than allowed is noticed, the rest not tokenised
    Encoding& encoding = tokenized->encodings.emplace_back();
    const Status status =
        tokenized->model->tokenizer().Encode(tokenized->texts[i], encode, &encoding);
    if (!status.ok()) return Failure{status, "inputs", "", false};
    if (encoding.ids.size() > left) {
      return Failure::Invalid("inputs", "inputs has more than " +
                                            std::to_string(options.max_tokenize_tokens) +
                                            " tokens, the limit of one request");
    }
    left -= encoding.ids.size();
  }
  *parts = RenderTokens(std::move(tokenized));
  return std::nullopt;
}

MaybeFailure Decode(const RoutesOptions& options, const JsonValue& body, std::string* answer) {
  Fields fields(body, {"ids", "skip_special_tokens"});
  if (fields.failure()) return fields.failure();
  const bool skip = fields.Bool("skip_special_tokens").value_or(true);
  if (fields.failure()) return fields.failure();
  std::vector<std::vector<int32_t>> lists;
  if (MaybeFailure failure = ReadDecodeIds(fields.Get("ids"), &lists)) return failure;
  answer->push_back('[');
  for (size_t i = 0; i < lists.size(); ++i) {
    const Result<std::string> decoded =
        options.models.front().text->tokenizer().Decode(lists[i], skip);
    if (!decoded.ok()) return Failure{decoded.status(), "ids", "", false};
    if (i > 0) answer->push_back(',');
    AppendJsonString(*decoded, answer);
  }
  answer->push_back(']');
  return std::nullopt;
}

}  // namespace pergola::gateway
