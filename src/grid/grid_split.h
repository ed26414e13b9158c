// The embedding table, the projection and the tokenizer of a whole grid, for the router's HTTP:
// every call is a frame to whoever has the part.
//
//   auto split = std::make_shared<GridSplit>(topology, router);
//   SplitRoutes routes(split, ...);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "grid/router.h"
#include "grid/topology.h"
#include "service/split_service.h"

namespace pergola::grid {

// Thread-safe. Errors as Router::Handle; sizes and identity are zeros until somebody has joined.
class GridSplit : public service::SplitService {
 public:
  // Both must outlive it.
  GridSplit(const Topology& topology, Router& router) : topology_(topology), router_(router) {}

  int64_t hidden_size() const override;
  int64_t vocab_size() const override;
  const std::string& model_identity() const override;
  // What `stats` frames answer; an object with "error" alone while something is missing.
  std::string StatsJson() const override;

  Status EmbedRows(const service::SplitCall& call, std::span<const int32_t> ids,
                   std::span<float> rows) override;
  Status ComputeLogits(const service::SplitCall& call, std::span<const float> residuals,
                       std::span<float> logits) override;
  Result<std::vector<std::vector<service::TokenChance>>> TopTokens(const service::SplitCall& call,
                                                                   std::span<const float> residuals,
                                                                   int64_t count,
                                                                   float temperature) override;
  Result<std::vector<int32_t>> EncodeText(const service::SplitCall& call, std::string_view text,
                                          bool add_special_tokens) override;
  Result<std::string> DecodeIds(const service::SplitCall& call, std::span<const int32_t> ids,
                                bool skip_special_tokens) override;

 private:
  struct Answer {
    std::string frame;
    FrameHeader header;
    std::span<const std::byte> payload() const {
      return std::as_bytes(std::span(frame)).subspan(kFrameHeaderBytes);
    }
  };
  Result<Answer> Ask(const service::SplitCall& call, FrameHeader request,
                     std::string_view payload) const;
  Result<engine::TopTokens> TopOfRow(const service::SplitCall& call,
                                     std::span<const float> residual, int64_t count,
                                     float temperature);
  Result<std::vector<std::string>> DecodeEach(const service::SplitCall& call,
                                              const std::vector<engine::TokenScore>& tokens) const;

  const Topology& topology_;
  Router& router_;
};

}  // namespace pergola::grid
