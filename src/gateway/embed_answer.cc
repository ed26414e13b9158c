// What dialects read of an answer: rows in a format, scores, classes, lexical weights.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "gateway/dialect.h"
#include "gateway/json_writer.h"
#include "gateway/routes.h"

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

double Dot(const float* a, const float* b, int64_t width) {
  double sum = 0.0;
  for (int64_t i = 0; i < width; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// 0 for a zero vector.
double CosineOf(const float* a, const float* b, int64_t width) {
  const double norm = std::sqrt(Dot(a, a, width)) * std::sqrt(Dot(b, b, width));
  return norm == 0.0 ? 0.0 : Dot(a, b, width) / norm;
}

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

TokenSpan EmbedAnswer::token_rows(size_t sequence) const {
  const auto end = static_cast<int32_t>(rows(sequence).rows);
  if (kind != OutputKind::kMultiVector) return {0, end};
  return {std::min(static_cast<int32_t>(served->info.multi_vector_begin), end), end};
}

void EmbedAnswer::AppendRow(size_t index, const NumberFormat& format, std::string* out) const {
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

double EmbedAnswer::MaxSim(size_t query, size_t document) const {
  const TokenSpan query_rows = token_rows(query);
  const TokenSpan document_rows = token_rows(document);
  double sum = 0.0;
  for (int32_t i = query_rows.begin; i < query_rows.end; ++i) {
    double best = -1.0;
    for (int32_t j = document_rows.begin; j < document_rows.end; ++j) {
      best = std::max(best, CosineOf(rows(query).row(i), rows(document).row(j), rows(query).width));
    }
    sum += best;
  }
  const int32_t count = query_rows.end - query_rows.begin;
  return call.raw_scores || count == 0 ? sum : sum / count;
}

double EmbedAnswer::Score(size_t index) const {
  const auto [first, second] = call.pairs[index];
  if (scoring == Scoring::kMaxSim) return MaxSim(first, second);
  if (scoring == Scoring::kCosine) return CosineOf(rows(first).row(0), rows(second).row(0), width);
  const double logit = rows(index).row(0)[0];
  return call.raw_scores ? logit : Sigmoid(logit);
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
  const service::Rows& logits = rows(index);
  const bool exclusive = logits.width > 1 && !info.multi_label;
  const float top = *std::max_element(logits.values.begin(), logits.values.end());
  double sum = 0.0;
  for (const float logit : logits.values) sum += std::exp(static_cast<double>(logit) - top);
  std::vector<ScoredLabel> labels;
  for (size_t column = 0; column < logits.values.size(); ++column) {
    const double logit = logits.values[column];
    const double score = call.raw_scores ? logit
                         : exclusive     ? std::exp(logit - top) / sum
                                         : Sigmoid(logit);
    labels.push_back({info.labels[column], score});
  }
  std::stable_sort(labels.begin(), labels.end(),
                   [](const ScoredLabel& a, const ScoredLabel& b) { return a.score > b.score; });
  return labels;
}

std::vector<text::SparseWeight> EmbedAnswer::Sparse(size_t sequence) const {
  return text::FoldSparse(ids[sequence], rows(sequence).values, served->text->tokenizer());
}

}  // namespace pergola::gateway
