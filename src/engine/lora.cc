#include "engine/lora.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "models/json_object.h"
#include "models/weight_reader.h"

namespace pergola::engine {
namespace {

namespace fs = std::filesystem;
using models::JsonObject;

// What PEFT puts before the name that a module has in its model.
constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kSuffixA = ".lora_A.weight";
constexpr std::string_view kSuffixB = ".lora_B.weight";

// The base's tensors, some of them replaced by rows of our own.
class MergedSource : public formats::TensorSource {
 public:
  explicit MergedSource(std::unique_ptr<formats::TensorSource> base)
      : base_(std::move(base)), tensors_(base_->tensors().begin(), base_->tensors().end()) {
    for (size_t index = 0; index < tensors_.size(); ++index) index_[tensors_[index].name] = index;
  }

  std::string_view format() const override { return base_->format(); }
  std::span<const std::string> files() const override { return base_->files(); }
  std::span<const formats::TensorInfo> tensors() const override { return tensors_; }
  std::span<const formats::UnsupportedTensor> unsupported() const override {
    return base_->unsupported();
  }
  const std::map<std::string, formats::MetadataValue, std::less<>>& metadata() const override {
    return base_->metadata();
  }
  const formats::TensorInfo* Find(std::string_view name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &tensors_[found->second];
  }

  // `name` is there; `rows` f32, as many as its shape says.
  void Replace(std::string_view name, std::vector<float> rows) {
    const std::vector<float>& kept = rows_.emplace_back(std::move(rows));
    TensorView& view = tensors_[index_.find(name)->second].view;
    view.dtype = DType::kF32;
    view.data = reinterpret_cast<const std::byte*>(kept.data());
  }

 private:
  std::unique_ptr<formats::TensorSource> base_;
  std::vector<formats::TensorInfo> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<std::vector<float>> rows_;  // moving one keeps its address
};

struct Scale {
  int64_t rank = 0;
  double factor = 0;  // alpha / r, or alpha / sqrt(r)
};

Result<Scale> ReadScale(const JsonObject& config) {
  if (const std::string type = config.String("peft_type").value_or("LORA"); type != "LORA") {
    return UnimplementedError(config.name() + ": peft_type '" + type + "' is not supported");
  }
  for (const std::string_view key : {"use_dora", "fan_in_fan_out", "lora_bias"}) {
    if (config.Bool(key) == true) {
      return UnimplementedError(config.name() + ": '" + std::string(key) + "' is not supported");
    }
  }
  for (const std::string_view key : {"rank_pattern", "alpha_pattern"}) {
    if (const auto pattern = config.Object(key); pattern && !pattern->Keys().empty()) {
      return UnimplementedError(config.name() + ": '" + std::string(key) + "' is not supported");
    }
  }
  PERGOLA_ASSIGN_OR_RETURN(const int64_t rank, config.RequireInt("r", 1, 1 << 16));
  const auto alpha = config.Number("lora_alpha");
  if (!alpha) return InvalidArgumentError(config.name() + ": 'lora_alpha' is missing");
  const auto width = static_cast<double>(rank);
  return Scale{rank, *alpha / (config.Bool("use_rslora") == true ? std::sqrt(width) : width)};
}

// The base's weight of a module; checkpoints of the bare encoder and of a language model differ by
// "model.".
Result<std::string> FindWeight(const formats::TensorSource& base, std::string_view module) {
  constexpr std::string_view kModel = "model.";
  std::string name = std::string(module) + ".weight";
  if (base.Find(name) != nullptr) return name;
  if (const std::string inner = std::string(kModel) + name; base.Find(inner) != nullptr) {
    return inner;
  }
  if (name.starts_with(kModel) && base.Find(name.substr(kModel.size())) != nullptr) {
    return name.substr(kModel.size());
  }
  return NotFoundError("the base model has no tensor '" + name + "' that the adapter changes");
}

// W + scale * B A.
Result<std::vector<float>> Merge(const formats::TensorSource& base, const std::string& weight,
                                 const formats::TensorSource& adapter, const std::string& module,
                                 const Scale& scale, kernels::Ops& ops) {
  PERGOLA_ASSIGN_OR_RETURN(const TensorView view, base.Get(weight));
  PERGOLA_ASSIGN_OR_RETURN(const TensorView a_view, adapter.Get(module + std::string(kSuffixA)));
  const int64_t outputs = view.rows(), inputs = view.cols(), rank = scale.rank;
  if (a_view.rows() != rank) {
    return InvalidArgumentError("'" + module + std::string(kSuffixA) + "' has rank " +
                                std::to_string(a_view.rows()) + ", the adapter's 'r' is " +
                                std::to_string(rank));
  }
  models::WeightReader base_reader(base, ops, {});
  models::WeightReader reader(adapter, ops, {});
  PERGOLA_ASSIGN_OR_RETURN(std::vector<float> rows, base_reader.Values(weight, outputs, inputs));
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<float> a,
                           reader.Values(module + std::string(kSuffixA), rank, inputs));
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<float> b,
                           reader.Values(module + std::string(kSuffixB), outputs, rank));
  ops.threads().ParallelFor(outputs, [&](int64_t output) {
    float* row = rows.data() + output * inputs;
    for (int64_t k = 0; k < rank; ++k) {
      const auto factor =
          static_cast<float>(scale.factor * b[static_cast<size_t>(output * rank + k)]);
      const float* direction = a.data() + k * inputs;
      for (int64_t col = 0; col < inputs; ++col) row[col] += factor * direction[col];
    }
  });
  return rows;
}

}  // namespace

bool IsLoraAdapter(const std::string& directory) {
  std::error_code error;
  const fs::path folder(directory);
  return fs::exists(folder / "adapter_config.json", error) &&
         fs::exists(folder / "adapter_model.safetensors", error) &&
         !fs::exists(folder / "model.safetensors", error) &&
         !fs::exists(folder / "model.safetensors.index.json", error);
}

Result<std::string> LoraBase(const std::string& directory) {
  PERGOLA_ASSIGN_OR_RETURN(const JsonObject config,
                           JsonObject::Read(directory + "/adapter_config.json"));
  const std::string name = config.String("base_model_name_or_path").value_or("");
  const fs::path base = fs::path(directory) / name;  // `name` itself where that is absolute
  std::error_code error;
  if (name.empty() || !fs::exists(base / "config.json", error)) {
    return NotFoundError(config.name() + ": base_model_name_or_path '" + name +
                         "' is no folder of a model; put the path of the base model there");
  }
  return base.string();
}

Result<MergedModel> MergeLora(std::unique_ptr<formats::TensorSource> base,
                              const std::string& directory, kernels::Ops& ops) {
  PERGOLA_ASSIGN_OR_RETURN(const JsonObject config,
                           JsonObject::Read(directory + "/adapter_config.json"));
  PERGOLA_ASSIGN_OR_RETURN(const Scale scale, ReadScale(config));
  PERGOLA_ASSIGN_OR_RETURN(const auto adapter,
                           formats::OpenTensorSource(directory + "/adapter_model.safetensors"));
  auto merged = std::make_unique<MergedSource>(std::move(base));
  int64_t owned_bytes = 0;
  for (const formats::TensorInfo& tensor : adapter->tensors()) {
    if (tensor.name.ends_with(kSuffixB)) {  // with its A
      const std::string module = tensor.name.substr(0, tensor.name.size() - kSuffixB.size());
      PERGOLA_RETURN_IF_ERROR(adapter->Get(module + std::string(kSuffixA)).status());
      continue;
    }
    if (!tensor.name.starts_with(kPrefix) || !tensor.name.ends_with(kSuffixA)) {
      return UnimplementedError(directory + ": tensor '" + tensor.name +
                                "' of an adapter is not supported");
    }
    const std::string module = tensor.name.substr(0, tensor.name.size() - kSuffixA.size());
    PERGOLA_ASSIGN_OR_RETURN(const std::string weight,
                             FindWeight(*merged, module.substr(kPrefix.size())));
    PERGOLA_ASSIGN_OR_RETURN(std::vector<float> rows,
                             Merge(*merged, weight, *adapter, module, scale, ops));
    owned_bytes += static_cast<int64_t>(rows.size() * sizeof(float));
    merged->Replace(weight, std::move(rows));
  }
  return MergedModel{std::move(merged), owned_bytes};
}

}  // namespace pergola::engine
