// A model without weights for tests of the gateway: a tokenizer of words and a service whose rows
// are known from the ids. Deterministic, no threads.
//
// Tokens: [PAD] 0, [CLS] 1, [SEP] 2, then one id per word, 3 + (sum of its bytes) mod 97, "w<id>".
// Embeddings: width 8, length 5: 3 at place p and 4 at the next (cyclic), p = (sum of the ids) mod
// 8; so a unit row holds 0.6 and 0.8. Token vectors: width 2, {id, position}. Logits: column c
// holds (sum of the ids + c) mod 5 - 2. Sparse: (id mod 4) / 2. Multi-vector: {2, 0} for an even
// id, {0, 2} for an odd one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/routes.h"
#include "service/inference_service.h"
#include "text/text_model.h"
#include "tokenizers/tokenizer.h"

namespace pergola::gateway::testing {

inline constexpr int64_t kFakeVocabulary = 100;
inline constexpr int64_t kFakeMaxTokens = 16;
inline constexpr int64_t kFakeWidth = 8;

class FakeTokenizer : public tokenizers::Tokenizer {
 public:
  std::string_view kind() const override { return "wordpiece"; }

  Status Encode(std::string_view text, const tokenizers::EncodeOptions& options,
                tokenizers::Encoding* encoding) const override {
    *encoding = {};
    std::vector<std::pair<tokenizers::TokenId, tokenizers::ByteSpan>> words;
    for (size_t at = 0; at < text.size();) {
      if (IsSpace(text[at])) {
        ++at;
        continue;
      }
      size_t end = at;
      int sum = 0;
      while (end < text.size() && !IsSpace(text[end]))
        sum += static_cast<unsigned char>(text[end++]);
      words.push_back({3 + sum % 97, {at, end}});
      at = end;
    }
    const size_t added = options.add_special_tokens ? 2 : 0;
    encoding->total_tokens = words.size() + added;
    if (encoding->total_tokens > options.max_tokens) {
      encoding->truncated = true;
      const size_t keep = options.max_tokens > added ? options.max_tokens - added : 0;
      const bool left = options.side == tokenizers::TruncationSide::kLeft;
      if (left) words.erase(words.begin(), words.end() - static_cast<std::ptrdiff_t>(keep));
      words.resize(keep);
    }
    if (options.add_special_tokens) words.insert(words.begin(), {1, {0, 0}});
    if (options.add_special_tokens) words.push_back({2, {0, 0}});
    for (const auto& [id, span] : words) {
      encoding->ids.push_back(id);
      encoding->type_ids.push_back(0);
      encoding->offsets.push_back(span);
      encoding->special_mask.push_back(id < 3 ? 1 : 0);
    }
    return OkStatus();
  }

  Status EncodePair(std::string_view first, std::string_view second,
                    const tokenizers::EncodeOptions& options,
                    tokenizers::Encoding* encoding) const override {
    PERGOLA_RETURN_IF_ERROR(
        Encode(std::string(first) + " " + std::string(second), options, encoding));
    for (size_t i = 1; i < encoding->ids.size(); ++i) {
      const bool special = encoding->special_mask[i] != 0;
      encoding->type_ids[i] = special ? encoding->type_ids[i - 1]
                              : encoding->offsets[i].begin > first.size() ? 1
                                                                          : 0;
    }
    return OkStatus();
  }

  Result<std::string> Decode(std::span<const tokenizers::TokenId> ids,
                             bool skip_special_tokens) const override {
    std::string text;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= kFakeVocabulary) {
        return OutOfRangeError("ids[" + std::to_string(i) + "] is " + std::to_string(ids[i]) +
                               ", the vocabulary has " + std::to_string(kFakeVocabulary));
      }
      if (skip_special_tokens && IsSpecial(ids[i])) continue;
      if (!text.empty()) text.push_back(' ');
      text.append(IdToToken(ids[i]));
    }
    return text;
  }

  size_t vocab_size() const override { return kFakeVocabulary; }
  std::string_view IdToToken(tokenizers::TokenId id) const override {
    static const std::vector<std::string> names = [] {
      std::vector<std::string> made = {"[PAD]", "[CLS]", "[SEP]"};
      for (int64_t next = 3; next < kFakeVocabulary; ++next) {
        made.push_back("w" + std::to_string(next));
      }
      return made;
    }();
    return id >= 0 && id < kFakeVocabulary ? std::string_view(names[static_cast<size_t>(id)]) : "";
  }
  tokenizers::TokenId TokenToId(std::string_view token) const override {
    for (tokenizers::TokenId id = 0; id < kFakeVocabulary; ++id) {
      if (IdToToken(id) == token) return id;
    }
    return -1;
  }
  bool IsSpecial(tokenizers::TokenId id) const override { return id >= 0 && id < 3; }
  size_t num_added_tokens(bool) const override { return 2; }

 private:
  static bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t'; }
};

// Answers before Submit returns, unless `intercept` takes the request over.
class FakeService : public service::InferenceService {
 public:
  using Intercept = std::function<bool(service::InferenceRequest&, service::InferenceCallback&)>;

  explicit FakeService(service::ModelInfo info) : info_(std::move(info)) {}

  // Returns true when it has taken (or will take) care of the callback. Set before requests come.
  void set_intercept(Intercept intercept) { intercept_ = std::move(intercept); }
  // Set while no request is in work.
  void set_residence(const service::Residence& residence) { residence_ = residence; }

  void Submit(service::InferenceRequest request, service::InferenceCallback done) override {
    if (intercept_ && intercept_(request, done)) return;
    done(Compute(request, info_.width(OutputKind::kLogits)));
  }

  std::vector<service::ModelInfo> Models() const override { return {info_}; }
  service::Residence residence() const override { return residence_; }
  void NoteUse(std::optional<std::chrono::milliseconds> keep_alive) override {
    uses_.push_back(keep_alive);
  }
  // Of NoteUse. Read while no request is in work.
  const std::vector<std::optional<std::chrono::milliseconds>>& uses() const { return uses_; }

  static service::InferenceOutput Compute(const service::InferenceRequest& request,
                                          int64_t num_labels = 1) {
    service::InferenceOutput output;
    for (const Sequence& sequence : request.sequences) {
      auto rows = std::make_shared<service::SequenceOutput>();
      for (const OutputKind kind : kOutputKinds) {
        if (request.outputs.Has(kind)) (*rows)[kind] = RowsOf(sequence, kind, num_labels);
      }
      output.sequences.push_back(std::move(rows));
    }
    output.rows_identity = "one";
    output.queue_time = std::chrono::microseconds(1500);
    output.inference_time = std::chrono::microseconds(2500);
    return output;
  }

 private:
  static service::Rows RowsOf(const Sequence& sequence, OutputKind kind, int64_t num_labels) {
    const std::vector<int32_t>& ids = sequence.ids;
    const auto sum = [&ids](TokenSpan span) {
      return std::accumulate(ids.begin() + span.begin, ids.begin() + span.end, int64_t{0});
    };
    const TokenSpan whole{0, static_cast<int32_t>(ids.size())};
    service::Rows rows{sequence.rows(kind), 2, {}};
    if (kind == OutputKind::kEmbedding) {
      rows.width = kFakeWidth;
      rows.values.assign(static_cast<size_t>(rows.rows * kFakeWidth), 0.0f);
      for (int64_t row = 0; row < rows.rows; ++row) {
        const int64_t place =
            sum(sequence.spans.empty() ? whole : sequence.spans[static_cast<size_t>(row)]);
        rows.values[static_cast<size_t>(row * kFakeWidth + place % kFakeWidth)] = 3.0f;
        rows.values[static_cast<size_t>(row * kFakeWidth + (place + 1) % kFakeWidth)] = 4.0f;
      }
    } else if (kind == OutputKind::kLogits) {
      rows.width = num_labels;
      for (int64_t column = 0; column < num_labels; ++column) {
        rows.values.push_back(static_cast<float>((sum(whole) + column) % 5 - 2));
      }
    } else if (kind == OutputKind::kSparse) {
      rows.width = 1;
      for (const int32_t id : ids) rows.values.push_back(static_cast<float>(id % 4) / 2.0f);
    } else {
      const bool raw = kind == OutputKind::kTokenVectors;
      for (size_t i = 0; i < ids.size(); ++i) {
        const bool even = ids[i] % 2 == 0;
        rows.values.push_back(raw ? static_cast<float>(ids[i]) : even ? 2.0f : 0.0f);
        rows.values.push_back(raw ? static_cast<float>(i) : even ? 0.0f : 2.0f);
      }
    }
    return rows;
  }

  service::ModelInfo info_;
  Intercept intercept_;
  std::vector<std::optional<std::chrono::milliseconds>> uses_;
  service::Residence residence_;
};

inline service::ModelInfo FakeModelInfo(std::string id = "org/fake") {
  service::ModelInfo info;
  info.id = std::move(id);
  info.architecture = "bert";
  info.numeric_class = "f32";
  info.widths = {kFakeWidth, 2};
  info.max_tokens = kFakeMaxTokens;
  info.vocab_size = kFakeVocabulary;
  info.normalises = true;
  info.parameters = 22'700'000;
  info.weight_bytes = 90'000'000;
  info.quantisation = "F32";
  info.file_sha256 = std::string(64, 'a');
  info.modified_unix_seconds = 1'700'000'000;
  return info;
}

// A model of another ability, by name: "embedder", "late" (an embedder by mean pooling),
// "contextual" (separates chunks by token 99), "reranker", "classifier" (of three classes),
// "tagger" (its classes do not exclude each other), "hybrid" (embedding, sparse and multi-vector).
inline service::ModelInfo FakeModelInfoOf(std::string_view kind) {
  service::ModelInfo info = FakeModelInfo();
  const auto set_width = [&info](OutputKind output, int64_t width) {
    info.widths[static_cast<size_t>(output)] = width;
  };
  if (kind == "late") info.pooling = "mean";
  if (kind == "contextual") {
    info.chunk_separator = 99;
    info.int8_rule = service::Int8Rule::kTanh;
  }
  if (kind == "reranker" || kind == "classifier" || kind == "tagger") {
    set_width(OutputKind::kEmbedding, 0);
    info.labels = {"LABEL_0"};
    if (kind != "reranker") info.labels = {"no", "maybe", "yes"};
    info.multi_label = kind == "tagger";
    set_width(OutputKind::kLogits, static_cast<int64_t>(info.labels.size()));
  }
  if (kind == "hybrid") {
    set_width(OutputKind::kSparse, 1);
    set_width(OutputKind::kMultiVector, 2);
    info.multi_vector_begin = 1;
  }
  return info;
}

struct FakeModel {
  std::shared_ptr<FakeService> service;
  ServedModel served;
};

inline FakeModel MakeFakeModel(service::ModelInfo info = FakeModelInfo()) {
  text::TextModelConfig config;
  config.tokenizer = std::make_shared<FakeTokenizer>();
  config.max_tokens = info.max_tokens;
  config.vocab_size = info.vocab_size;
  config.prompts = {{"query", "find: "}, {"document", "about: "}};
  FakeModel model;
  model.service = std::make_shared<FakeService>(info);
  model.served.service = model.service;
  model.served.text = std::make_shared<text::TextModel>(std::move(config));
  model.served.info = std::move(info);
  return model;
}

}  // namespace pergola::gateway::testing
