#include "gateway/embed_path.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <utility>

#include "gateway/json_writer.h"

namespace pergola::gateway {
namespace {

// Unique within and across processes, as a UUID looks. Not a secret.
std::string MakeId() {
  static const uint64_t process_seed = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  static std::atomic<uint64_t> counter{0};
  const uint64_t number = counter.fetch_add(1, std::memory_order_relaxed);
  // splitmix64: a bijection of the counter, so ids of a process never repeat.
  uint64_t mixed = process_seed + (number + 1) * 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  mixed ^= mixed >> 31;
  constexpr char kHex[] = "0123456789abcdef";
  std::string id;
  for (int digit = 0; digit < 32; ++digit) {
    if (digit == 8 || digit == 12 || digit == 16 || digit == 20) id.push_back('-');
    const uint64_t half = digit < 16 ? process_seed : mixed;
    id.push_back(digit == 12 ? '4' : digit == 16 ? 'a' : kHex[half >> (60 - digit % 16 * 4) & 15]);
  }
  return id;
}

std::string JoinNumbers(const std::vector<int64_t>& numbers) {
  std::string out;
  for (const int64_t number : numbers) {
    if (!out.empty()) out.append(", ");
    out.append(std::to_string(number));
  }
  return out;
}

// Rule 5.
MaybeFailure CheckDimensions(const RoutesOptions& options, const service::ModelInfo& info,
                             const EmbedCall& call, int64_t* width) {
  *width = info.width(OutputKind::kEmbedding);
  if (!call.dimensions) return std::nullopt;
  const int64_t asked = *call.dimensions;
  if (asked < 1 || asked > info.width(OutputKind::kEmbedding)) {
    return Failure::Invalid(call.dimensions_field,
                            std::string(call.dimensions_field) + " is " + std::to_string(asked) +
                                ", it must be 1.." +
                                std::to_string(info.width(OutputKind::kEmbedding)));
  }
  const auto& declared = info.matryoshka_widths;
  if (!options.allow_any_dimensions && !declared.empty() &&
      asked != info.width(OutputKind::kEmbedding) &&
      std::find(declared.begin(), declared.end(), asked) == declared.end()) {
    return Failure::Invalid(call.dimensions_field,
                            std::string(call.dimensions_field) + " is " + std::to_string(asked) +
                                ", this model was trained for " + JoinNumbers(declared));
  }
  *width = asked;
  return std::nullopt;
}

// Rule 6, the part that needs the width.
MaybeFailure CheckFormats(const EmbedCall& call, int64_t width) {
  for (const NumberFormat& format : call.formats) {
    if (format.packs_bits() && width % 8 != 0) {
      return Failure::Invalid(
          call.format_field, std::string(call.format_field) + " '" + std::string(format.name) +
                                 "' packs 8 numbers into a byte: the dimensions must be a multiple "
                                 "of 8, not " +
                                 std::to_string(width));
    }
  }
  return std::nullopt;
}

MaybeFailure CheckMaxTokens(const ServedModel& model, const EmbedCall& call) {
  if (!call.max_tokens) return std::nullopt;
  const int64_t special =
      call.inputs.ids.empty()
          ? static_cast<int64_t>(model.text->tokenizer().num_added_tokens(false))
          : 0;
  if (*call.max_tokens > special) return std::nullopt;
  return Failure::Invalid(call.max_tokens_field,
                          std::string(call.max_tokens_field) + " is " +
                              std::to_string(*call.max_tokens) + ", it must be more than " +
                              std::to_string(special) + ", the number of special tokens");
}

MaybeFailure CheckPrompt(const ServedModel& model, const text::PrepareOptions& options) {
  constexpr size_t kLongestName = 100;  // what TextModel may echo
  if (options.prompt_name && options.prompt_name->size() > kLongestName) {
    return Failure::Invalid("prompt_name",
                            "prompt_name '" + Excerpt(*options.prompt_name) + "' is not known");
  }
  const Result<std::string> prompt = model.text->ResolvePrompt(options);
  if (prompt.ok()) return std::nullopt;
  return Failure{prompt.status(), "prompt_name", "", false};
}

text::PrepareOptions ToPrepareOptions(const ServedModel& model, const EmbedCall& call) {
  text::PrepareOptions options;
  options.prompt_name = call.prompt_name;
  options.prompt = call.prompt;
  options.role = call.role;
  options.truncate = call.truncate;
  options.side = call.side;
  if (call.max_tokens) options.max_tokens = std::min(*call.max_tokens, model.info.max_tokens);
  return options;
}

MaybeFailure Tokenise(const ServedModel& model, EmbedCall& call, const GivenUp& given_up,
                      PreparedEmbed* prepared) {
  const text::PrepareOptions options = ToPrepareOptions(model, call);
  if (MaybeFailure failure = CheckPrompt(model, options)) return failure;
  const size_t count = call.inputs.size();
  prepared->request.sequences.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (MaybeFailure failure = given_up()) return failure;
    Result<text::PreparedText> input =
        call.inputs.ids.empty() ? model.text->Prepare(call.inputs.texts[i], options)
                                : model.text->PrepareIds(std::move(call.inputs.ids[i]), options);
    if (!input.ok()) {
      const std::string place = count == 1
                                    ? std::string(call.input_field)
                                    : std::string(call.input_field) + "[" + std::to_string(i) + "]";
      return Failure{input.status().WithContext(place), std::string(call.input_field), "", false};
    }
    prepared->answer->tokens += input->sequence.tokens();
    prepared->answer->truncated += input->truncated ? 1 : 0;
    prepared->request.sequences.push_back(std::move(input->sequence));
  }
  return std::nullopt;
}

}  // namespace

MaybeFailure ResolveModel(const RoutesOptions& options, std::string_view name, bool exact,
                          const ServedModel** model) {
  *model = &options.models.front();
  const bool any = options.models.size() == 1 && !options.strict_model;
  if (!exact && (any || name.empty())) return std::nullopt;
  constexpr std::string_view kTag = ":latest";  // how Ollama's clients complete a name
  for (const ServedModel& candidate : options.models) {
    const std::string& id = candidate.info.id;
    if (name == id ||
        (name.size() == id.size() + kTag.size() && name.starts_with(id) && name.ends_with(kTag))) {
      *model = &candidate;
      return std::nullopt;
    }
  }
  return Failure{NotFoundError("model '" + Excerpt(name) + "' is not served here"), "model",
                 "model_not_found", false};
}

Failure LacksAbility(const ServedModel& model, std::string_view ability) {
  return Failure::Invalid(
      "", "the model '" + Excerpt(model.info.id) + "' does not support " + std::string(ability) +
              "; it is an embedding model: it embeds texts, gives token vectors "
              "and scores pairs by cosine (/score, /similarity)");
}

MaybeFailure PrepareEmbed(const RoutesOptions& options, EmbedCall call, const GivenUp& given_up,
                          PreparedEmbed* prepared) {
  if (MaybeFailure failure = ResolveModel(options, call.model, false, &prepared->model)) {
    return failure;
  }
  const ServedModel& model = *prepared->model;
  if (!call.ability.empty()) return LacksAbility(model, call.ability);
  prepared->answer = std::make_shared<EmbedAnswer>();
  EmbedAnswer& answer = *prepared->answer;
  if (MaybeFailure failure = CheckDimensions(options, model.info, call, &answer.width)) {
    return failure;
  }
  if (MaybeFailure failure = CheckFormats(call, answer.width)) return failure;
  if (MaybeFailure failure = CheckMaxTokens(model, call)) return failure;
  if (MaybeFailure failure = Tokenise(model, call, given_up, prepared)) return failure;
  prepared->request.model = model.info.id;
  prepared->request.outputs = {call.output};
  answer.model = call.model.empty() ? model.info.id : call.model;
  answer.id = MakeId();
  answer.normalise = call.normalise.value_or(model.info.normalises);
  answer.int8_rule = model.info.int8_rule;
  answer.call = std::move(call);
  return std::nullopt;
}

Status TakeRows(service::InferenceOutput output, EmbedAnswer* answer) {
  const OutputKind kind = answer->call.output;
  if (output.sequences.size() != answer->call.inputs.size()) {
    return InternalError("the engine answered " + std::to_string(output.sequences.size()) +
                         " rows for " + std::to_string(answer->call.inputs.size()) + " inputs");
  }
  for (const auto& sequence : output.sequences) {
    const service::Rows none;
    const service::Rows& rows = sequence == nullptr ? none : (*sequence)[kind];
    if (rows.rows < 1 || rows.width < 1 ||
        rows.values.size() != static_cast<size_t>(rows.rows * rows.width) ||
        (kind == OutputKind::kEmbedding && rows.width < answer->width)) {
      return InternalError("the engine answered rows of the wrong size");
    }
    if (!service::AllFinite(rows.values)) {
      return InternalError("the engine computed a number that is not finite");
    }
  }
  answer->outputs = std::move(output.sequences);
  answer->promise = std::move(output.promise);
  return OkStatus();
}

}  // namespace pergola::gateway
