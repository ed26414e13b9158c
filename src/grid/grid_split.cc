#include "grid/grid_split.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/json_text.h"
#include "engine/token_choice.h"
#include "grid/answer_check.h"

namespace pergola::grid {
namespace {

template <typename T>
std::string_view BytesOf(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

int64_t GridSplit::hidden_size() const {
  const auto model = topology_.model();
  return model == nullptr ? 0 : model->hidden_size;
}

int64_t GridSplit::vocab_size() const {
  const auto model = topology_.model();
  return model == nullptr ? 0 : model->vocab_size;
}

const std::string& GridSplit::model_identity() const {
  static const std::string kNone;
  const auto model = topology_.model();
  return model == nullptr ? kNone : model->identity;  // the topology keeps it as long as it lives
}

Result<GridSplit::Answer> GridSplit::Ask(const service::SplitCall& call, FrameHeader request,
                                         std::string_view payload) const {
  const auto model = topology_.model();
  if (model == nullptr) {
    return UnavailableError("no server of the grid has " + topology_.Missing());
  }
  request.identity = ShortIdentityOf(model->identity);
  request.payload_bytes = payload.size();
  Answer answer;
  PERGOLA_RETURN_IF_ERROR(router_.Handle(
      request, std::as_bytes(std::span(payload.data(), payload.size())), &answer.frame, call));
  PERGOLA_ASSIGN_OR_RETURN(
      answer.header,
      ParseFrameHeader(std::as_bytes(std::span(answer.frame)).first(kFrameHeaderBytes)));
  return answer;
}

std::string GridSplit::StatsJson() const {
  std::string frame;
  const Status status = router_.Handle({.kind = FrameKind::kStats}, {}, &frame);
  if (!status.ok()) return "{\"error\":" + JsonString(status.message()) + "}";
  return frame.substr(kFrameHeaderBytes);
}

Status GridSplit::EmbedRows(const service::SplitCall& call, std::span<const int32_t> ids,
                            std::span<float> rows) {
  const auto width = static_cast<size_t>(std::max<int64_t>(1, hidden_size()));
  const size_t most = std::max<size_t>(1, kMaxPayloadBytes / (width * sizeof(float)));
  for (size_t first = 0; first < ids.size(); first += most) {
    const std::span<const int32_t> part = ids.subspan(first, std::min(most, ids.size() - first));
    FrameHeader request{.kind = FrameKind::kEmbed};
    request.rows = static_cast<uint32_t>(part.size());
    PERGOLA_ASSIGN_OR_RETURN(const Answer answer, Ask(call, request, BytesOf(part)));
    PERGOLA_RETURN_IF_ERROR(
        DecodeRows(answer.header, answer.payload(),
                   F32Matrix(rows.data() + first * width, static_cast<int64_t>(part.size()),
                             static_cast<int64_t>(width))));
  }
  return OkStatus();
}

Status GridSplit::ComputeLogits(const service::SplitCall& call, std::span<const float> residuals,
                                std::span<float> logits) {
  const auto width = static_cast<size_t>(std::max<int64_t>(1, hidden_size()));
  const auto vocab = static_cast<size_t>(vocab_size());
  for (size_t row = 0; row * width < residuals.size(); ++row) {
    FrameHeader request{.kind = FrameKind::kLogits, .type = PayloadType::kF32};
    request.rows = 1;
    request.width = static_cast<uint32_t>(width);
    PERGOLA_ASSIGN_OR_RETURN(const Answer answer,
                             Ask(call, request, BytesOf(residuals.subspan(row * width, width))));
    PERGOLA_RETURN_IF_ERROR(
        DecodeRows(answer.header, answer.payload(),
                   F32Matrix(logits.data() + row * vocab, 1, static_cast<int64_t>(vocab))));
  }
  return OkStatus();
}

// A `top` frame has the sum at temperature 1; at another one all logits are needed.
Result<engine::TopTokens> GridSplit::TopOfRow(const service::SplitCall& call,
                                              std::span<const float> residual, int64_t count,
                                              float temperature) {
  if (temperature > 0 && temperature != 1) {
    std::vector<float> logits(static_cast<size_t>(vocab_size()));
    PERGOLA_RETURN_IF_ERROR(ComputeLogits(call, residual, logits));
    return engine::SelectTop(logits, count, temperature);
  }
  FrameHeader request{.kind = FrameKind::kTop, .type = PayloadType::kF32};
  request.argument = static_cast<uint32_t>(temperature > 0 ? count : 1);
  request.rows = 1;
  request.width = static_cast<uint32_t>(residual.size());
  PERGOLA_ASSIGN_OR_RETURN(const Answer answer, Ask(call, request, BytesOf(residual)));
  return ParseTopAnswer(answer.header, answer.payload(), vocab_size());
}

Result<std::vector<std::string>> GridSplit::DecodeEach(
    const service::SplitCall& call, const std::vector<engine::TokenScore>& tokens) const {
  std::vector<int32_t> ids;
  for (const engine::TokenScore& token : tokens) ids.push_back(token.id);
  FrameHeader request{.kind = FrameKind::kDecode};
  request.argument = kDecodeEach;
  request.rows = static_cast<uint32_t>(ids.size());
  PERGOLA_ASSIGN_OR_RETURN(const Answer answer,
                           Ask(call, request, BytesOf(std::span<const int32_t>(ids))));
  std::string_view rest = std::string_view(answer.frame).substr(kFrameHeaderBytes);
  std::vector<std::string> texts;
  while (texts.size() < ids.size()) {
    uint32_t length = 0;
    if (rest.size() < sizeof length) return DataLossError("a list of texts is cut off");
    std::memcpy(&length, rest.data(), sizeof length);
    rest.remove_prefix(sizeof length);
    if (rest.size() < length) return DataLossError("a list of texts is cut off");
    texts.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return texts;
}

Result<std::vector<std::vector<service::TokenChance>>> GridSplit::TopTokens(
    const service::SplitCall& call, std::span<const float> residuals, int64_t count,
    float temperature) {
  const auto width = static_cast<size_t>(std::max<int64_t>(1, hidden_size()));
  std::vector<std::vector<service::TokenChance>> chances;
  for (size_t at = 0; at < residuals.size(); at += width) {
    PERGOLA_ASSIGN_OR_RETURN(const engine::TopTokens top,
                             TopOfRow(call, residuals.subspan(at, width), count, temperature));
    PERGOLA_ASSIGN_OR_RETURN(std::vector<std::string> texts, DecodeEach(call, top.tokens));
    std::vector<service::TokenChance>& row = chances.emplace_back();
    for (size_t index = 0; index < top.tokens.size(); ++index) {
      row.push_back({top.tokens[index].id, std::move(texts[index]),
                     temperature > 0 ? top.Probability(index, temperature) : 1.0});
    }
  }
  return chances;
}

Result<std::vector<int32_t>> GridSplit::EncodeText(const service::SplitCall& call,
                                                   std::string_view text, bool add_special_tokens) {
  FrameHeader request{.kind = FrameKind::kEncode};
  request.argument = add_special_tokens ? kAddSpecialTokens : 0;
  PERGOLA_ASSIGN_OR_RETURN(const Answer answer, Ask(call, request, text));
  std::vector<int32_t> ids(answer.header.width);
  if (!ids.empty()) std::memcpy(ids.data(), answer.payload().data(), ids.size() * sizeof(int32_t));
  return ids;
}

Result<std::string> GridSplit::DecodeIds(const service::SplitCall& call,
                                         std::span<const int32_t> ids, bool skip_special_tokens) {
  FrameHeader request{.kind = FrameKind::kDecode};
  request.argument = skip_special_tokens ? kSkipSpecialTokens : 0;
  request.rows = static_cast<uint32_t>(ids.size());
  PERGOLA_ASSIGN_OR_RETURN(const Answer answer, Ask(call, request, BytesOf(ids)));
  return answer.frame.substr(kFrameHeaderBytes);
}

}  // namespace pergola::grid
