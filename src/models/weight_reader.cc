#include "models/weight_reader.h"

#include <cstring>
#include <numeric>
#include <utility>

namespace pergola::models {
namespace {

std::string FullName(const std::string& prefix, const char* part) {
  return prefix.empty() ? part : prefix + "." + part;
}

// Where the row of a head lies whose halves alternate.
int64_t InterleavedRow(int64_t row, int64_t head_width) {
  const int64_t head = row / head_width * head_width;
  const int64_t half = (row - head) / (head_width / 2);
  const int64_t k = (row - head) % (head_width / 2);
  return head + 2 * k + half;
}

}  // namespace

Result<std::vector<float>> WeightReader::Values(const std::string& name, int64_t rows,
                                                int64_t cols) {
  PERGOLA_ASSIGN_OR_RETURN(const TensorView view, source_.Get(name, Shape{rows, cols}));
  std::vector<float> values(static_cast<size_t>(rows * cols));
  std::vector<int32_t> ids(static_cast<size_t>(rows));
  std::iota(ids.begin(), ids.end(), 0);
  // Gather is the operation that widens any dtype.
  ops_.Gather(view, ids, 1.0f, /*accumulate=*/false, {values.data(), rows, cols});
  owned_bytes_ += values.size() * sizeof(float);
  return values;
}

Result<std::vector<float>> WeightReader::Vector(const std::string& name, int64_t size) {
  PERGOLA_ASSIGN_OR_RETURN(TensorView view, source_.Get(name, Shape{size}));
  if (size % BlockElements(view.dtype) != 0) {
    return InvalidArgumentError("tensor '" + name + "': " + std::to_string(size) +
                                " values are no whole number of blocks");
  }
  view.shape = Shape{1, size};
  std::vector<float> values(static_cast<size_t>(size));
  const int32_t first = 0;
  ops_.Gather(view, {&first, 1}, 1.0f, /*accumulate=*/false, {values.data(), 1, size});
  owned_bytes_ += values.size() * sizeof(float);
  return values;
}

Result<TensorView> WeightReader::Table(const std::string& name, int64_t rows, int64_t cols) {
  return source_.Get(name, Shape{rows, cols});
}

std::string WeightReader::FindPrefix(std::span<const std::string_view> prefixes,
                                     const std::string& name) const {
  for (const std::string_view prefix : prefixes) {
    if (Has(std::string(prefix) + name)) return std::string(prefix);
  }
  return "";
}

Result<LinearLayer> WeightReader::Prepare(const std::string& name, TensorView view) {
  LinearLayer layer;
  Result<std::unique_ptr<kernels::LinearWeight>> weight = ops_.PrepareLinear(view, options_);
  if (!weight.ok()) return weight.status().WithContext("tensor '" + name + "'");
  layer.weight = std::move(weight).value();
  owned_bytes_ += layer.weight->owned_bytes();
  return layer;
}

Result<LinearLayer> WeightReader::Linear(const std::string& prefix, int64_t outputs, int64_t inputs,
                                         bool with_bias) {
  return LinearPart(prefix, {0, outputs, outputs}, inputs, with_bias);
}

Result<LinearLayer> WeightReader::LinearPart(const std::string& prefix, RowRange rows,
                                             int64_t inputs, bool with_bias) {
  const std::string name = FullName(prefix, "weight");
  PERGOLA_ASSIGN_OR_RETURN(TensorView view, source_.Get(name, Shape{rows.total, inputs}));
  view.data = view.row(rows.first);
  view.shape = Shape{rows.count, inputs};
  PERGOLA_ASSIGN_OR_RETURN(LinearLayer layer, Prepare(name, view));
  if (with_bias) {
    PERGOLA_ASSIGN_OR_RETURN(layer.bias, Vector(FullName(prefix, "bias"), rows.total));
    layer.bias.erase(layer.bias.begin(), layer.bias.begin() + rows.first);
    layer.bias.resize(static_cast<size_t>(rows.count));
  }
  return layer;
}

Result<LinearLayer> WeightReader::LinearOfInterleavedHeads(const std::string& prefix,
                                                           int64_t outputs, int64_t inputs,
                                                           int64_t head_width, bool with_bias) {
  const std::string name = FullName(prefix, "weight");
  PERGOLA_ASSIGN_OR_RETURN(const TensorView view, source_.Get(name, Shape{outputs, inputs}));
  const auto row_bytes = static_cast<size_t>(view.row_bytes());
  std::vector<std::byte> rows(row_bytes * static_cast<size_t>(outputs));
  for (int64_t row = 0; row < outputs; ++row) {
    std::memcpy(rows.data() + static_cast<size_t>(row) * row_bytes,
                view.row(InterleavedRow(row, head_width)), row_bytes);
  }
  PERGOLA_ASSIGN_OR_RETURN(LinearLayer layer, PrepareOwned(name, {view, std::move(rows)}));
  if (!with_bias) return layer;
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<float> bias,
                           Vector(FullName(prefix, "bias"), outputs));
  layer.bias.resize(bias.size());
  for (int64_t row = 0; row < outputs; ++row) {
    layer.bias[static_cast<size_t>(row)] =
        bias[static_cast<size_t>(InterleavedRow(row, head_width))];
  }
  return layer;
}

Result<LinearLayer> WeightReader::ScaledLinear(const std::string& prefix, int64_t outputs,
                                               int64_t inputs, float factor) {
  if (factor == 1.0f) return Linear(prefix, outputs, inputs, /*with_bias=*/false);
  const std::string name = FullName(prefix, "weight");
  PERGOLA_ASSIGN_OR_RETURN(const TensorView table, source_.Get(name, Shape{outputs, inputs}));
  std::vector<int32_t> ids(static_cast<size_t>(outputs));
  std::iota(ids.begin(), ids.end(), 0);
  return PrepareOwned(name, GatherRows(table, ids, factor));
}

Result<LinearLayer> WeightReader::LinearOfRows(const std::string& prefix,
                                               std::span<const int32_t> ids, int64_t inputs,
                                               bool difference) {
  const std::string name = FullName(prefix, "weight");
  PERGOLA_ASSIGN_OR_RETURN(const TensorView table, source_.Get(name));
  if (table.shape.rank != 2 || table.cols() != inputs) {
    return InvalidArgumentError("tensor '" + name + "': shape " + table.shape.ToString() +
                                ", expected rows of " + std::to_string(inputs));
  }
  for (const int32_t id : ids) {
    if (id < 0 || id >= table.rows()) {
      return InvalidArgumentError("tensor '" + name + "' has no row " + std::to_string(id));
    }
  }
  OwnedRows rows = GatherRows(table, ids, 1.0f);
  if (difference) {
    auto* values = reinterpret_cast<float*>(rows.bytes.data());
    for (int64_t i = 0; i < inputs; ++i) values[i] -= values[inputs + i];
    rows.view.shape = Shape{1, inputs};
  }
  return PrepareOwned(name, std::move(rows));
}

Result<LinearLayer> WeightReader::LinearOfValues(const std::string& name,
                                                 std::span<const float> values, int64_t outputs,
                                                 int64_t inputs) {
  OwnedRows rows;
  const auto bytes = std::as_bytes(values);
  rows.bytes.assign(bytes.begin(), bytes.end());
  rows.view.dtype = DType::kF32;
  rows.view.shape = Shape{outputs, inputs};
  const kernels::LinearOptions options =
      std::exchange(options_, {.activations = kernels::ActivationPrecision::kF32});
  Result<LinearLayer> layer = PrepareOwned(name, std::move(rows));
  options_ = options;
  return layer;
}

WeightReader::OwnedRows WeightReader::GatherRows(const TensorView& table,
                                                 std::span<const int32_t> ids, float factor) {
  const auto count = static_cast<int64_t>(ids.size());
  OwnedRows rows;
  rows.bytes.resize(static_cast<size_t>(count * table.cols()) * sizeof(float));
  auto* values = reinterpret_cast<float*>(rows.bytes.data());
  ops_.Gather(table, ids, factor, /*accumulate=*/false, {values, count, table.cols()});
  rows.view.dtype = DType::kF32;
  rows.view.shape = Shape{count, table.cols()};
  return rows;
}

Result<LinearLayer> WeightReader::PrepareOwned(const std::string& name, OwnedRows rows) {
  rows.view.data = rows.bytes.data();
  PERGOLA_ASSIGN_OR_RETURN(LinearLayer layer, Prepare(name, rows.view));
  if (layer.weight->owned_bytes() == 0) {  // else it has its own copy
    owned_bytes_ += rows.bytes.size();
    layer.rows = std::move(rows.bytes);  // moving keeps the address
  }
  return layer;
}

Result<std::vector<float>> WeightReader::RmsNorm(const std::string& prefix, int64_t size,
                                                 bool plus_one) {
  PERGOLA_ASSIGN_OR_RETURN(std::vector<float> weight, Vector(FullName(prefix, "weight"), size));
  if (plus_one) {
    for (float& value : weight) value += 1.0f;
  }
  return weight;
}

Result<NormLayer> WeightReader::Norm(const std::string& prefix, int64_t size, bool with_bias) {
  NormLayer norm;
  PERGOLA_ASSIGN_OR_RETURN(norm.weight, Vector(FullName(prefix, "weight"), size));
  if (with_bias) {
    PERGOLA_ASSIGN_OR_RETURN(norm.bias, Vector(FullName(prefix, "bias"), size));
  }
  return norm;
}

}  // namespace pergola::models
