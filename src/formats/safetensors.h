// Reads safetensors: one file, or shards listed by an index.
//
// Layout of a file:
//   1. u64, little-endian: bytes of the header, at most 100,000,000 and at most what the file holds
//   2. the header, a JSON object (spaces may follow): tensor name ->
//        {"dtype": "F32", "shape": [N, K], "data_offsets": [begin, end]}
//      and, under "__metadata__", an object of strings. Shapes are outermost first.
//   3. the data, to the end of the file. data_offsets count from its first byte; the tensors cover
//   it
//      without gap or overlap. Rows are contiguous, numbers little-endian, nothing is aligned.
//
// A sharded model is a folder with `model.safetensors.index.json`: its "weight_map" names the shard
// (a file of the same folder) of every tensor.
//
// Types F32, F16, BF16, I8 and I32; tensors of others are unsupported(). Stricter than the Python
// library in one point: a dimension of 0 is an error, since no model has use for it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "formats/tensor_source.h"

namespace pergola::formats {

// `path`: a file, or a folder with `model.safetensors` or `model.safetensors.index.json` (the
// single file wins). Errors as OpenTensorSource().
Result<std::unique_ptr<TensorSource>> OpenSafetensors(const std::string& path);

// The same from memory: `bytes` must outlive the source; `name` stands for the path in files() and
// in messages.
Result<std::unique_ptr<TensorSource>> ParseSafetensors(std::span<const std::byte> bytes,
                                                       const std::string& name);

}  // namespace pergola::formats
