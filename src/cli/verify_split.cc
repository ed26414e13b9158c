#include "cli/verify_split.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/json_text.h"
#include "engine/slicer.h"
#include "grid/frame.h"
#include "grid/mismatch.h"

namespace pergola::cli {
namespace {

Result<std::vector<float>> LogitsAfter(engine::Generator& generator,
                                       std::span<const int32_t> prompt) {
  generator.Truncate(0);
  PERGOLA_RETURN_IF_ERROR(generator.Feed(prompt));
  PERGOLA_ASSIGN_OR_RETURN(const std::span<const float> logits, generator.Logits());
  return std::vector<float>(logits.begin(), logits.end());
}

void SetErrors(std::span<const float> split, std::span<const float> whole, PayloadParity* parity) {
  double squares = 0;
  for (size_t id = 0; id < whole.size(); ++id) {
    const double error = std::abs(static_cast<double>(split[id]) - whole[id]);
    parity->largest_error = std::max(parity->largest_error, error);
    squares += error * error;
  }
  parity->rms_error = std::sqrt(squares / static_cast<double>(whole.size()));
}

int64_t FirstDifference(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return at == a.end() && other == b.end() ? -1 : at - a.begin();
}

std::string TokenText(const std::vector<int32_t>& ids, int64_t index,
                      const tokenizers::Tokenizer& tokenizer) {
  if (index >= static_cast<int64_t>(ids.size())) return "the end";
  const int32_t id = ids[static_cast<size_t>(index)];
  const Result<std::string> text = tokenizer.Decode(std::span(&id, 1), false);
  return text.ok() ? JsonString(*text) : std::to_string(id);
}

}  // namespace

Result<std::unique_ptr<SplitVerifier>> SplitVerifier::Open(const SplitFlags& flags,
                                                           const engine::LanguageModel& client,
                                                           const engine::LanguageModel& whole) {
  PERGOLA_ASSIGN_OR_RETURN(const std::string ours, engine::IdentityOf(client.checkpoint()));
  PERGOLA_ASSIGN_OR_RETURN(const std::string theirs, engine::IdentityOf(whole.checkpoint()));
  if (ours != theirs) {
    return grid::MismatchError(whole.checkpoint().path, "identity", theirs, "--model's", ours);
  }
  std::unique_ptr<SplitVerifier> verifier(new SplitVerifier(client, whole));
  SplitFlags each = flags;
  for (const char* payload : {"f32", "bf16", "i8"}) {
    each.payload = payload;
    PERGOLA_ASSIGN_OR_RETURN(auto parts, RemoteParts::Connect(each, client));
    verifier->splits_.push_back({payload, std::move(parts)});
    if (flags.local_ffn()) break;
  }
  return verifier;
}

Result<std::vector<PayloadParity>> SplitVerifier::Compare(std::span<const int32_t> prompt,
                                                          engine::GenerateOptions options) {
  options.sampling.temperature = 0;
  engine::Generator generator(whole_, {});
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<float> logits, LogitsAfter(generator, prompt));
  PERGOLA_ASSIGN_OR_RETURN(const engine::Generation whole, generator.Generate(prompt, options));
  std::vector<PayloadParity> parities;
  for (Split& split : splits_) {
    PERGOLA_ASSIGN_OR_RETURN(PayloadParity parity, CompareOne(split, prompt, options, logits));
    parity.whole_ids = whole.ids;
    parity.first_difference = FirstDifference(parity.ids, whole.ids);
    parities.push_back(std::move(parity));
  }
  return parities;
}

Result<PayloadParity> SplitVerifier::CompareOne(Split& split, std::span<const int32_t> prompt,
                                                const engine::GenerateOptions& options,
                                                std::span<const float> logits) {
  PayloadParity parity;
  parity.payload = split.payload;
  engine::Generator generator(client_, split.parts->ports());
  split.parts->TakeFfnTimes();  // forgets what was before
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<float> own, LogitsAfter(generator, prompt));
  if (const auto times = split.parts->TakeFfnTimes()) {
    const auto rows =
        static_cast<double>(prompt.size()) * static_cast<double>(client_.config().num_layers);
    const auto headers = static_cast<double>(times->calls) * grid::kFrameHeaderBytes;
    parity.bytes_per_row = (static_cast<double>(times->sent_bytes) - headers) / rows;
  }
  SetErrors(own, logits, &parity);
  PERGOLA_ASSIGN_OR_RETURN(engine::Generation generation, generator.Generate(prompt, options));
  parity.ids = std::move(generation.ids);
  return parity;
}

std::string ParityText(std::span<const PayloadParity> parities,
                       const tokenizers::Tokenizer& tokenizer) {
  std::string text;
  for (const PayloadParity& parity : parities) {
    char line[160];
    std::snprintf(
        line, sizeof line, "verify %-4s  %7.1f bytes a row, logits off by %.3g at most, %.3g rms: ",
        parity.payload.c_str(), parity.bytes_per_row, parity.largest_error, parity.rms_error);
    text += line;
    if (parity.same_tokens()) {
      text += "the same " + std::to_string(parity.ids.size()) + " tokens\n";
      continue;
    }
    text += "token " + std::to_string(parity.first_difference) + " is " +
            TokenText(parity.ids, parity.first_difference, tokenizer) + ", in one piece " +
            TokenText(parity.whole_ids, parity.first_difference, tokenizer) + "\n";
  }
  return text;
}

std::string ParityJson(std::span<const PayloadParity> parities) {
  std::string out = "[";
  for (const PayloadParity& parity : parities) {
    if (out.size() > 1) out += ',';
    out += "{\"payload\":" + JsonString(parity.payload) + ",\"bytes_per_row\":";
    AppendJsonFloat(static_cast<float>(parity.bytes_per_row), &out);
    out += ",\"largest_error\":";
    AppendJsonFloat(static_cast<float>(parity.largest_error), &out);
    out += ",\"rms_error\":";
    AppendJsonFloat(static_cast<float>(parity.rms_error), &out);
    out += std::string(",\"same_tokens\":") + (parity.same_tokens() ? "true" : "false") +
           ",\"first_difference\":" +
           (parity.same_tokens() ? "null" : std::to_string(parity.first_difference)) + "}";
  }
  return out + "]";
}

}  // namespace pergola::cli
