#include "pergola/pergola.h"

#include <utility>

#include "api/served_model.h"
#include "service/embedding_format.h"
#include "service/part_mean.h"
#include "service/scores.h"
#include "text/sparse_weights.h"

namespace pergola {

namespace {

// Texts made ready to be computed.
struct Prepared {
  service::InferenceRequest request;
  int64_t tokens = 0;
  int64_t truncated = 0;
  std::vector<std::vector<int64_t>> parts;  // of each text: tokens of its sequences
};

}  // namespace

struct Engine::Impl {
  std::unique_ptr<api::ServedModel> served;

  bool Normalises(const EmbedOptions& options) const {
    return options.normalize.value_or(served->info().normalises);
  }

  // Values of a row under `options`.
  Result<int64_t> Dimensions(const EmbedOptions& options) const {
    const int64_t width = served->info().width(OutputKind::kEmbedding);
    if (width == 0) {
      return InvalidArgumentError("the model '" + served->info().id + "' does not embed");
    }
    const int64_t dimensions = options.dimensions == 0 ? width : options.dimensions;
    if (dimensions < 1 || dimensions > width) {
      return InvalidArgumentError("dimensions is " + std::to_string(options.dimensions) +
                                  ", allowed is 1 to " + std::to_string(width));
    }
    return dimensions;
  }

  static text::PrepareOptions PrepareOptionsOf(const EmbedOptions& options) {
    text::PrepareOptions prepare;
    if (!options.prompt_name.empty()) prepare.prompt_name = options.prompt_name;
    prepare.prompt = options.prompt;
    prepare.truncate = options.truncate;
    return prepare;
  }

  Result<Prepared> Prepare(std::span<const std::string> texts,
                           const text::PrepareOptions& options) const {
    Prepared prepared;
    for (size_t index = 0; index < texts.size(); ++index) {
      Result<text::PreparedText> text = served->text()->Prepare(texts[index], options);
      if (!text.ok()) return text.status().WithContext("text " + std::to_string(index));
      prepared.tokens += text->sequence.tokens();
      prepared.truncated += text->truncated ? 1 : 0;
      prepared.parts.push_back({1});
      prepared.request.sequences.push_back(std::move(text->sequence));
    }
    return prepared;
  }

  Result<Prepared> PrepareParts(std::span<const std::string> texts,
                                const text::PrepareOptions& options) const {
    Prepared prepared;
    for (size_t index = 0; index < texts.size(); ++index) {
      Result<text::PreparedParts> text = served->text()->PrepareParts(texts[index], options);
      if (!text.ok()) return text.status().WithContext("text " + std::to_string(index));
      for (Sequence& sequence : text->sequences) {
        prepared.tokens += sequence.tokens();
        prepared.request.sequences.push_back(std::move(sequence));
      }
      prepared.parts.push_back(std::move(text->tokens));
    }
    return prepared;
  }
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::Open(const std::string& path, const EngineOptions& options) {
  api::ServedModelOptions served;
  served.model.ops.num_threads = options.num_threads;
  served.model.ops.isa = options.isa;
  if (options.f32_activations) {
    served.model.activations = kernels::ActivationPrecision::kF32;
  }
  PERGOLA_ASSIGN_OR_RETURN(served.model.weights, kernels::ParseWeightType(options.weights));
  served.scheduler.cache_bytes = options.cache_bytes;
  auto impl = std::make_unique<Impl>();
  PERGOLA_ASSIGN_OR_RETURN(impl->served, api::ServedModel::Open(path, path, served));
  return Engine(std::move(impl));
}

Result<Embeddings> Engine::Embed(std::span<const std::string> texts,
                                 const EmbedOptions& options) const {
  PERGOLA_ASSIGN_OR_RETURN(const int64_t dimensions, impl_->Dimensions(options));
  const text::PrepareOptions prepare = impl_->PrepareOptionsOf(options);
  PERGOLA_ASSIGN_OR_RETURN(Prepared prepared, options.average_long
                                                  ? impl_->PrepareParts(texts, prepare)
                                                  : impl_->Prepare(texts, prepare));
  prepared.request.outputs = {OutputKind::kEmbedding};
  PERGOLA_ASSIGN_OR_RETURN(const service::InferenceOutput output,
                           impl_->served->scheduler().RunBlocking(std::move(prepared.request)));
  std::vector<float> values(texts.size() * static_cast<size_t>(dimensions));
  size_t next = 0;
  for (size_t index = 0; index < texts.size(); ++index) {
    const std::span<float> out(values.data() + index * static_cast<size_t>(dimensions),
                               static_cast<size_t>(dimensions));
    std::vector<service::PartRow> parts;
    for (const int64_t tokens : prepared.parts[index]) {
      parts.push_back({(*output.sequences[next++])[OutputKind::kEmbedding].values, tokens});
    }
    service::FormatFloats(service::MeanOfParts(parts, impl_->served->info().normalises),
                          impl_->Normalises(options), out);
  }
  return Embeddings(dimensions, std::move(values), prepared.tokens, prepared.truncated);
}

Result<Embeddings> Engine::EmbedChunks(std::span<const std::string> chunks,
                                       const EmbedOptions& options) const {
  const service::ModelInfo& info = impl_->served->info();
  PERGOLA_ASSIGN_OR_RETURN(const int64_t dimensions, impl_->Dimensions(options));
  if (info.chunk_separator < 0 && info.pooling != "mean") {
    return InvalidArgumentError("late chunking needs a model that pools by the mean; '" + info.id +
                                "' pools by '" + info.pooling + "'");
  }
  PERGOLA_ASSIGN_OR_RETURN(text::PreparedText document, impl_->served->text()->PrepareDocument(
                                                            chunks, info.chunk_separator, {}));
  const int64_t tokens = document.sequence.tokens();
  service::InferenceRequest request;
  request.outputs = {OutputKind::kEmbedding};
  request.sequences.push_back(std::move(document.sequence));
  PERGOLA_ASSIGN_OR_RETURN(const service::InferenceOutput output,
                           impl_->served->scheduler().RunBlocking(std::move(request)));
  const service::Rows& rows = (*output.sequences[0])[OutputKind::kEmbedding];
  const auto width = static_cast<size_t>(dimensions);
  std::vector<float> values(chunks.size() * width);
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const std::span<const float> row(rows.row(static_cast<int64_t>(chunk)),
                                     static_cast<size_t>(rows.width));
    service::FormatFloats(row, impl_->Normalises(options), {values.data() + chunk * width, width});
  }
  return Embeddings(dimensions, std::move(values), tokens, 0);
}

Result<std::vector<Representation>> Engine::Represent(std::span<const std::string> texts,
                                                      const RepresentOptions& options) const {
  const service::ModelInfo& info = impl_->served->info();
  OutputSet outputs;
  if (options.dense) outputs.Add(OutputKind::kEmbedding);
  if (options.sparse) outputs.Add(OutputKind::kSparse);
  if (options.multi_vector) outputs.Add(OutputKind::kMultiVector);
  if (outputs.empty()) return InvalidArgumentError("no representation was asked for");
  int64_t dimensions = 0;
  if (options.dense) {
    PERGOLA_ASSIGN_OR_RETURN(dimensions, impl_->Dimensions(options.embed));
  }
  PERGOLA_ASSIGN_OR_RETURN(Prepared prepared,
                           impl_->Prepare(texts, impl_->PrepareOptionsOf(options.embed)));
  const std::vector<Sequence> sequences = prepared.request.sequences;
  prepared.request.outputs = outputs;
  PERGOLA_ASSIGN_OR_RETURN(const service::InferenceOutput output,
                           impl_->served->scheduler().RunBlocking(std::move(prepared.request)));
  std::vector<Representation> representations(texts.size());
  for (size_t index = 0; index < texts.size(); ++index) {
    const service::SequenceOutput& rows = *output.sequences[index];
    Representation& made = representations[index];
    if (options.dense) {
      made.dense.resize(static_cast<size_t>(dimensions));
      service::FormatFloats(rows[OutputKind::kEmbedding].values, impl_->Normalises(options.embed),
                            made.dense);
    }
    if (options.sparse) {
      for (const text::SparseWeight& weight :
           text::FoldSparse(sequences[index].ids, rows[OutputKind::kSparse].values,
                            impl_->served->text()->tokenizer())) {
        made.sparse.push_back({weight.id, weight.weight});
      }
    }
    if (options.multi_vector) {
      made.multi_vector =
          service::UnitRows(rows[OutputKind::kMultiVector], info.multi_vector_begin);
    }
  }
  return representations;
}

Result<std::vector<float>> Engine::Score(const std::string& query,
                                         std::span<const std::string> documents,
                                         const ScoreOptions& options) const {
  const service::ModelInfo& info = impl_->served->info();
  const text::PrepareOptions prepare{.truncate = options.truncate};
  std::vector<float> scores;
  if (info.width(OutputKind::kLogits) == 1) {
    service::InferenceRequest request;
    request.outputs = {OutputKind::kLogits};
    for (size_t index = 0; index < documents.size(); ++index) {
      Result<text::PreparedText> pair =
          impl_->served->text()->PreparePair(query, documents[index], prepare);
      if (!pair.ok()) return pair.status().WithContext("document " + std::to_string(index));
      request.sequences.push_back(std::move(pair->sequence));
    }
    PERGOLA_ASSIGN_OR_RETURN(const service::InferenceOutput output,
                             impl_->served->scheduler().RunBlocking(std::move(request)));
    for (const auto& rows : output.sequences) {
      const std::vector<float>& logits = (*rows)[OutputKind::kLogits].values;
      scores.push_back(
          static_cast<float>(service::LabelScores(logits, info.multi_label, options.raw)[0]));
    }
    return scores;
  }
  const OutputKind kind =
      info.has(OutputKind::kMultiVector) ? OutputKind::kMultiVector : OutputKind::kEmbedding;
  std::vector<std::string> texts = {query};
  texts.insert(texts.end(), documents.begin(), documents.end());
  PERGOLA_ASSIGN_OR_RETURN(Prepared prepared, impl_->Prepare(texts, prepare));
  prepared.request.outputs = {kind};
  PERGOLA_ASSIGN_OR_RETURN(const service::InferenceOutput output,
                           impl_->served->scheduler().RunBlocking(std::move(prepared.request)));
  const service::Rows& first = (*output.sequences[0])[kind];
  for (size_t index = 1; index < output.sequences.size(); ++index) {
    const service::Rows& other = (*output.sequences[index])[kind];
    scores.push_back(static_cast<float>(
        kind == OutputKind::kEmbedding
            ? service::Cosine(first.values, other.values)
            : service::MaxSim(first, other, info.multi_vector_begin, options.raw)));
  }
  return scores;
}

Result<std::vector<std::vector<LabelScore>>> Engine::Classify(std::span<const std::string> texts,
                                                              const ScoreOptions& options) const {
  const service::ModelInfo& info = impl_->served->info();
  PERGOLA_ASSIGN_OR_RETURN(Prepared prepared,
                           impl_->Prepare(texts, {.truncate = options.truncate}));
  prepared.request.outputs = {OutputKind::kLogits};
  PERGOLA_ASSIGN_OR_RETURN(const service::InferenceOutput output,
                           impl_->served->scheduler().RunBlocking(std::move(prepared.request)));
  std::vector<std::vector<LabelScore>> classified;
  for (const auto& rows : output.sequences) {
    const std::vector<double> scores =
        service::LabelScores((*rows)[OutputKind::kLogits].values, info.multi_label, options.raw);
    std::vector<LabelScore>& labels = classified.emplace_back();
    for (size_t column = 0; column < scores.size(); ++column) {
      labels.push_back({info.labels[column], static_cast<float>(scores[column])});
    }
  }
  return classified;
}

bool Engine::gives_sparse() const { return impl_->served->info().has(OutputKind::kSparse); }
bool Engine::gives_multi_vector() const {
  return impl_->served->info().has(OutputKind::kMultiVector);
}
const std::vector<std::string>& Engine::labels() const { return impl_->served->info().labels; }

int64_t Engine::width() const { return impl_->served->info().width(OutputKind::kEmbedding); }
int64_t Engine::max_tokens() const { return impl_->served->info().max_tokens; }

const std::map<std::string, std::string, std::less<>>& Engine::prompts() const {
  return impl_->served->text()->config().prompts;
}

std::string Engine::Describe() const {
  const service::ModelInfo& info = impl_->served->info();
  std::string out = info.architecture + ", " + info.quantisation + ", ";
  if (info.has(OutputKind::kEmbedding)) {
    out += std::to_string(info.width(OutputKind::kEmbedding)) + " values, ";
  }
  if (info.has(OutputKind::kLogits)) {
    out += std::to_string(info.width(OutputKind::kLogits)) + " classes, ";
  }
  return out + "up to " + std::to_string(info.max_tokens) + " tokens, " + info.numeric_class;
}

float Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t index = 0; index < a.size(); ++index) {
    sum += static_cast<double>(a[index]) * static_cast<double>(b[index]);
  }
  return static_cast<float>(sum);
}

}  // namespace pergola
