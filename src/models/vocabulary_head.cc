#include "models/vocabulary_head.h"

#include <cmath>
#include <string>

#include "models/decoder_names.h"

namespace pergola::models {

Result<VocabularyHead> VocabularyHead::Load(const ModelConfig& config,
                                            const formats::TensorSource& source, kernels::Ops& ops,
                                            kernels::LinearOptions options) {
  options.in_place = true;  // it passes through the cache once a token: a copy would only be memory
  WeightReader reader(source, ops, options);
  const DecoderNames& names = DecoderNamesOf(config);
  const std::string prefix = FindDecoderPrefix(reader, config);
  VocabularyHead head;
  head.norm_epsilon_ = config.norm_epsilon;
  head.softcap_ = config.final_logit_softcap;
  PERGOLA_ASSIGN_OR_RETURN(
      head.norm_, reader.RmsNorm(prefix + std::string(names.final_norm), config.hidden_size,
                                 config.norm_weight_plus_one));
  // The projection stands beside the encoder, without its prefix.
  const std::string output(names.output);
  head.tied_ = !reader.Has(output + ".weight");
  PERGOLA_ASSIGN_OR_RETURN(
      head.projection_, reader.Linear(head.tied_ ? prefix + std::string(names.word) : output,
                                      config.vocab_size, config.hidden_size, /*with_bias=*/false));
  head.owned_bytes_ = reader.owned_bytes();
  return head;
}

void VocabularyHead::Apply(kernels::Ops& ops, Workspace& workspace, ConstF32Matrix residual,
                           F32Matrix logits) const {
  const F32Matrix normed = workspace.Get(Workspace::kNormed, residual.rows, residual.cols);
  ops.RmsNorm(residual, norm_.data(), residual.cols, norm_epsilon_, normed);
  ops.Linear(normed, *projection_.weight, nullptr, kernels::Epilogue::kNone, logits);
  if (softcap_ == 0) return;
  for (int64_t row = 0; row < logits.rows; ++row) {
    for (float* logit = logits.row(row); logit != logits.row(row) + logits.cols; ++logit) {
      *logit = softcap_ * std::tanh(*logit / softcap_);
    }
  }
}

}  // namespace pergola::models
