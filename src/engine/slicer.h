// Cuts a language model into parts for several machines (formats/slice.h).
//
//   PERGOLA_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint("gemma-3-270m.gguf"));
//   PERGOLA_ASSIGN_OR_RETURN(SlicePlan plan, PlanSlice(checkpoint, request));
//   PERGOLA_RETURN_IF_ERROR(formats::WriteSlice("out/ffn-0-8", plan.facts, plan.files, ...));
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint.h"
#include "formats/slice.h"
#include "models/ffn_stack.h"
#include "pergola/status.h"

namespace pergola::engine {

enum class ModelPart {
  kEmbed,      // embedding table, final norm, projection, tokenizer: also answers logits
  kHead,       // final norm, projection (tied: the table), tokenizer
  kFfn,        // feed-forward layers
  kAttention,  // attention and all norms of layers, tokenizer
  kClient,     // attention and the final norm
};

// "embed", "head", "ffn", "attention", "client".
std::string_view ModelPartName(ModelPart part);
std::optional<ModelPart> FindModelPart(std::string_view name);

struct SliceRequest {
  ModelPart part = ModelPart::kClient;
  std::optional<models::LayerRange> layers = {};  // kFfn; none: all
  std::string model = {};                         // what the model is called
  std::string identity = {};                      // of IdentityOf
};

struct SlicePlan {
  formats::SliceFacts facts;
  std::vector<formats::SliceFile> files;  // tensors of the checkpoint, which must outlive the plan
  std::map<std::string, formats::MetadataValue, std::less<>> metadata;
  int64_t tensor_bytes = 0;
};

// Of a slice what its index states; else computed, which reads every byte.
Result<std::string> IdentityOf(const Checkpoint& checkpoint);

// What would be written; nothing is. OUT_OF_RANGE when the model has not the layers; UNIMPLEMENTED
// for a model whose feed-forward layers have biases.
Result<SlicePlan> PlanSlice(const Checkpoint& checkpoint, const SliceRequest& request);

}  // namespace pergola::engine
