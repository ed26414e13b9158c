// Exact nearest rows, for judging vectors: every row is looked at.
//
//   const VectorSet texts = VectorSet::Make(width, values, Encoding::kInt8);
//   const auto nearest = NearestRows(queries, texts, 10, /*skip_same_index=*/false);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "service/embedding_format.h"

namespace pergola::eval {

// How vectors are stored in an index. Similarity is the cosine, for bits the share of equal ones.
enum class Encoding { kFloat, kInt8, kBinary };
std::string_view EncodingName(Encoding encoding);

class VectorSet {
 public:
  // `values`: rows of `width`, end to end; kBinary needs width % 8 == 0.
  static VectorSet Make(int64_t width, const std::vector<float>& values, Encoding encoding,
                        service::Int8Rule int8_rule = service::Int8Rule::kLargest);

  size_t size() const { return rows_; }
  // Both sets have the same width and encoding.
  float Similarity(size_t row, const VectorSet& other, size_t other_row) const;

 private:
  Encoding encoding_ = Encoding::kFloat;
  size_t width_ = 0;  // floats, or bytes of bits
  size_t rows_ = 0;
  std::vector<float> floats_;  // at unit length
  std::vector<uint8_t> bits_;
};

// The `count` most similar rows of `set` for each query, the best first, ties by index.
// `skip_same_index`: row i is no answer to query i (queries and set are the same texts).
std::vector<std::vector<uint32_t>> NearestRows(const VectorSet& queries, const VectorSet& set,
                                               size_t count, bool skip_same_index);

}  // namespace pergola::eval
