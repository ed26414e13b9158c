// Reads GGUF, versions 2 and 3, little-endian: one file, or a model split into several.
//
// Layout of a file:
//   1. "GGUF", u32 version, u64 number of tensors, u64 number of key-values
//   2. key-values: string key, u32 type, value. A string is u64 bytes, then the bytes; an array is
//      u32 type of its elements, u64 count, the elements, and may hold arrays.
//   3. tensors: string name, u32 rank, u64 dimensions[rank], u32 type, u64 offset
//   4. padding to the alignment: `general.alignment`, a power of two, 32 when absent
//   5. data: offsets count from here and are multiples of the alignment
//
// GGUF writes dimensions INNERMOST FIRST. This reader reverses them: a matrix that the file calls
// {K, N} has the Shape [N, K], rows of K contiguous values, as in safetensors.
//
// Types F32, F16, BF16, I8, I32, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K .. Q6_K, IQ4_NL; tensors of
// others are unsupported(). docs/formats/gguf.md has the layouts of the blocks.
//
// A split model ("name-00001-of-00003.gguf", `split.count` 3) is opened by its first file; metadata
// are those of the first, and of the others where the first has no such key.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "formats/tensor_source.h"

namespace pergola::formats {

// Errors as OpenTensorSource(); UNIMPLEMENTED for version 1 and for big-endian files. Allocates a
// small multiple of the header's real size whatever counts a hostile file claims.
Result<std::unique_ptr<TensorSource>> OpenGguf(const std::string& path);

// The same from memory: `bytes` must outlive the source; `name` stands for the path in files() and
// in messages. A file of a split model is read alone.
Result<std::unique_ptr<TensorSource>> ParseGguf(std::span<const std::byte> bytes,
                                                const std::string& name);

// Whether the bytes begin as a GGUF file does.
bool LooksLikeGguf(std::span<const std::byte> bytes);

}  // namespace pergola::formats
