// All that one GGUF file says, whether it lies in one or is to be made of a folder with
// safetensors.
//
//   PERGOLA_ASSIGN_OR_RETURN(GgufContents contents, ReadGgufContents("models/all-MiniLM-L6-v2"));
//   for (const auto& [key, type, payload] : contents.key_values) writer.SetRaw(key, type, payload);
//   ...
//   PERGOLA_RETURN_IF_ERROR(CheckContentsKept(contents, "all-MiniLM-L6-v2.gguf"));
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/mapped_file.h"
#include "formats/gguf_key_values.h"
#include "formats/tensor_source.h"
#include "pergola/status.h"

namespace pergola::engine {

// Movable; immutable once made.
struct GgufContents {
  std::string path;        // of the model
  bool converted = false;  // from a folder, names and metadata made here
  // Views of what follows.
  std::vector<formats::TensorInfo> tensors;
  std::vector<formats::GgufKeyValue> key_values;

  std::vector<std::unique_ptr<formats::TensorSource>> sources;
  std::deque<std::vector<std::byte>> buffers;  // tensors that are not as in the sources
  std::unique_ptr<const MappedFile> file;      // key-values of a GGUF file, or
  std::unique_ptr<const std::string> header;   // of a folder
};

// `path`: a GGUF file, or a folder with config.json, safetensors and tokenizer.json of an embedding
// or language model. Vectors of a folder (norms, biases) and its tables of positions and token
// types become F32, matrices keep their type. UNIMPLEMENTED naming what a GGUF file cannot say: an
// architecture, a tensor, a kind of tokenizer, pooling or head; for a model in several GGUF files;
// and naming a tensor whose type cannot be copied.
Result<GgufContents> ReadGgufContents(const std::string& path);

// Reads what was written to `path` as a model: its configuration, limits and prompts, and the ids
// it gives to texts of all kinds (tokenizers::CheckSameIds) must be those of the folder. OK for
// what was a GGUF file before. UNIMPLEMENTED naming the first difference.
Status CheckContentsKept(const GgufContents& contents, const std::string& path);

}  // namespace pergola::engine
