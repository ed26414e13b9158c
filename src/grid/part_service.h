// One part of a language model, answering frames: the embedding table with the projection, or some
// feed-forward layers.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto part, PartService::Load("slices/ffn-0-8", {.role = Role::kFfn}));
//   FrameServer::Start({}, [&](auto& header, auto payload, auto* answer) {
//     return part->Handle(header, payload, answer);
//   });
//
// Rows of several callers who wait at the same time go through a layer, or the projection,
// together.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint.h"
#include "grid/frame.h"
#include "kernels/select.h"
#include "models/ffn_stack.h"
#include "models/vocabulary_head.h"
#include "models/workspace.h"
#include "pergola/status.h"
#include "service/split_service.h"
#include "tokenizers/tokenizer.h"

namespace pergola::grid {

enum class Role {
  kEmbed,  // rows of the table, and logits
  kFfn,    // feed-forward layers
};

struct PartOptions {
  Role role = Role::kEmbed;
  std::optional<models::LayerRange> layers = {};  // kFfn; none: all that the files hold
  kernels::OpsOptions ops = {};
  kernels::ActivationPrecision activations = kernels::ActivationPrecision::kAuto;
};

// What a part states about itself; the client compares.
struct PartFacts {
  std::string mode;  // "embed-service", "ffn-service"
  std::string model;
  std::string identity;       // 64 hexadecimal digits
  std::string numeric_class;  // of the whole model's products
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t num_layers = 0;
  models::LayerRange layers = {0, -1};  // kFfn
  float embed_scale = 1;
};

// As a JSON object (contract of GET /v1/stats); without layers, no "layers_owned".
std::string FactsJson(const PartFacts& facts);

// Thread-safe.
class PartService : public service::SplitService {
 public:
  // `path`: a slice, or a whole model (whose identity takes reading all of it). Errors name file
  // or tensor. The projection is prepared at the first request for logits.
  static Result<std::unique_ptr<PartService>> Load(const std::string& path,
                                                   const PartOptions& options);

  const PartFacts& facts() const { return facts_; }
  // The facts, and "frames_refused".
  std::string StatsJson() const override;
  // Somebody was refused who asked for this part's frames.
  void CountRefused() { ++refused_; }

  // Of an embed part; FAILED_PRECONDITION from another.
  int64_t hidden_size() const override { return facts_.hidden_size; }
  int64_t vocab_size() const override { return facts_.vocab_size; }
  const std::string& model_identity() const override { return facts_.identity; }
  Status EmbedRows(const service::SplitCall& call, std::span<const int32_t> ids,
                   std::span<float> rows) override;
  Status ComputeLogits(const service::SplitCall& call, std::span<const float> residuals,
                       std::span<float> logits) override;
  Result<std::vector<std::vector<service::TokenChance>>> TopTokens(const service::SplitCall& call,
                                                                   std::span<const float> residuals,
                                                                   int64_t count,
                                                                   float temperature) override;
  // The tokenizer is loaded at the first call of these two or of TopTokens.
  Result<std::vector<int32_t>> EncodeText(const service::SplitCall& call, std::string_view text,
                                          bool add_special_tokens) override;
  Result<std::string> DecodeIds(const service::SplitCall& call, std::span<const int32_t> ids,
                                bool skip_special_tokens) override;

  // A FrameHandler. INVALID_ARGUMENT for ids, widths or layers that are not the part's;
  // FAILED_PRECONDITION for another identity; UNIMPLEMENTED for a kind that is another part's.
  Status Handle(const FrameHeader& request, std::span<const std::byte> payload,
                std::string* answer);

 private:
  // Rows of one caller on their way through a layer, or kProjection.
  struct Job {
    int64_t layer;
    ConstF32Matrix x;
    F32Matrix y;
    bool done = false;
  };
  static constexpr int64_t kProjection = -1;

  PartService() = default;
  Status LoadPart(const PartOptions& options);
  Status Embed(const FrameHeader& request, std::span<const std::byte> payload, FrameHeader header,
               std::string* answer);
  Status WriteRows(std::span<const int32_t> ids, float* rows, uint32_t* crc);
  size_t DecodeTableRows(std::span<const int32_t> ids, float* rows, uint32_t* crc);
  Status Ffn(const FrameHeader& request, std::span<const std::byte> payload, FrameHeader header,
             std::string* answer);
  Status Logits(const FrameHeader& request, std::span<const std::byte> payload, FrameHeader header,
                std::string* answer);
  Status Encode(std::span<const std::byte> payload, FrameHeader header, std::string* answer);
  Status Decode(std::span<const std::byte> payload, FrameHeader header, std::string* answer);
  Status PrepareHead();
  Result<const tokenizers::Tokenizer*> LoadedTokenizer();
  void RunJob(Job& job);
  void RunTogether(std::span<Job* const> jobs);
  void Compute(int64_t layer, ConstF32Matrix x, F32Matrix y);

  engine::Checkpoint checkpoint_;
  PartFacts facts_;
  ShortIdentity identity_ = {};
  std::atomic<uint64_t> refused_ = 0;
  kernels::LinearOptions linear_;
  TensorView table_;  // kEmbed
  std::optional<models::FfnStack> ffn_;

  std::mutex engine_mutex_;  // guards the next four: one computes at a time
  std::unique_ptr<kernels::Ops> ops_;
  models::Workspace workspace_;
  std::optional<models::VocabularyHead> head_;
  std::vector<float> joined_;

  std::mutex tokenizer_mutex_;  // guards the next
  std::unique_ptr<tokenizers::Tokenizer> tokenizer_;

  std::mutex queue_mutex_;  // guards the next two
  std::condition_variable changed_;
  std::vector<Job*> queue_;
  bool computing_ = false;
};

}  // namespace pergola::grid
