#include "gateway/dialect.h"

#include <limits>

namespace pergola::gateway {
namespace {

using service::NumberType;

std::string Place(std::string_view field, size_t index) {
  return std::string(field) + "[" + std::to_string(index) + "]";
}

Failure WrongKind(std::string_view field, const std::string& place, JsonKind got,
                  std::string_view wanted) {
  return Failure::Invalid(field, place + " is " + std::string(JsonKindName(got)) + ", it must be " +
                                     std::string(wanted));
}

MaybeFailure CheckCount(std::string_view field, size_t count, const ParseLimits& limits) {
  if (count == 0) {
    Failure failure = Failure::Invalid(field, std::string(field) + " is an empty list");
    failure.empty = true;
    return failure;
  }
  if (count > static_cast<size_t>(limits.max_batch_inputs)) {
    return Failure::Invalid(field, std::string(field) + " has " + std::to_string(count) +
                                       " inputs, the limit is " +
                                       std::to_string(limits.max_batch_inputs));
  }
  return std::nullopt;
}

MaybeFailure ReadIds(const JsonValue& list, std::string_view field, const std::string& place,
                     std::vector<int32_t>* ids) {
  MaybeFailure failure;
  ids->reserve(list.size());
  list.EachItem([&](size_t index, JsonValue item) {
    if (!item.is(JsonKind::kInteger)) {
      failure =
          WrongKind(field, Place(place, index), item.kind(), "a token id like those before it");
      return false;
    }
    const int64_t id = item.integer();
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      failure = Failure::Invalid(field, Place(place, index) + " is " + std::to_string(id) +
                                            ", which is outside the vocabulary");
      return false;
    }
    ids->push_back(static_cast<int32_t>(id));
    return true;
  });
  return failure;
}

MaybeFailure ReadIdLists(const JsonValue& list, std::string_view field, Inputs* inputs) {
  MaybeFailure failure;
  list.EachItem([&](size_t index, JsonValue item) {
    const std::string place = Place(field, index);
    if (!item.is(JsonKind::kArray)) {
      failure = WrongKind(field, place, item.kind(), "a list of token ids like those before it");
    } else if (item.size() == 0) {
      failure = Failure::Invalid(field, place + " is an empty list of token ids");
    } else {
      failure = ReadIds(item, field, place, &inputs->ids.emplace_back());
    }
    return !failure;
  });
  return failure;
}

MaybeFailure ReadTextItems(const JsonValue& list, std::string_view field,
                           std::vector<std::string>* texts) {
  MaybeFailure failure;
  texts->reserve(texts->size() + list.size());
  list.EachItem([&](size_t index, JsonValue item) {
    if (!item.is(JsonKind::kString)) {
      failure = WrongKind(field, Place(field, index), item.kind(), "a string");
      return false;
    }
    texts->emplace_back(item.string());
    return true;
  });
  return failure;
}

MaybeFailure ReadList(const JsonValue& list, std::string_view field, const ParseLimits& limits,
                      Inputs* inputs) {
  JsonKind first = JsonKind::kNull;
  list.EachItem([&](size_t, JsonValue item) {
    first = item.kind();
    return false;
  });
  if (first == JsonKind::kInteger) {
    return ReadIds(list, field, std::string(field), &inputs->ids.emplace_back());
  }
  if (MaybeFailure failure = CheckCount(field, list.size(), limits)) return failure;
  if (first == JsonKind::kArray) return ReadIdLists(list, field, inputs);
  if (first == JsonKind::kString) return ReadTextItems(list, field, &inputs->texts);
  return WrongKind(field, Place(field, 0), first, "a string, a token id or a list of token ids");
}

}  // namespace

MaybeFailure ReadInputs(const std::optional<JsonValue>& value, std::string_view field,
                        InputForms forms, const ParseLimits& limits, Inputs* inputs) {
  if (!value) return Failure::Invalid(field, std::string(field) + " is missing");
  if (value->is(JsonKind::kString) && forms != InputForms::kTextListOnly) {
    inputs->texts.emplace_back(value->string());
    return std::nullopt;
  }
  if (value->is(JsonKind::kArray) && forms != InputForms::kTextOnly) {
    if (value->size() == 0) return CheckCount(field, 0, limits);
    if (forms == InputForms::kTextsOrIds) return ReadList(*value, field, limits, inputs);
    return ReadTexts(value, field, limits, &inputs->texts);
  }
  constexpr std::string_view kWanted[] = {
      "a string, a list of strings, a list of token ids or a list of lists of token ids",
      "a list of strings", "a string"};
  return WrongKind(field, std::string(field), value->kind(), kWanted[static_cast<size_t>(forms)]);
}

MaybeFailure ReadTexts(const std::optional<JsonValue>& value, std::string_view field,
                       const ParseLimits& limits, std::vector<std::string>* texts) {
  if (!value) return Failure::Invalid(field, std::string(field) + " is missing");
  if (!value->is(JsonKind::kArray)) {
    return WrongKind(field, std::string(field), value->kind(), "a list of strings");
  }
  if (MaybeFailure failure = CheckCount(field, value->size(), limits)) return failure;
  return ReadTextItems(*value, field, texts);
}

void ReadDirection(Fields& fields, EmbedCall* call) {
  const auto direction = fields.OneOf("truncation_direction", {"right", "left", "Right", "Left"});
  if (direction && *direction % 2 == 1) call->side = tokenizers::TruncationSide::kLeft;
}

void PairFirstWithOthers(EmbedCall* call) {
  for (size_t i = 1; i < call->inputs.texts.size(); ++i) call->pairs.push_back({0, i});
}

void ReadEncodingFormat(Fields& fields, EmbedCall* call) {
  constexpr std::string_view kNames[] = {"float", "base64", "base64_int8", "base64_binary"};
  const auto choice = fields.OneOf("encoding_format", {kNames[0], kNames[1], kNames[2], kNames[3]});
  if (choice) call->formats = {*NumberFormatByName(kNames[*choice])};
}

std::optional<NumberFormat> NumberFormatByName(std::string_view name) {
  static constexpr NumberFormat kFormats[] = {
      {NumberType::kFloat, false, "float"},     {NumberType::kFloat, true, "base64"},
      {NumberType::kInt8, false, "int8"},       {NumberType::kUint8, false, "uint8"},
      {NumberType::kBinary, false, "binary"},   {NumberType::kUbinary, false, "ubinary"},
      {NumberType::kInt8, true, "base64_int8"}, {NumberType::kBinaryLsb, true, "base64_binary"},
  };
  for (const NumberFormat& format : kFormats) {
    if (format.name == name) return format;
  }
  return std::nullopt;
}

AnswerParts ListParts(std::string head, int64_t count,
                      std::function<void(int64_t, std::string*)> row, std::string tail) {
  return [head = std::move(head), count, row = std::move(row), tail = std::move(tail),
          next = int64_t{0}](std::string* out) mutable {
    if (next == 0) out->append(head);
    if (next < count) {
      if (next > 0) out->push_back(',');
      row(next, out);
    }
    if (++next < count) return true;
    out->append(tail);
    return false;
  };
}

}  // namespace pergola::gateway
