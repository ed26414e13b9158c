#include "engine/heads.h"

#include <array>
#include <string>
#include <utility>

namespace pergola::engine {
namespace {

using models::HeadLayerConfig;
using models::Workspace;

std::string NameOf(const HeadLayerConfig& config) {
  if (config.file.empty()) return "'" + config.linear + "'";
  return "'" + config.linear + "' of " + config.file;
}

// Rows of the layer's weight, checked against what the file declares.
Result<int64_t> CountOutputs(const HeadLayerConfig& config, const formats::TensorSource& source,
                             int64_t inputs) {
  const std::string weight = config.linear.empty() ? "weight" : config.linear + ".weight";
  PERGOLA_ASSIGN_OR_RETURN(const TensorView view, source.Get(weight));
  if (config.inputs != 0 && config.inputs != inputs) {
    return InvalidArgumentError("layer " + NameOf(config) + " takes " +
                                std::to_string(config.inputs) + " values, it gets " +
                                std::to_string(inputs));
  }
  if (config.outputs != 0 && config.outputs != view.rows()) {
    return InvalidArgumentError("layer " + NameOf(config) + " declares " +
                                std::to_string(config.outputs) + " outputs, its weight has " +
                                std::to_string(view.rows()));
  }
  return view.rows();
}

Result<std::vector<int32_t>> FindTokens(const std::vector<std::string>& tokens,
                                        const tokenizers::Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const std::string& token : tokens) {
    ids.push_back(tokenizer.TokenToId(token));
    if (ids.back() < 0) {
      return InvalidArgumentError("the tokenizer has no token '" + token +
                                  "' that the classifier is made from");
    }
  }
  return ids;
}

}  // namespace

Result<Head> Head::Load(const models::HeadConfig& config, const HeadContext& context) {
  Head head;
  head.kind_ = config.kind;
  head.pooling_ = config.pooling;
  head.width_ = context.hidden_width;
  for (const HeadLayerConfig& layer_config : config.layers) {
    PERGOLA_ASSIGN_OR_RETURN(Layer layer, head.LoadLayer(layer_config, context, head.width_));
    head.width_ = layer.linear.weight->outputs();
    head.layers_.push_back(std::move(layer));
  }
  if (config.kind == OutputKind::kSparse && head.width_ != 1) {
    return InvalidArgumentError("a head of sparse weights has " + std::to_string(head.width_) +
                                " outputs per token, expected 1");
  }
  return head;
}

Result<Head::Layer> Head::LoadLayer(const HeadLayerConfig& config, const HeadContext& context,
                                    int64_t inputs) {
  const formats::TensorSource* source = &context.source;
  if (!config.file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(auto opened, formats::OpenTensorSource(config.file));
    sources_.push_back(std::move(opened));
    source = sources_.back().get();
  }
  models::WeightReader reader(*source, context.ops, context.options);
  Layer layer;
  layer.activation = config.activation;
  PERGOLA_ASSIGN_OR_RETURN(const int64_t rows, CountOutputs(config, *source, inputs));
  if (!config.tokens.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                             FindTokens(config.tokens, context.tokenizer));
    PERGOLA_ASSIGN_OR_RETURN(layer.linear,
                             reader.LinearOfRows(config.linear, ids, inputs, config.difference));
  } else if (config.difference) {
    if (rows != 2 || config.bias) {
      return InvalidArgumentError("layer " + NameOf(config) + " has " + std::to_string(rows) +
                                  " outputs, expected two without a bias");
    }
    constexpr std::array<int32_t, 2> kBoth = {0, 1};
    PERGOLA_ASSIGN_OR_RETURN(layer.linear, reader.LinearOfRows(config.linear, kBoth, inputs, true));
  } else {
    PERGOLA_ASSIGN_OR_RETURN(layer.linear, reader.Linear(config.linear, rows, inputs, config.bias));
  }
  if (!config.norm.empty()) {
    layer.norm_epsilon = config.norm_epsilon;
    PERGOLA_ASSIGN_OR_RETURN(
        layer.norm, reader.Norm(config.norm, layer.linear.weight->outputs(), config.norm_bias));
  }
  owned_bytes_ += reader.owned_bytes();
  return layer;
}

ConstF32Matrix Head::Apply(kernels::Ops& ops, Workspace& workspace, ConstF32Matrix rows) const {
  Workspace::Slot slot = Workspace::kHeadA;
  for (const Layer& layer : layers_) {
    const F32Matrix next = workspace.Get(slot, rows.rows, layer.linear.weight->outputs());
    ops.Linear(rows, *layer.linear.weight, layer.linear.bias_data(), layer.activation, next);
    if (!layer.norm.weight.empty()) {
      ops.LayerNorm(next, layer.norm.weight.data(), layer.norm.bias_data(), layer.norm_epsilon,
                    next);
    }
    rows = next;
    slot = slot == Workspace::kHeadA ? Workspace::kHeadB : Workspace::kHeadA;
  }
  return rows;
}

}  // namespace pergola::engine
