// What dialects read of an answer: rows in a format, scores, classes, lexical weights.
#include <algorithm>
#include <bit>
#include <limits>

#include "gateway/dialect.h"
#include "gateway/json_writer.h"
#include "gateway/routes.h"
#include "service/scores.h"

namespace pergola::gateway {
namespace {

using service::NumberType;

std::vector<float>& Scratch(size_t width) {
  thread_local std::vector<float> scratch;
  scratch.resize(width);
  return scratch;
}

// The bytes of `row` in a type other than float32; binary's are two's complement.
std::vector<uint8_t> PackedBytes(std::span<const float> row, NumberType type,
                                 service::Int8Rule int8_rule) {
  if (type == NumberType::kInt8 || type == NumberType::kUint8) {
    std::vector<int8_t> signed_values(row.size());
    service::FormatInt8(row, int8_rule, signed_values);
    std::vector<uint8_t> bytes(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      bytes[i] = static_cast<uint8_t>(signed_values[i]);
      if (type == NumberType::kUint8) bytes[i] = static_cast<uint8_t>(bytes[i] + 128);
    }
    return bytes;
  }
  std::vector<uint8_t> bytes(row.size() / 8);
  service::FormatBits(
      row,
      type == NumberType::kBinaryLsb ? service::BitOrder::kLsbFirst : service::BitOrder::kMsbFirst,
      bytes);
  if (type == NumberType::kBinary) {
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(byte - 128);
  }
  return bytes;
}

void AppendFloat32Base64(std::span<const float> row, std::string* out) {
  static_assert(std::endian::native == std::endian::little);
  AppendJsonBase64({reinterpret_cast<const uint8_t*>(row.data()), row.size_bytes()}, out);
}

}  // namespace

TokenSpan EmbedAnswer::token_rows(size_t sequence) const {
  const auto end = static_cast<int32_t>(rows(sequence).rows);
  if (kind != OutputKind::kMultiVector) return {0, end};
  return {std::min(static_cast<int32_t>(served->info.multi_vector_begin), end), end};
}

void EmbedAnswer::AppendRow(size_t index, const NumberFormat& format, std::string* out) const {
  if (rendered != nullptr && format.type == NumberType::kFloat && !format.base64) {
    out->append((*rendered)[index]);
    return;
  }
  const Place place = embeddings[index];
  const service::Rows& source = rows(place.sequence);
  const service::Int8Rule int8_rule = served->info.int8_rule;
  const bool is_int8 = format.type == NumberType::kInt8 || format.type == NumberType::kUint8;
  const bool unit = normalise && !(is_int8 && int8_rule == service::Int8Rule::kTanh);
  std::vector<float>& row = Scratch(static_cast<size_t>(width));
  service::FormatFloats({source.row(place.row), static_cast<size_t>(source.width)}, unit, row);
  if (format.type == NumberType::kFloat) {
    if (format.base64) {
      AppendFloat32Base64(row, out);
    } else {
      AppendJsonFloats(row, out);
    }
    return;
  }
  const std::vector<uint8_t> bytes = PackedBytes(row, format.type, int8_rule);
  const bool is_signed = format.type == NumberType::kInt8 || format.type == NumberType::kBinary;
  if (format.base64) {
    AppendJsonBase64(bytes, out);
  } else if (is_signed) {
    AppendJsonInt8s({reinterpret_cast<const int8_t*>(bytes.data()), bytes.size()}, out);
  } else {
    AppendJsonUint8s(bytes, out);
  }
}

void EmbedAnswer::AppendTokenRow(size_t sequence, int64_t token, std::string* out) const {
  const service::Rows& source = rows(sequence);
  const std::span<const float> row(source.row(token), static_cast<size_t>(source.width));
  if (kind != OutputKind::kMultiVector) return AppendJsonFloats(row, out);
  std::vector<float>& unit = Scratch(row.size());
  service::FormatFloats(row, /*normalise=*/true, unit);
  AppendJsonFloats(unit, out);
}

double EmbedAnswer::Score(size_t index) const {
  const auto [first, second] = call.pairs[index];
  switch (scoring) {
    case Scoring::kMaxSim:
      return service::MaxSim(rows(first), rows(second), served->info.multi_vector_begin,
                             call.raw_scores);
    case Scoring::kCosine: {
      const auto size = static_cast<size_t>(width);
      return service::Cosine({rows(first).row(0), size}, {rows(second).row(0), size});
    }
    case Scoring::kClassifier:
      break;
  }
  return service::LabelScores(rows(index).values, false, call.raw_scores)[0];
}

std::vector<ScoredPair> EmbedAnswer::Ranking() const {
  std::vector<ScoredPair> ranking;
  for (size_t index = 0; index < call.pairs.size(); ++index) {
    ranking.push_back({index, Score(index)});
  }
  std::stable_sort(ranking.begin(), ranking.end(),
                   [](const ScoredPair& a, const ScoredPair& b) { return a.score > b.score; });
  const auto most = static_cast<uint64_t>(call.top_n.value_or(std::numeric_limits<int64_t>::max()));
  if (ranking.size() > most) ranking.resize(most);
  return ranking;
}

std::vector<ScoredLabel> EmbedAnswer::Labels(size_t index) const {
  const service::ModelInfo& info = served->info;
  const std::vector<double> scores =
      service::LabelScores(rows(index).values, info.multi_label, call.raw_scores);
  std::vector<ScoredLabel> labels;
  for (size_t column = 0; column < scores.size(); ++column) {
    labels.push_back({info.labels[column], scores[column]});
  }
  std::stable_sort(labels.begin(), labels.end(),
                   [](const ScoredLabel& a, const ScoredLabel& b) { return a.score > b.score; });
  return labels;
}

std::vector<text::SparseWeight> EmbedAnswer::Sparse(size_t sequence) const {
  return text::FoldSparse(ids[sequence], rows(sequence).values, served->text->tokenizer());
}

}  // namespace pergola::gateway
