#include "engine/quantiser.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "core/mapped_file.h"
#include "formats/gguf_writer.h"
#include "kernels/dequantise.h"
#include "kernels/quantise.h"

namespace pergola::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTokenTable = "token_embd";
constexpr std::string_view kFileType = "general.file_type";
constexpr std::string_view kQuantisationVersion = "general.quantization_version";

// The unit whose type decides the tensor's; empty: it is copied. Matrices of layers and the table;
// norms and biases have one dimension.
std::string UnitOf(const formats::TensorInfo& tensor) {
  if (tensor.view.shape.rank != 2 || !tensor.name.ends_with(".weight")) return "";
  if (tensor.name == std::string(kTokenTable) + ".weight") return std::string(kTokenTable);
  if (!tensor.name.starts_with("blk.")) return "";
  return tensor.name.substr(0, tensor.name.find('.', 4));
}

// llama.cpp's number of a file whose matrices are mostly of one type, if it is one that we write.
std::optional<uint32_t> FileType(DType type) {
  switch (type) {
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ8_0:
      return 7;
    case DType::kBF16:
      return 32;
    case DType::kF32:
      return 0;
    default:
      return std::nullopt;
  }
}

double BytesPerElement(DType type) {
  return static_cast<double>(BlockBytes(type)) / static_cast<double>(BlockElements(type));
}

int64_t BytesOf(const Shape& shape, DType type) {
  return shape.elements() / BlockElements(type) * BlockBytes(type);
}

Result<std::vector<std::byte>> Convert(const formats::TensorInfo& tensor, DType type) {
  const TensorView& view = tensor.view;
  const int64_t row_bytes = view.cols() / BlockElements(type) * BlockBytes(type);
  std::vector<std::byte> bytes(static_cast<size_t>(view.rows() * row_bytes));
  std::vector<float> row(static_cast<size_t>(view.cols()));
  for (int64_t index = 0; index < view.rows(); ++index) {
    kernels::DequantiseRow(view.dtype, view.row(index), view.cols(), row.data());
    if (!std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); })) {
      return InvalidArgumentError("tensor '" + tensor.name + "': row " + std::to_string(index) +
                                  " has a value that is not finite");
    }
    kernels::QuantiseRow(type, row.data(), view.cols(), bytes.data() + index * row_bytes);
  }
  return bytes;
}

struct WantedTensor {
  const std::string* name;
  TensorView view;
};

// Every byte of it.
Status CheckWritten(const std::string& path, const std::vector<formats::GgufKeyValue>& key_values,
                    const std::vector<WantedTensor>& tensors) {
  PERGOLA_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  PERGOLA_ASSIGN_OR_RETURN(const auto found, formats::ReadGgufKeyValues(file.bytes()));
  for (size_t i = 0; i < std::max(found.size(), key_values.size()); ++i) {
    if (i >= found.size() || i >= key_values.size() || found[i].key != key_values[i].key ||
        found[i].type != key_values[i].type || found[i].payload != key_values[i].payload) {
      return DataLossError(path + ": key-value " + std::to_string(i) + " reads back differently");
    }
  }
  PERGOLA_ASSIGN_OR_RETURN(const auto source, formats::OpenTensorSource(path));
  if (source->tensors().size() != tensors.size()) {
    return DataLossError(path + ": read back with other tensors than written");
  }
  for (const WantedTensor& tensor : tensors) {
    PERGOLA_ASSIGN_OR_RETURN(const TensorView view, source->Get(*tensor.name, tensor.view.shape));
    if (view.dtype != tensor.view.dtype ||
        std::memcmp(view.data, tensor.view.data, static_cast<size_t>(view.bytes())) != 0) {
      return DataLossError(path + ": tensor '" + *tensor.name + "' reads back differently");
    }
  }
  return OkStatus();
}

std::string_view BytesOf(const uint32_t& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace

Result<std::unique_ptr<Quantiser>> Quantiser::Open(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(GgufContents contents, ReadGgufContents(path));
  std::unique_ptr<Quantiser> quantiser(new Quantiser(std::move(contents)));
  std::vector<std::string>& units = quantiser->units_;
  for (const formats::TensorInfo& tensor : quantiser->contents_.tensors) {
    std::string unit = UnitOf(tensor);
    if (!unit.empty() && std::find(units.begin(), units.end(), unit) == units.end()) {
      units.push_back(std::move(unit));
    }
  }
  return quantiser;
}

QuantisationPlan Quantiser::Uniform(DType type) const {
  QuantisationPlan plan;
  for (const std::string& unit : units_) {
    plan[unit] = unit == kTokenTable && type == DType::kQ4_0 ? DType::kQ8_0 : type;
  }
  return plan;
}

DType Quantiser::TypeOf(const formats::TensorInfo& tensor, const QuantisationPlan& plan) const {
  const auto wanted = plan.find(UnitOf(tensor));
  const DType own = tensor.view.dtype;
  if (wanted == plan.end() || tensor.view.cols() % BlockElements(wanted->second) != 0 ||
      BytesPerElement(own) <= BytesPerElement(wanted->second)) {
    return own;
  }
  return wanted->second;
}

std::vector<PlannedTensor> Quantiser::Describe(const QuantisationPlan& plan) const {
  std::vector<PlannedTensor> planned;
  for (const formats::TensorInfo& tensor : contents_.tensors) {
    const DType type = TypeOf(tensor, plan);
    planned.push_back({tensor.name, tensor.view.dtype, type, tensor.view.bytes(),
                       BytesOf(tensor.view.shape, type)});
  }
  return planned;
}

Status Quantiser::Write(const QuantisationPlan& plan, const std::string& path) const {
  // Bytes of our own, which stay where they are as the vector grows.
  std::vector<std::vector<std::byte>> converted;
  std::vector<WantedTensor> tensors;
  std::map<DType, int64_t> elements;
  for (const formats::TensorInfo& tensor : contents_.tensors) {
    const DType type = TypeOf(tensor, plan);
    TensorView view = tensor.view;
    if (type != view.dtype) {
      PERGOLA_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, Convert(tensor, type));
      converted.push_back(std::move(bytes));
      view.dtype = type;
      view.data = converted.back().data();
    }
    if (UnitOf(tensor).starts_with("blk.")) elements[type] += view.shape.elements();
    tensors.push_back({&tensor.name, view});
  }
  const auto most =
      std::max_element(elements.begin(), elements.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });

  // Of a file that stays mostly as it was, its own number stays.
  const std::optional<uint32_t> file_type =
      most == elements.end() ? std::nullopt : FileType(most->first);

  constexpr uint32_t kVersion = 2;
  const uint32_t file_type_value = file_type.value_or(0);
  std::vector<formats::GgufKeyValue> key_values;
  for (const formats::GgufKeyValue& each : contents_.key_values) {
    if ((each.key == kFileType && file_type) || each.key == kQuantisationVersion) continue;
    // Data are laid out anew, by 32 bytes.
    if (each.key != formats::kGgufAlignmentKey) key_values.push_back(each);
  }
  const auto uint32 = formats::GgufValueType::kUint32;
  key_values.push_back({kQuantisationVersion, uint32, BytesOf(kVersion)});
  if (file_type) key_values.push_back({kFileType, uint32, BytesOf(file_type_value)});

  formats::GgufWriter writer;
  for (const auto& [key, type, payload] : key_values) writer.SetRaw(key, type, payload);
  for (const WantedTensor& tensor : tensors) {
    PERGOLA_RETURN_IF_ERROR(writer.Add(*tensor.name, tensor.view));
  }
  const std::string fresh = path + ".unchecked";
  PERGOLA_RETURN_IF_ERROR(writer.Write(fresh));
  Status status = CheckWritten(fresh, key_values, tensors);
  if (status.ok()) status = CheckContentsKept(contents_, fresh);
  std::error_code error;
  if (status.ok()) {
    fs::rename(fresh, path, error);
    if (error) status = UnavailableError("file '" + path + "': cannot rename: " + error.message());
  }
  if (!status.ok()) fs::remove(fresh, error);
  return status;
}

}  // namespace pergola::engine
