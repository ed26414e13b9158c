#include "grid/answer_check.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace pergola::grid {
namespace {

constexpr size_t kTokenBytes = sizeof(int32_t) + sizeof(float);

Status CheckShape(const FrameHeader& answer, int64_t rows, int64_t width) {
  if (answer.type != PayloadType::kBytes && answer.rows == rows && answer.width == width) {
    return OkStatus();
  }
  return DataLossError("the answer has " + std::to_string(answer.rows) + " rows of " +
                       std::to_string(answer.width) + " values in " +
                       std::string(PayloadTypeName(answer.type)) + ", expected " +
                       std::to_string(rows) + " of " + std::to_string(width));
}

Status CheckFinite(const FrameHeader& answer, std::span<const std::byte> payload) {
  std::vector<float> rows(uint64_t{answer.rows} * answer.width);
  const Status status =
      DecodeRows(answer, payload, F32Matrix(rows.data(), answer.rows, answer.width));
  return status.ok() ? status : DataLossError(status.message());
}

Status CheckTokens(const engine::TopTokens& top, int64_t vocab_size) {
  if (!std::isfinite(top.log_sum_exp)) return DataLossError("a list of tokens has no finite sum");
  float before = std::numeric_limits<float>::max();
  for (const engine::TokenScore& token : top.tokens) {
    if (token.id < 0 || token.id >= vocab_size) {
      return DataLossError("a list of tokens has the id " + std::to_string(token.id) +
                           ", the vocabulary has " + std::to_string(vocab_size));
    }
    if (!std::isfinite(token.logit) || token.logit > before) {
      return DataLossError("a list of tokens is not finite, best first");
    }
    before = token.logit;
  }
  return OkStatus();
}

Status CheckIds(const FrameHeader& answer, std::span<const std::byte> payload, int64_t vocab_size) {
  if (answer.type != PayloadType::kBytes ||
      payload.size() != uint64_t{answer.width} * sizeof(int32_t)) {
    return DataLossError("a list of ids has the wrong length");
  }
  for (size_t at = 0; at < payload.size(); at += sizeof(int32_t)) {
    int32_t id;
    std::memcpy(&id, payload.data() + at, sizeof id);
    if (id < 0 || id >= vocab_size) {
      return DataLossError("a list of ids has " + std::to_string(id) + ", the vocabulary has " +
                           std::to_string(vocab_size));
    }
  }
  return OkStatus();
}

}  // namespace

Result<engine::TopTokens> ParseTopAnswer(const FrameHeader& answer,
                                         std::span<const std::byte> payload, int64_t vocab_size) {
  if (answer.type != PayloadType::kBytes || answer.rows != 1 || answer.width == 0 ||
      payload.size() != sizeof(double) + uint64_t{answer.width} * kTokenBytes) {
    return DataLossError("a list of tokens has the wrong length");
  }
  engine::TopTokens top;
  std::memcpy(&top.log_sum_exp, payload.data(), sizeof(double));
  top.tokens.resize(answer.width);
  const std::byte* at = payload.data() + sizeof(double);
  for (engine::TokenScore& token : top.tokens) {
    std::memcpy(&token.id, at, sizeof(int32_t));
    std::memcpy(&token.logit, at + sizeof(int32_t), sizeof(float));
    at += kTokenBytes;
  }
  PERGOLA_RETURN_IF_ERROR(CheckTokens(top, vocab_size));
  return top;
}

Status CheckAnswer(const FrameHeader& request, const FrameHeader& answer,
                   std::span<const std::byte> payload, const ModelWidths& widths) {
  if (answer.kind != request.kind || answer.argument != request.argument) {
    return DataLossError("the answer is to another request");
  }
  if (answer.identity != request.identity) return DataLossError("the answer is of another model");
  const int64_t rows = request.rows;
  switch (request.kind) {
    case FrameKind::kFfn:
      if (answer.type != request.type)
        return DataLossError("the answer's rows are of another type");
      PERGOLA_RETURN_IF_ERROR(CheckShape(answer, rows, widths.hidden_size));
      break;
    case FrameKind::kEmbed:
      PERGOLA_RETURN_IF_ERROR(CheckShape(answer, rows, widths.hidden_size));
      break;
    case FrameKind::kLogits:
      PERGOLA_RETURN_IF_ERROR(CheckShape(answer, rows, widths.vocab_size));
      break;
    case FrameKind::kTop:
      if (answer.width != request.argument) {
        return DataLossError("the answer has " + std::to_string(answer.width) +
                             " tokens, expected " + std::to_string(request.argument));
      }
      return ParseTopAnswer(answer, payload, widths.vocab_size).status();
    case FrameKind::kEncode:
      return CheckIds(answer, payload, widths.vocab_size);
    case FrameKind::kDecode:
      if (answer.type == PayloadType::kBytes) return OkStatus();
      return DataLossError("the answer is no text");
    case FrameKind::kStats:
    case FrameKind::kError:
      return DataLossError("the answer has no rows");
  }
  return CheckFinite(answer, payload);
}

}  // namespace pergola::grid
