// What `pergola inspect` prints about a checkpoint, as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/verify_tensors.h"
#include "formats/tensor_source.h"

namespace pergola::cli {

struct InspectedFile {
  std::string path;
  int64_t bytes = 0;
  std::string sha256;  // empty unless verified
};

struct Inspection {
  const formats::TensorSource* source = nullptr;  // must outlive the inspection
  std::vector<InspectedFile> files;               // as source->files()
  // What --verify found; nullopt without it.
  std::optional<std::vector<NonFiniteTensor>> non_finite;
  // Arrays of metadata are cut after so many values.
  size_t max_array_values = 8;
};

// Files, metadata, the table of tensors, totals per type, result of the verification; lines for
// people. Control characters and bytes that are not UTF-8 appear escaped: nothing in a file reaches
// the terminal.
std::string InspectionText(const Inspection& inspection);

// One JSON object:
//   format, files [{path, bytes, sha256?}], metadata {key: value}, tensors [{name, dtype,
//   supported, shape, file, offset, bytes}], totals {dtype: {tensors, elements, bytes}}, and with
//   --verify verify {ok, non_finite [{name, file, offset, count, first_index}]}.
// A cut array is {"count": N, "first": [...]}. Bytes that are not UTF-8 become U+FFFD. Floats have
// the fewest digits that read back as the same f32 if the value is one.
std::string InspectionJson(const Inspection& inspection);

}  // namespace pergola::cli
