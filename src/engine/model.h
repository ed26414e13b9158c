// A checkpoint made ready to run: mapped weights, encoder, heads, tokenizer and limits.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto model, engine::Model::Load("models/all-MiniLM-L6-v2", {}));
//   engine::LocalRunner runner(*model);
//
// Not a service: one thread at a time may run it (LocalRunner), many may read its facts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/sequence.h"
#include "engine/heads.h"
#include "formats/tensor_source.h"
#include "kernels/ops.h"
#include "kernels/select.h"
#include "models/config.h"
#include "models/encoder.h"
#include "models/pipeline_config.h"
#include "pergola/status.h"
#include "tokenizers/tokenizer.h"

namespace pergola::engine {

struct ModelOptions {
  kernels::OpsOptions ops;
  // kF32: quantised weights are widened and computed in f32 (the reference mode, `--activations
  // f32`).
  kernels::ActivationPrecision activations = kernels::ActivationPrecision::kAuto;
  // What the matrices are computed in, whatever the checkpoint stores (`--weights`).
  kernels::WeightType weights = kernels::WeightType::kAsIs;
  // Folder of a LoRA adapter (engine/lora.h) to merge into the model, whatever base its own
  // configuration names; empty: none.
  std::string adapter = {};
  // Of the same files, from an earlier Load; null: it is read. Second owner: whoever has it.
  std::shared_ptr<const tokenizers::Tokenizer> tokenizer = nullptr;
  // Asked before each tensor is read: true ends the loading. Null: it is never ended.
  std::function<bool()> cancelled = nullptr;
};

// Facts for people: `doctor`, /info, /api/show.
struct ModelFacts {
  std::string architecture;
  std::string format;                 // "safetensors", "gguf"
  std::string quantisation;           // dtype of most matrices: "F32", "Q4_0"
  std::string numeric_class;          // of the encoder's products
  int64_t parameters = 0;             // elements of all tensors
  int64_t weight_bytes = 0;           // of all tensors in the files
  int64_t owned_bytes = 0;            // memory beyond the mapping
  int64_t modified_unix_seconds = 0;  // of the newest weight file
};

// Immutable after loading. Everything it hands out lives as long as it does.
class Model {
 public:
  // `path`: a directory in Hugging Face or sentence-transformers layout, one with a LoRA adapter
  // (engine/lora.h), or a `.gguf` file.
  // NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS or UNIMPLEMENTED naming file, tensor or key;
  // INVALID_ARGUMENT for an adapter of an adapter; CANCELLED by `options.cancelled`.
  static Result<std::unique_ptr<Model>> Load(const std::string& path, const ModelOptions& options);
  // Whether the files that Load wants are there and hold what their headers say: takes neither the
  // memory nor the time of loading. Errors of Load that show so early.
  static Status CheckFiles(const std::string& path, const ModelOptions& options);

  const models::ModelConfig& config() const { return config_; }
  const models::PipelineConfig& pipeline() const { return pipeline_; }
  const models::Encoder& encoder() const { return *encoder_; }
  // Null when the model does not have that output, or gives the encoder's rows as they are.
  const Head* FindHead(OutputKind kind) const;
  const std::shared_ptr<const tokenizers::Tokenizer>& tokenizer() const { return tokenizer_; }
  const ModelFacts& facts() const { return facts_; }
  // Of all that the files say about rows: names, types and bytes of all tensors, and the
  // configuration, or a GGUF file's metadata. Reads them all (some 10 GB/s once they are in
  // memory). CANCELLED when `cancelled`, asked before each tensor, says so; it may be null.
  Result<uint32_t> ContentChecksum(const std::function<bool()>& cancelled = nullptr) const;
  kernels::Ops& ops() const { return *ops_; }

  int64_t hidden_width() const { return encoder_->hidden_width(); }  // D
  // Columns of an output; 0: the model does not have it.
  int64_t width(OutputKind kind) const;

 private:
  Model() = default;
  Status LoadHeads(kernels::LinearOptions options);
  // One label per output of the classification head, "LABEL_0" and on where the file names none.
  Status NameLabels();
  void CollectFacts(const kernels::LinearOptions& options);

  std::string path_;
  std::unique_ptr<kernels::Ops> ops_;
  std::unique_ptr<formats::TensorSource> source_;
  models::ModelConfig config_;
  models::PipelineConfig pipeline_;
  std::unique_ptr<models::Encoder> encoder_;
  std::vector<Head> heads_;
  std::shared_ptr<const tokenizers::Tokenizer> tokenizer_;  // second owner: the text model above
  ModelFacts facts_;
};

}  // namespace pergola::engine
