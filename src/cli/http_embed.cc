#include "cli/http_embed.h"

#include <cmath>
#include <cstring>

#include "engine/token_choice.h"
#include "grid/mismatch.h"
#include "models/json_object.h"

namespace pergola::cli {
namespace {

constexpr char kBinary[] = "application/x-larql-ffn";
constexpr std::chrono::milliseconds kConnectTimeout{1000};

// `values` from the bytes of an answer.
Status CopyFinite(std::string_view bytes, const std::string& server, std::span<float> values) {
  if (bytes.size() != values.size_bytes()) {
    return DataLossError(server + ": the answer has " + std::to_string(bytes.size()) +
                         " bytes of values, expected " + std::to_string(values.size_bytes()));
  }
  std::memcpy(values.data(), bytes.data(), bytes.size());
  for (const float value : values) {
    if (!std::isfinite(value)) return DataLossError(server + ": a value is not finite");
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<HttpEmbed>> HttpEmbed::Connect(const std::string& url,
                                                      const grid::ExpectedPart& expected,
                                                      const std::string& ca_file) {
  hub::HttpOptions options;
  options.ca_file = ca_file;
  options.token = expected.key;
  options.connect_timeout = kConnectTimeout;
  options.transfer_timeout = expected.timeout;
  std::unique_ptr<HttpEmbed> embed(new HttpEmbed(url, options));
  PERGOLA_ASSIGN_OR_RETURN(const std::string_view stats, embed->session_.Get("/v1/stats"));
  PERGOLA_RETURN_IF_ERROR(embed->Compare(stats, expected));
  return embed;
}

Status HttpEmbed::Compare(std::string_view stats, const grid::ExpectedPart& expected) {
  const std::string& server = session_.base();
  PERGOLA_ASSIGN_OR_RETURN(const models::JsonObject facts,
                           models::JsonObject::Parse(stats, server + "/v1/stats"));
  const std::string identity = facts.String("identity").value_or("");
  const std::string numeric_class = facts.String("numeric_class").value_or("");
  if (identity != expected.identity) {
    return grid::MismatchError(server, "identity", identity, "this part's", expected.identity);
  }
  if (numeric_class != expected.numeric_class) {
    return grid::MismatchError(server, "numeric class", numeric_class, "this part's",
                               expected.numeric_class);
  }
  if (facts.Int("hidden_size") != expected.hidden_size) {
    return DataLossError(server + ": its width is not that of its identity");
  }
  PERGOLA_ASSIGN_OR_RETURN(const int64_t vocab, facts.RequireInt("vocab_size", 1, INT32_MAX));
  logits_.resize(static_cast<size_t>(vocab));
  return OkStatus();
}

Status HttpEmbed::Embed(std::span<const int32_t> ids, F32Matrix rows) {
  const auto count = static_cast<uint32_t>(ids.size());
  request_.assign(reinterpret_cast<const char*>(&count), sizeof count);
  request_.append(reinterpret_cast<const char*>(ids.data()), ids.size_bytes());
  PERGOLA_ASSIGN_OR_RETURN(std::string_view answer, session_.Post("/v1/embed", kBinary, request_));
  uint32_t sizes[2] = {};
  if (answer.size() >= sizeof sizes) std::memcpy(sizes, answer.data(), sizeof sizes);
  if (sizes[0] != count || sizes[1] != static_cast<uint64_t>(rows.cols)) {
    return DataLossError(session_.base() + ": the answer has " + std::to_string(sizes[0]) +
                         " rows of " + std::to_string(sizes[1]) + " values, expected " +
                         std::to_string(count) + " of " + std::to_string(rows.cols));
  }
  answer.remove_prefix(sizeof sizes);
  return CopyFinite(answer, session_.base(),
                    std::span(rows.data, static_cast<size_t>(rows.rows * rows.cols)));
}

Status HttpEmbed::Logits(ConstF32Matrix residual, std::span<float> logits) {
  const std::string_view row(reinterpret_cast<const char*>(residual.data),
                             static_cast<size_t>(residual.cols) * sizeof(float));
  PERGOLA_ASSIGN_OR_RETURN(const std::string_view answer,
                           session_.Post("/v1/logits", kBinary, row));
  return CopyFinite(answer, session_.base(), logits);
}

Result<engine::TopTokens> HttpEmbed::Top(ConstF32Matrix residual, int64_t count) {
  PERGOLA_RETURN_IF_ERROR(Logits(residual, logits_));
  return engine::SelectTop(logits_, count);
}

}  // namespace pergola::cli
