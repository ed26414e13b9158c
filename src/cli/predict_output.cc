#include "cli/predict_output.h"

#include <cstdio>

#include "core/json_text.h"

namespace pergola::cli {
namespace {

// An id that the tokenizer cannot decode (the model's table is longer) has no text.
std::string TextOf(std::span<const int32_t> ids, const tokenizers::Tokenizer& tokenizer) {
  Result<std::string> text = tokenizer.Decode(ids, /*skip_special_tokens=*/false);
  return text.ok() ? std::move(*text) : std::string();
}

std::string IdList(std::span<const int32_t> ids) {
  std::string list = "[";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) list += ',';
    list += std::to_string(ids[i]);
  }
  return list + "]";
}

}  // namespace

std::string PredictionJson(const Prediction& prediction, const tokenizers::Tokenizer& tokenizer) {
  const engine::Generation& generation = *prediction.generation;
  std::string out = "{\"ids\":" + IdList(prediction.ids) + ",\"top\":[";
  const engine::TopTokens& top = generation.next;
  for (size_t index = 0; index < top.tokens.size(); ++index) {
    const engine::TokenScore& token = top.tokens[index];
    out += index > 0 ? ",{\"token_id\":" : "{\"token_id\":";
    out += std::to_string(token.id) +
           ",\"token\":" + JsonString(TextOf(std::span(&token.id, 1), tokenizer)) + ",\"logit\":";
    AppendJsonFloat(token.logit, &out);
    out += ",\"prob\":";
    AppendJsonFloat(static_cast<float>(top.Probability(index)), &out);
    out += '}';
  }
  out += "],\"generated\":" + IdList(generation.ids) +
         ",\"text\":" + JsonString(TextOf(generation.ids, tokenizer));
  if (prediction.profile != nullptr) out += ",\"profile\":" + ProfileJson(*prediction.profile);
  if (!prediction.parities.empty()) out += ",\"verify\":" + ParityJson(prediction.parities);
  return out + "}\n";
}

std::string PredictionText(const Prediction& prediction, const tokenizers::Tokenizer& tokenizer) {
  const engine::Generation& generation = *prediction.generation;
  std::string out =
      JsonString(std::string(prediction.prompt) + TextOf(generation.ids, tokenizer)) + "\n";
  for (size_t index = 0; index < generation.next.tokens.size(); ++index) {
    const engine::TokenScore& token = generation.next.tokens[index];
    char numbers[64];
    std::snprintf(numbers, sizeof numbers, "  %6.2f %%  %8.3f  %7d  ",
                  100 * generation.next.Probability(index), static_cast<double>(token.logit),
                  token.id);
    out += numbers + JsonString(TextOf(std::span(&token.id, 1), tokenizer)) + "\n";
  }
  return out + ParityText(prediction.parities, tokenizer);
}

}  // namespace pergola::cli
