// A slice: a directory with some parts of a model, so that a machine needs only what it computes.
//
//   index.json       what follows
//   embeddings.bin, lm_head.bin, norms.bin     rows of tensors, 64-byte aligned, nothing between
//   attention.gguf, ffn.gguf                   tensors of layers, readable alone
//   tokenizer.json or tokenizer.gguf, config.json   as the model has them
//
// index.json, an object (docs/formats/slice.md):
//   1. "format": "pergola-slice", "version": 3
//   2. "part", "layers": [first, last], "model", "identity", "quantisation", facts of the model
//   3. "metadata": of a GGUF model, its scalar key-values
//   4. "files": [{"name", "bytes", "sha256"}], all but index.json itself
//   5. "tensors": [{"name", "file", "offset", "bytes", "dtype", "shape"}]
//
// A slice is a TensorSource over its files: who loads a model from it reads the tensors under the
// names that the whole model has.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "formats/tensor_source.h"
#include "pergola/status.h"

namespace pergola::formats {

struct SliceFacts {
  std::string part = {};  // "embed", "head", "ffn", "attention", "client"
  int64_t first_layer = 0;
  int64_t last_layer = -1;  // first - 1: no layers
  std::string model = {};
  std::string identity = {};      // SHA-256 of the whole model, see ModelIdentity
  std::string quantisation = {};  // DTypeName of most of the whole model's products
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t num_layers = 0;
  float embed_scale = 1;
  bool lm_head_tied = false;
};

// A file of a slice that is to be: of tensors, or the bytes of another file.
struct SliceFile {
  std::string name = {};  // "ffn.gguf": GGUF; "x.bin": rows; else `copy_of` or `text`
  std::vector<const TensorInfo*> tensors = {};
  std::string copy_of = {};  // path
  std::string text = {};     // the content itself, when neither tensors nor copy_of
};

// SHA-256 over `config` (any text that stands for the configuration) and name, dtype, shape and
// SHA-256 of every tensor, in the order of names: the same for a model wherever its files lie.
// Reads every byte.
std::string ModelIdentity(std::string_view config, const TensorSource& source);

// Writes into a new directory beside `path` and renames that to `path`. ALREADY_EXISTS when `path`
// is there; UNAVAILABLE when writing fails, and nothing is left behind. `metadata`: of a GGUF
// model; arrays are left out.
Status WriteSlice(const std::string& path, const SliceFacts& facts,
                  const std::vector<SliceFile>& files,
                  const std::map<std::string, MetadataValue, std::less<>>& metadata);

// The scalar key-values and all "tokenizer." ones as a GGUF file without tensors.
std::string TokenizerGguf(const std::map<std::string, MetadataValue, std::less<>>& metadata);

// The scalar key-values as one JSON object, in the order of keys: stands for a GGUF model's
// configuration in ModelIdentity.
std::string MetadataJson(const std::map<std::string, MetadataValue, std::less<>>& metadata);

// True for a directory with an index.json of a slice.
bool IsSlice(const std::string& path);

// What the index states. Errors as OpenSlice.
Result<SliceFacts> ReadSliceFacts(const std::string& path);

// Maps the files. INVALID_ARGUMENT naming file, tensor or key that contradicts the format;
// DATA_LOSS naming a file that is missing or not as long as stated. With `verify` every byte is
// read, and DATA_LOSS names the file whose checksum is wrong.
Result<std::unique_ptr<TensorSource>> OpenSlice(const std::string& path, bool verify);

}  // namespace pergola::formats
