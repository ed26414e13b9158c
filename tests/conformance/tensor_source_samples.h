// One model in every form that a TensorSource can have: what the conformance suite runs on.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "formats/tensor_source.h"

namespace pergola::formats {

struct SampleTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;

  TensorView view() const { return {bytes.data(), dtype, shape}; }
};

// Every plain type, ranks 0 to 4, names with dots, spaces and other scripts; counting bytes as
// content. The last, "ids", is I32 and becomes the tensor of an unsupported type where a case asks
// for one.
const std::vector<SampleTensor>& SampleTensors();

struct SampleCase {
  std::string name;
  // Writes the sample under the (empty) folder and opens it. With `unsupported`, "ids" has a type
  // that Pergola does not compute with.
  std::function<Result<std::unique_ptr<TensorSource>>(const std::string& folder, bool unsupported)>
      open;
};

// Every implementation, and every way of opening it.
const std::vector<SampleCase>& SampleCases();

// Metadata "general.name" is this in every case.
inline constexpr char kSampleName[] = "a \"sample\" of grüße";

}  // namespace pergola::formats
