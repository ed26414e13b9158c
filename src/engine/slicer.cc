#include "engine/slicer.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "models/decoder_names.h"

namespace pergola::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kPartNames = {"embed", "head", "ffn", "attention",
                                                        "client"};

// Where a tensor belongs.
struct Place {
  enum Kind { kTable, kFinalNorm, kProjection, kFfn, kAttention } kind = kAttention;
  int64_t layer = -1;  // kFfn, and of a layer kAttention
};

// Tensor names of one model, told apart.
class Names {
 public:
  explicit Names(const models::ModelConfig& config) : names_(models::DecoderNamesOf(config)) {}

  Place PlaceOf(std::string_view tensor) const {
    // The encoder's prefix does not matter: no name ends in another's.
    if (Is(tensor, names_.word)) return {Place::kTable};
    if (Is(tensor, names_.final_norm)) return {Place::kFinalNorm};
    if (tensor == std::string(names_.output) + ".weight") return {Place::kProjection};
    const size_t layer = FindLayer(tensor);
    if (layer == std::string_view::npos) return {Place::kAttention};  // tables of positions
    std::string_view rest = tensor.substr(layer + names_.layer.size());
    int64_t number = 0;
    while (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
      number = number * 10 + (rest.front() - '0');
      rest.remove_prefix(1);
    }
    if (!rest.empty()) rest.remove_prefix(1);  // the point
    for (const std::string_view name : {names_.ffn.gate, names_.ffn.up, names_.ffn.down}) {
      if (rest.starts_with(std::string(name) + ".")) return {Place::kFfn, number};
    }
    return {Place::kAttention, number};
  }

 private:
  static bool Is(std::string_view tensor, std::string_view name) {
    const std::string full = std::string(name) + ".weight";
    return tensor == full || tensor == "model." + full;
  }
  size_t FindLayer(std::string_view tensor) const {
    if (tensor.starts_with(names_.layer)) return 0;
    const std::string prefixed = "model." + std::string(names_.layer);
    return tensor.starts_with(prefixed) ? prefixed.size() - names_.layer.size()
                                        : std::string_view::npos;
  }

  const models::DecoderNames& names_;
};

std::string FileOf(Place::Kind kind) {
  switch (kind) {
    case Place::kTable:
      return "embeddings.bin";
    case Place::kProjection:
      return "lm_head.bin";
    case Place::kFinalNorm:
      return "norms.bin";
    case Place::kFfn:
      return "ffn.gguf";
    case Place::kAttention:
      return "attention.gguf";
  }
  return "";
}

bool Wanted(ModelPart part, const Place& place, bool tied, const models::LayerRange& layers) {
  switch (part) {
    case ModelPart::kEmbed:
      return place.kind == Place::kTable || place.kind == Place::kFinalNorm ||
             place.kind == Place::kProjection;
    case ModelPart::kHead:
      return place.kind == Place::kFinalNorm || place.kind == Place::kProjection ||
             (tied && place.kind == Place::kTable);
    case ModelPart::kFfn:
      return place.kind == Place::kFfn && layers.Has(place.layer);
    case ModelPart::kAttention:
      return place.kind == Place::kAttention;
    case ModelPart::kClient:
      return place.kind == Place::kAttention || place.kind == Place::kFinalNorm;
  }
  return false;
}

Result<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFoundError("cannot open '" + path + "'");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool IsGguf(const Checkpoint& checkpoint) {
  return checkpoint.config.naming == models::TensorNaming::kGguf;
}

// The files that say what the tensors are and how text becomes ids.
void AddConfiguration(const Checkpoint& checkpoint, bool with_tokenizer, SlicePlan* plan) {
  if (IsGguf(checkpoint)) {
    plan->metadata = checkpoint.source->metadata();
    if (with_tokenizer) {
      plan->files.push_back(
          {.name = "tokenizer.gguf", .text = formats::TokenizerGguf(plan->metadata)});
    }
    // The reader of the configuration takes the vocabulary from the table, which may not be here.
    plan->metadata[std::string(*checkpoint.source->GetString("general.architecture")) +
                   ".vocab_size"] = {checkpoint.config.vocab_size};
    return;
  }
  plan->files.push_back({.name = "config.json", .copy_of = checkpoint.path + "/config.json"});
  if (with_tokenizer) {
    plan->files.push_back(
        {.name = "tokenizer.json", .copy_of = checkpoint.path + "/tokenizer.json"});
  }
}

// Their presence is read off layer 0, which a slice may lack.
Status RefuseFfnBiases(const Checkpoint& checkpoint) {
  const models::ModelConfig& config = checkpoint.config;
  if (!config.ffn_up_bias && !config.ffn_down_bias) return OkStatus();
  return UnimplementedError(checkpoint.path +
                            ": slices of models with feed-forward biases are not supported");
}

}  // namespace

std::string_view ModelPartName(ModelPart part) { return kPartNames[static_cast<size_t>(part)]; }

std::optional<ModelPart> FindModelPart(std::string_view name) {
  for (size_t index = 0; index < kPartNames.size(); ++index) {
    if (kPartNames[index] == name) return static_cast<ModelPart>(index);
  }
  return std::nullopt;
}

Result<std::string> IdentityOf(const Checkpoint& checkpoint) {
  if (checkpoint.source->format() == "slice") {
    PERGOLA_ASSIGN_OR_RETURN(const formats::SliceFacts facts,
                             formats::ReadSliceFacts(checkpoint.path));
    return facts.identity;
  }
  if (IsGguf(checkpoint)) {
    return formats::ModelIdentity(formats::MetadataJson(checkpoint.source->metadata()),
                                  *checkpoint.source);
  }
  PERGOLA_ASSIGN_OR_RETURN(const std::string config, ReadText(checkpoint.path + "/config.json"));
  return formats::ModelIdentity(config, *checkpoint.source);
}

Result<SlicePlan> PlanSlice(const Checkpoint& checkpoint, const SliceRequest& request) {
  const models::ModelConfig& config = checkpoint.config;
  PERGOLA_RETURN_IF_ERROR(CheckLanguageModel(config).WithContext(checkpoint.path));
  PERGOLA_RETURN_IF_ERROR(RefuseFfnBiases(checkpoint));
  const models::LayerRange layers =
      request.layers.value_or(models::LayerRange{0, config.num_layers - 1});
  if (layers.first < 0 || layers.last < layers.first || layers.last >= config.num_layers) {
    return OutOfRangeError("layers " + std::to_string(layers.first) + "-" +
                           std::to_string(layers.last) + ": the model has layers 0-" +
                           std::to_string(config.num_layers - 1));
  }
  const Names names(config);
  bool tied = true;
  for (const formats::TensorInfo& tensor : checkpoint.source->tensors()) {
    tied &= names.PlaceOf(tensor.name).kind != Place::kProjection;
  }
  SlicePlan plan;
  for (const formats::TensorInfo& tensor : checkpoint.source->tensors()) {
    const Place place = names.PlaceOf(tensor.name);
    if (!Wanted(request.part, place, tied, layers)) continue;
    const std::string name = FileOf(place.kind);
    if (plan.files.empty() || plan.files.back().name != name) {
      auto same = plan.files.begin();
      while (same != plan.files.end() && same->name != name) ++same;
      if (same == plan.files.end()) {
        plan.files.push_back({.name = name});
      } else {
        std::swap(*same, plan.files.back());
      }
    }
    plan.files.back().tensors.push_back(&tensor);
    plan.tensor_bytes += tensor.view.bytes();
  }
  AddConfiguration(checkpoint, request.part != ModelPart::kFfn, &plan);
  formats::SliceFacts& facts = plan.facts;
  facts.part = std::string(ModelPartName(request.part));
  if (request.part == ModelPart::kFfn) {
    facts.first_layer = layers.first;
    facts.last_layer = layers.last;
  }
  facts.model = request.model;
  facts.identity = request.identity;
  facts.quantisation = std::string(DTypeName(MainDType(*checkpoint.source)));
  facts.hidden_size = config.hidden_size;
  facts.vocab_size = config.vocab_size;
  facts.num_layers = config.num_layers;
  facts.embed_scale = models::EmbedScale(config);
  facts.lm_head_tied = tied;
  return plan;
}

}  // namespace pergola::engine
