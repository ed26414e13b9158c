#include "rpc/messages.h"

#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "pergola/v1/embedding.pb.h"

namespace pergola::rpc {
namespace {

static_assert(std::endian::native == std::endian::little, "floats travel as they lie in memory");

using service::InferenceOutput;
using service::InferenceRequest;
using service::Priority;
using service::SequenceOutput;

constexpr size_t kMaxTenantBytes = 256;

v1::OutputKind EncodeKind(OutputKind kind) {
  switch (kind) {
    case OutputKind::kEmbedding:
      return v1::OUTPUT_KIND_EMBEDDING;
    case OutputKind::kTokenVectors:
      return v1::OUTPUT_KIND_TOKEN_VECTORS;
    case OutputKind::kLogits:
      return v1::OUTPUT_KIND_LOGITS;
    case OutputKind::kSparse:
      return v1::OUTPUT_KIND_SPARSE;
    case OutputKind::kMultiVector:
      return v1::OUTPUT_KIND_MULTI_VECTOR;
  }
  return v1::OUTPUT_KIND_UNSPECIFIED;
}

Result<OutputKind> DecodeKind(int number) {
  for (const OutputKind kind : kOutputKinds) {
    if (EncodeKind(kind) == number) return kind;
  }
  return InvalidArgumentError("unknown output kind " + std::to_string(number));
}

Sequence DecodeSequence(const v1::Sequence& message) {
  Sequence sequence;
  sequence.ids.assign(message.ids().begin(), message.ids().end());
  sequence.second_text = message.second_text();
  sequence.spans.reserve(static_cast<size_t>(message.spans_size()));
  for (const v1::TokenSpan& span : message.spans()) {
    sequence.spans.push_back({span.begin(), span.end()});
  }
  return sequence;
}

// Rows that an answer to `asked` must have, as Sequence::rows.
int64_t RowsOf(const v1::Sequence& asked, OutputKind kind) {
  if (IsPerToken(kind)) return asked.ids_size();
  return kind == OutputKind::kLogits || asked.spans_size() == 0 ? 1 : asked.spans_size();
}

Status DecodeRows(const v1::Rows& message, const v1::Sequence& asked, SequenceOutput* output) {
  PERGOLA_ASSIGN_OR_RETURN(const OutputKind kind, DecodeKind(message.kind()));
  constexpr int64_t kMostWide = int64_t{1} << 32;
  const int64_t width = message.width();
  const auto bytes = static_cast<int64_t>(message.values().size());
  if (message.rows() != RowsOf(asked, kind) || width < 1 || width > kMostWide ||
      bytes / static_cast<int64_t>(sizeof(float)) / width != message.rows() ||
      bytes != message.rows() * width * static_cast<int64_t>(sizeof(float))) {
    return DataLossError(std::string(OutputKindName(kind)) + ": " + std::to_string(bytes) +
                         " bytes for " + std::to_string(message.rows()) + " rows of " +
                         std::to_string(width) + " values, expected " +
                         std::to_string(RowsOf(asked, kind)) + " rows");
  }
  service::Rows& rows = (*output)[kind];
  rows.rows = message.rows();
  rows.width = width;
  rows.values.resize(static_cast<size_t>(rows.rows * rows.width));
  std::memcpy(rows.values.data(), message.values().data(), message.values().size());
  return OkStatus();
}

v1::Int8Rule EncodeInt8Rule(service::Int8Rule rule) {
  return rule == service::Int8Rule::kTanh ? v1::INT8_RULE_TANH : v1::INT8_RULE_LARGEST;
}

}  // namespace

void EncodeRequest(const InferenceRequest& request, v1::InferRequest* message) {
  message->set_model(request.model);
  message->set_tenant(request.tenant);
  message->set_priority(request.priority == Priority::kBulk ? v1::PRIORITY_BULK
                                                            : v1::PRIORITY_ONLINE);
  for (const OutputKind kind : kOutputKinds) {
    if (request.outputs.Has(kind)) message->add_outputs(EncodeKind(kind));
  }
  message->mutable_sequences()->Reserve(static_cast<int>(request.sequences.size()));
  for (const Sequence& sequence : request.sequences) {
    v1::Sequence* added = message->add_sequences();
    added->mutable_ids()->Add(sequence.ids.begin(), sequence.ids.end());
    added->set_second_text(sequence.second_text);
    for (const TokenSpan& span : sequence.spans) {
      v1::TokenSpan* added_span = added->add_spans();
      added_span->set_begin(span.begin);
      added_span->set_end(span.end);
    }
  }
}

Result<InferenceRequest> DecodeRequest(const v1::InferRequest& message) {
  InferenceRequest request;
  request.model = message.model();
  request.tenant = message.tenant();
  if (request.tenant.size() > kMaxTenantBytes) {
    return InvalidArgumentError("the tenant has " + std::to_string(request.tenant.size()) +
                                " bytes, the limit is " + std::to_string(kMaxTenantBytes));
  }
  switch (message.priority()) {
    case v1::PRIORITY_UNSPECIFIED:
    case v1::PRIORITY_ONLINE:
      request.priority = Priority::kOnline;
      break;
    case v1::PRIORITY_BULK:
      request.priority = Priority::kBulk;
      break;
    default:
      return InvalidArgumentError("unknown priority " + std::to_string(message.priority()));
  }
  if (message.outputs_size() > 0) request.outputs = {};
  for (const int number : message.outputs()) {
    PERGOLA_ASSIGN_OR_RETURN(const OutputKind kind, DecodeKind(number));
    request.outputs.Add(kind);
  }
  request.sequences.reserve(static_cast<size_t>(message.sequences_size()));
  for (const v1::Sequence& sequence : message.sequences()) {
    request.sequences.push_back(DecodeSequence(sequence));
  }
  return request;
}

void EncodeOutput(const InferenceOutput& output, v1::InferResponse* message) {
  message->set_queue_time_ns(output.queue_time.count());
  message->set_inference_time_ns(output.inference_time.count());
  message->set_cache_hits(output.cache_hits);
  message->set_rows_identity(output.rows_identity);
  message->mutable_outputs()->Reserve(static_cast<int>(output.sequences.size()));
  for (const std::shared_ptr<const SequenceOutput>& sequence : output.sequences) {
    v1::SequenceOutput* added = message->add_outputs();
    for (const OutputKind kind : kOutputKinds) {
      const service::Rows& rows = (*sequence)[kind];
      if (rows.values.empty()) continue;
      v1::Rows* added_rows = added->add_rows();
      added_rows->set_kind(EncodeKind(kind));
      added_rows->set_rows(rows.rows);
      added_rows->set_width(rows.width);
      added_rows->set_values(rows.values.data(), rows.values.size() * sizeof(float));
    }
  }
}

Result<InferenceOutput> DecodeOutput(const v1::InferRequest& asked,
                                     const v1::InferResponse& message) {
  if (message.outputs_size() != asked.sequences_size()) {
    return DataLossError("the answer has " + std::to_string(message.outputs_size()) +
                         " sequences, " + std::to_string(asked.sequences_size()) + " were asked");
  }
  InferenceOutput output;
  output.queue_time = std::chrono::nanoseconds(message.queue_time_ns());
  output.inference_time = std::chrono::nanoseconds(message.inference_time_ns());
  output.cache_hits = message.cache_hits();
  output.rows_identity = message.rows_identity();
  output.sequences.reserve(static_cast<size_t>(message.outputs_size()));
  for (int index = 0; index < message.outputs_size(); ++index) {
    auto sequence = std::make_shared<SequenceOutput>();
    for (const v1::Rows& rows : message.outputs(index).rows()) {
      const Status status = DecodeRows(rows, asked.sequences(index), sequence.get());
      if (!status.ok()) return DataLossError("the answer is damaged: " + status.message());
    }
    for (const int number : asked.outputs()) {
      PERGOLA_ASSIGN_OR_RETURN(const OutputKind kind, DecodeKind(number));
      if ((*sequence)[kind].values.empty()) {
        return DataLossError("the answer lacks the " + std::string(OutputKindName(kind)) +
                             " of sequence " + std::to_string(index));
      }
    }
    output.sequences.push_back(std::move(sequence));
  }
  return output;
}

void EncodeModel(const service::ModelInfo& info, v1::ModelInfo* message) {
  message->set_id(info.id);
  message->set_architecture(info.architecture);
  message->set_numeric_class(info.numeric_class);
  for (const OutputKind kind : kOutputKinds) {
    if (!info.has(kind)) continue;
    v1::OutputWidth* width = message->add_widths();
    width->set_kind(EncodeKind(kind));
    width->set_width(info.width(kind));
  }
  message->set_max_tokens(info.max_tokens);
  message->set_vocab_size(info.vocab_size);
  message->set_normalises(info.normalises);
  message->mutable_matryoshka_widths()->Add(info.matryoshka_widths.begin(),
                                            info.matryoshka_widths.end());
  message->set_parameters(info.parameters);
  message->set_weight_bytes(info.weight_bytes);
  message->set_quantisation(info.quantisation);
  message->set_file_sha256(info.file_sha256);
  message->set_modified_unix_seconds(info.modified_unix_seconds);
  message->set_int8_rule(EncodeInt8Rule(info.int8_rule));
  message->mutable_labels()->Add(info.labels.begin(), info.labels.end());
  message->set_pooling(info.pooling);
  message->set_multi_vector_begin(info.multi_vector_begin);
  message->set_chunk_separator(info.chunk_separator);
  message->set_multi_label(info.multi_label);
  message->set_rows_identity(info.rows_identity);
}

Result<service::ModelInfo> DecodeModel(const v1::ModelInfo& message) {
  service::ModelInfo info;
  info.id = message.id();
  info.architecture = message.architecture();
  info.numeric_class = message.numeric_class();
  for (const v1::OutputWidth& width : message.widths()) {
    const Result<OutputKind> kind = DecodeKind(width.kind());
    if (!kind.ok()) continue;  // of a newer server: nobody here asks for it
    if (width.width() < 0) return DataLossError(info.id + ": a width is negative");
    info.widths[static_cast<size_t>(*kind)] = width.width();
  }
  info.max_tokens = message.max_tokens();
  info.vocab_size = message.vocab_size();
  if (info.max_tokens < 0 || info.vocab_size < 0) {
    return DataLossError(info.id + ": a limit is negative");
  }
  info.normalises = message.normalises();
  info.matryoshka_widths.assign(message.matryoshka_widths().begin(),
                                message.matryoshka_widths().end());
  info.parameters = message.parameters();
  info.weight_bytes = message.weight_bytes();
  info.quantisation = message.quantisation();
  info.file_sha256 = message.file_sha256();
  info.modified_unix_seconds = message.modified_unix_seconds();
  info.int8_rule = message.int8_rule() == v1::INT8_RULE_TANH ? service::Int8Rule::kTanh
                                                             : service::Int8Rule::kLargest;
  info.labels.assign(message.labels().begin(), message.labels().end());
  info.pooling = message.pooling();
  info.multi_vector_begin = message.multi_vector_begin();
  info.chunk_separator = message.chunk_separator();
  info.multi_label = message.multi_label();
  info.rows_identity = message.rows_identity();
  return info;
}

}  // namespace pergola::rpc
