// What the tests of whole models share: reading golden floats and comparing rows with them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace pergola::engine {

// All little-endian f32 values of a file; empty when it cannot be read.
inline std::vector<float> ReadFloats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// Of two rows of `width` values, in double.
inline double Cosine(const float* a, const float* b, int64_t width) {
  double dot = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < width; ++i) {
    dot += double(a[i]) * b[i];
    aa += double(a[i]) * a[i];
    bb += double(b[i]) * b[i];
  }
  return dot / std::sqrt(aa * bb);
}

}  // namespace pergola::engine
