#include "grid/part_service.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/finite.h"
#include "core/json_text.h"
#include "engine/slicer.h"
#include "engine/token_choice.h"
#include "kernels/row_decoder.h"
#include "models/decoder_names.h"

namespace pergola::grid {
namespace {

using Clock = std::chrono::steady_clock;

uint32_t MicrosecondsSince(Clock::time_point start) {
  return static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

// Layers that lie in the files: a slice states them.
Result<models::LayerRange> LayersOf(const engine::Checkpoint& checkpoint) {
  if (checkpoint.source->format() != "slice") {
    return models::LayerRange{0, checkpoint.config.num_layers - 1};
  }
  PERGOLA_ASSIGN_OR_RETURN(const formats::SliceFacts facts,
                           formats::ReadSliceFacts(checkpoint.path));
  if (facts.last_layer < facts.first_layer) {
    return FailedPreconditionError(checkpoint.path + " is a slice '" + facts.part +
                                   "' without feed-forward layers");
  }
  return models::LayerRange{facts.first_layer, facts.last_layer};
}

}  // namespace

Result<std::unique_ptr<PartService>> PartService::Load(const std::string& path,
                                                       const PartOptions& options) {
  std::unique_ptr<PartService> part(new PartService);
  PERGOLA_ASSIGN_OR_RETURN(part->ops_, kernels::MakeOps(options.ops));
  PERGOLA_ASSIGN_OR_RETURN(part->checkpoint_, engine::OpenCheckpoint(path));
  PERGOLA_RETURN_IF_ERROR(engine::CheckLanguageModel(part->checkpoint_.config).WithContext(path));
  part->linear_.activations = options.activations;
  PERGOLA_RETURN_IF_ERROR(part->LoadPart(options));
  const models::ModelConfig& config = part->checkpoint_.config;
  PartFacts& facts = part->facts_;
  PERGOLA_ASSIGN_OR_RETURN(facts.identity, engine::IdentityOf(part->checkpoint_));
  PERGOLA_ASSIGN_OR_RETURN(facts.numeric_class, engine::ModelNumericClass(
                                                    part->checkpoint_, *part->ops_, part->linear_));
  facts.model = config.architecture;
  facts.hidden_size = config.hidden_size;
  facts.vocab_size = config.vocab_size;
  facts.num_layers = config.num_layers;
  facts.embed_scale = models::EmbedScale(config);
  part->identity_ = ShortIdentityOf(facts.identity);
  return part;
}

Status PartService::LoadPart(const PartOptions& options) {
  const models::ModelConfig& config = checkpoint_.config;
  const formats::TensorSource& source = *checkpoint_.source;
  if (options.role == Role::kEmbed) {
    facts_.mode = "embed-service";
    models::WeightReader reader(source, *ops_, linear_);
    const std::string name = models::FindDecoderPrefix(reader, config) +
                             std::string(models::DecoderNamesOf(config).word) + ".weight";
    PERGOLA_ASSIGN_OR_RETURN(table_, reader.Table(name, config.vocab_size, config.hidden_size));
    return OkStatus();
  }
  facts_.mode = "ffn-service";
  PERGOLA_ASSIGN_OR_RETURN(const models::LayerRange held, LayersOf(checkpoint_));
  facts_.layers = options.layers.value_or(held);
  if (facts_.layers.first < held.first || facts_.layers.last > held.last) {
    return OutOfRangeError(checkpoint_.path + " holds layers " + std::to_string(held.first) + "-" +
                           std::to_string(held.last) + ", asked for are " +
                           std::to_string(facts_.layers.first) + "-" +
                           std::to_string(facts_.layers.last));
  }
  const ThreadPool::Pass pass(ops_->threads());
  PERGOLA_ASSIGN_OR_RETURN(ffn_,
                           models::FfnStack::Load(config, source, *ops_, linear_, facts_.layers));
  return OkStatus();
}

std::string FactsJson(const PartFacts& facts) {
  std::string out = "{\"mode\":" + JsonString(facts.mode) +
                    ",\"model\":" + JsonString(facts.model) +
                    ",\"identity\":" + JsonString(facts.identity) +
                    ",\"numeric_class\":" + JsonString(facts.numeric_class) +
                    ",\"hidden_size\":" + std::to_string(facts.hidden_size) +
                    ",\"vocab_size\":" + std::to_string(facts.vocab_size) +
                    ",\"num_layers\":" + std::to_string(facts.num_layers) +
                    ",\"embed_scale\":" + std::to_string(facts.embed_scale);
  if (facts.layers.size() > 0) {
    out += ",\"layers_owned\":[" + std::to_string(facts.layers.first) + "," +
           std::to_string(facts.layers.last) + "]";
  }
  return out + "}";
}

std::string PartService::StatsJson() const {
  std::string out = FactsJson(facts_);
  out.pop_back();
  return out + ",\"frames_refused\":" + std::to_string(refused_.load()) + "}";
}

Status PartService::Handle(const FrameHeader& request, std::span<const std::byte> payload,
                           std::string* answer) {
  FrameHeader header = request;
  header.answer = true;
  header.identity = identity_;
  if (request.answer) return InvalidArgumentError("an answer came as a request");
  if (request.kind != FrameKind::kEmbed) answer->clear();  // rows are written over what it holds
  if (request.kind == FrameKind::kStats) {
    header.type = PayloadType::kBytes;
    header.rows = header.width = 0;
    AppendBytesFrame(header, StatsJson(), answer);
    return OkStatus();
  }
  if (request.identity != identity_) {
    return FailedPreconditionError("the request is for another model, this part is of " +
                                   facts_.identity);
  }
  if (request.kind == FrameKind::kFfn && ffn_) return Ffn(request, payload, header, answer);
  if (request.kind == FrameKind::kEmbed && table_.data != nullptr) {
    return Embed(request, payload, header, answer);
  }
  if (request.kind == FrameKind::kEncode && table_.data != nullptr) {
    return Encode(payload, header, answer);
  }
  if (request.kind == FrameKind::kDecode && table_.data != nullptr) {
    return Decode(payload, header, answer);
  }
  const bool logits = request.kind == FrameKind::kLogits || request.kind == FrameKind::kTop;
  if (logits && table_.data != nullptr) return Logits(request, payload, header, answer);
  return UnimplementedError("this is a " + facts_.mode + ", which does not answer that");
}

Status PartService::Embed(const FrameHeader& request, std::span<const std::byte> payload,
                          FrameHeader header, std::string* answer) {
  const auto start = Clock::now();
  const size_t count = request.rows;
  if (request.type != PayloadType::kBytes || payload.size() != count * sizeof(int32_t) ||
      count == 0) {
    return InvalidArgumentError("a request for " + std::to_string(count) + " rows has " +
                                std::to_string(payload.size()) + " bytes of ids");
  }
  const int64_t width = table_.cols();
  if (RowsBytes(PayloadType::kF32, count, static_cast<uint64_t>(width)) > kMaxPayloadBytes) {
    return InvalidArgumentError(std::to_string(count) + " rows are more than a frame holds");
  }
  std::vector<int32_t> ids(count);
  std::memcpy(ids.data(), payload.data(), payload.size());
  return FillFrame(
      header, static_cast<int64_t>(count), width,
      [&](F32Matrix rows, FrameHeader& own) {
        PERGOLA_RETURN_IF_ERROR(WriteRows(ids, rows.data, &own.payload_crc));
        own.time = MicrosecondsSince(start);
        return OkStatus();
      },
      answer);
}

Status PartService::EmbedRows(const service::SplitCall& call, std::span<const int32_t> ids,
                              std::span<float> rows) {
  PERGOLA_RETURN_IF_ERROR(call.Check());
  uint32_t crc;
  return WriteRows(ids, rows.data(), &crc);
}

// `crc` becomes the checksum of the rows.
Status PartService::WriteRows(std::span<const int32_t> ids, float* rows, uint32_t* crc) {
  if (table_.data == nullptr) return FailedPreconditionError("this part holds no embedding table");
  for (const int32_t id : ids) {
    if (id < 0 || id >= table_.rows()) {
      return InvalidArgumentError("token id " + std::to_string(id) +
                                  " is outside the vocabulary of " + std::to_string(table_.rows()));
    }
  }
  *crc = 0;
  const size_t good = DecodeTableRows(ids, rows, crc);
  if (good == ids.size()) return OkStatus();
  return InternalError("the row of token id " + std::to_string(ids[good]) +
                       " of the embedding table is not finite");
}

// Many rows are shared with the engine's threads if nobody has them: waiting for a projection would
// take longer than the rows.
size_t PartService::DecodeTableRows(std::span<const int32_t> ids, float* rows, uint32_t* crc) {
  const float scale = facts_.embed_scale;
  const size_t bytes = ids.size() * static_cast<size_t>(table_.cols()) * sizeof(float);
  if (bytes >= kernels::kSharedRowsBytes && ops_->threads().num_threads() > 1) {
    const std::unique_lock lock(engine_mutex_, std::try_to_lock);
    if (lock) return kernels::DecodeRows(ops_->threads(), table_, ids, scale, rows, crc);
  }
  return kernels::DecodeRows(table_, ids, scale, rows, crc);
}

Status PartService::ComputeLogits(const service::SplitCall& call, std::span<const float> residuals,
                                  std::span<float> logits) {
  PERGOLA_RETURN_IF_ERROR(call.Check());
  if (table_.data == nullptr) return FailedPreconditionError("this part holds no projection");
  const int64_t rows = static_cast<int64_t>(residuals.size()) / facts_.hidden_size;
  PERGOLA_RETURN_IF_ERROR(PrepareHead());
  Job job{kProjection, ConstF32Matrix(residuals.data(), rows, facts_.hidden_size),
          F32Matrix(logits.data(), rows, facts_.vocab_size)};
  RunJob(job);
  if (!AllFinite(logits)) return InternalError("logits of the projection are not finite");
  return OkStatus();
}

Result<std::vector<std::vector<service::TokenChance>>> PartService::TopTokens(
    const service::SplitCall& call, std::span<const float> residuals, int64_t count,
    float temperature) {
  const auto vocab = static_cast<size_t>(facts_.vocab_size);
  const size_t rows = residuals.size() / static_cast<size_t>(facts_.hidden_size);
  std::vector<float> logits(rows * vocab);
  PERGOLA_RETURN_IF_ERROR(ComputeLogits(call, residuals, logits));
  PERGOLA_ASSIGN_OR_RETURN(const tokenizers::Tokenizer* tokenizer, LoadedTokenizer());
  std::vector<std::vector<service::TokenChance>> chances(rows);
  for (size_t row = 0; row < rows; ++row) {
    const bool best = temperature <= 0;
    const auto top = engine::SelectTop(std::span(logits).subspan(row * vocab, vocab),
                                       best ? 1 : count, best ? 1.0f : temperature);
    for (size_t index = 0; index < top.tokens.size(); ++index) {
      const int32_t id = top.tokens[index].id;
      Result<std::string> text = tokenizer->Decode(std::span(&id, 1), false);
      chances[row].push_back({id, text.ok() ? std::move(*text) : std::string(),
                              best ? 1.0 : top.Probability(index, temperature)});
    }
  }
  return chances;
}

Result<const tokenizers::Tokenizer*> PartService::LoadedTokenizer() {
  const std::lock_guard lock(tokenizer_mutex_);
  if (tokenizer_ == nullptr) {
    PERGOLA_ASSIGN_OR_RETURN(tokenizer_, engine::LoadTokenizer(checkpoint_));
  }
  return tokenizer_.get();
}

Result<std::vector<int32_t>> PartService::EncodeText(const service::SplitCall& call,
                                                     std::string_view text,
                                                     bool add_special_tokens) {
  PERGOLA_RETURN_IF_ERROR(call.Check());
  PERGOLA_ASSIGN_OR_RETURN(const tokenizers::Tokenizer* tokenizer, LoadedTokenizer());
  tokenizers::Encoding encoding;
  tokenizers::EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  PERGOLA_RETURN_IF_ERROR(tokenizer->Encode(text, options, &encoding));
  return encoding.ids;
}

Result<std::string> PartService::DecodeIds(const service::SplitCall& call,
                                           std::span<const int32_t> ids, bool skip_special_tokens) {
  PERGOLA_RETURN_IF_ERROR(call.Check());
  PERGOLA_ASSIGN_OR_RETURN(const tokenizers::Tokenizer* tokenizer, LoadedTokenizer());
  return tokenizer->Decode(ids, skip_special_tokens);
}

Status PartService::Encode(std::span<const std::byte> payload, FrameHeader header,
                           std::string* answer) {
  const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                           EncodeText({}, text, (header.argument & kAddSpecialTokens) != 0));
  header.type = PayloadType::kBytes;
  header.rows = 0;
  header.width = static_cast<uint32_t>(ids.size());
  AppendBytesFrame(
      header, {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)}, answer);
  return OkStatus();
}

Status PartService::Decode(std::span<const std::byte> payload, FrameHeader header,
                           std::string* answer) {
  if (payload.size() != size_t{header.rows} * sizeof(int32_t)) {
    return InvalidArgumentError("a request for " + std::to_string(header.rows) + " ids has " +
                                std::to_string(payload.size()) + " bytes");
  }
  std::vector<int32_t> ids(header.rows);
  if (!ids.empty()) std::memcpy(ids.data(), payload.data(), payload.size());
  const bool skip = (header.argument & kSkipSpecialTokens) != 0;
  std::string texts;
  if ((header.argument & kDecodeEach) == 0) {
    PERGOLA_ASSIGN_OR_RETURN(texts, DecodeIds({}, ids, skip));
  } else {
    for (const int32_t& id : ids) {
      PERGOLA_ASSIGN_OR_RETURN(const std::string text, DecodeIds({}, std::span(&id, 1), skip));
      const auto length = static_cast<uint32_t>(text.size());
      texts.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
    }
  }
  if (texts.size() > kMaxPayloadBytes) return InvalidArgumentError("the text is too long");
  header.type = PayloadType::kBytes;
  header.rows = header.width = 0;
  AppendBytesFrame(header, texts, answer);
  return OkStatus();
}

Status PartService::Ffn(const FrameHeader& request, std::span<const std::byte> payload,
                        FrameHeader header, std::string* answer) {
  const auto layer = static_cast<int64_t>(request.argument);
  if (!facts_.layers.Has(layer)) {
    return InvalidArgumentError("layer " + std::to_string(layer) + " is not here, only " +
                                std::to_string(facts_.layers.first) + "-" +
                                std::to_string(facts_.layers.last));
  }
  if (request.type == PayloadType::kBytes || request.width != facts_.hidden_size) {
    return InvalidArgumentError("rows of " + std::to_string(request.width) +
                                " values, the model's width is " +
                                std::to_string(facts_.hidden_size));
  }
  const auto rows = static_cast<int64_t>(request.rows);
  std::vector<float> values(static_cast<size_t>(2 * rows * facts_.hidden_size));
  const F32Matrix x(values.data(), rows, facts_.hidden_size);
  Job job{layer, x, F32Matrix(values.data() + rows * facts_.hidden_size, rows, facts_.hidden_size)};
  PERGOLA_RETURN_IF_ERROR(DecodeRows(request, payload, x));
  const auto start = Clock::now();
  RunJob(job);
  header.time = MicrosecondsSince(start);
  return AppendRowsFrame(header, job.y, answer);
}

// Most rows that go through the projection together: each has the whole vocabulary as its answer.
constexpr int64_t kMaxJoinedLogits = 32;

// Whoever finds nobody computing takes those that wait for its layer along with its own rows.
void PartService::RunJob(Job& job) {
  std::unique_lock lock(queue_mutex_);
  queue_.push_back(&job);
  changed_.wait(lock, [&] { return job.done || !computing_; });
  if (job.done) return;
  computing_ = true;
  std::erase(queue_, &job);
  std::vector<Job*> together = {&job};
  int64_t rows = job.x.rows;
  std::erase_if(queue_, [&](Job* each) {
    const bool fits = job.layer != kProjection || rows + each->x.rows <= kMaxJoinedLogits;
    if (each->layer != job.layer || !fits) return false;
    together.push_back(each);
    rows += each->x.rows;
    return true;
  });
  lock.unlock();
  RunTogether(together);
  lock.lock();
  for (Job* each : together) each->done = true;
  computing_ = false;
  changed_.notify_all();
}

void PartService::RunTogether(std::span<Job* const> jobs) {
  const std::lock_guard lock(engine_mutex_);
  const ThreadPool::Pass pass(ops_->threads());
  const int64_t layer = jobs.front()->layer;
  if (jobs.size() == 1) return Compute(layer, jobs.front()->x, jobs.front()->y);
  int64_t rows = 0;
  for (const Job* job : jobs) rows += job->x.rows;
  const int64_t width = facts_.hidden_size;
  const int64_t out_width = jobs.front()->y.cols;
  joined_.resize(static_cast<size_t>(rows * (width + out_width)));
  const F32Matrix x(joined_.data(), rows, width);
  const F32Matrix y(joined_.data() + rows * width, rows, out_width);
  int64_t first = 0;
  for (const Job* job : jobs) {
    std::copy_n(job->x.data, job->x.rows * width, x.row(first));
    first += job->x.rows;
  }
  Compute(layer, x, y);
  first = 0;
  for (const Job* job : jobs) {
    std::copy_n(y.row(first), job->y.rows * out_width, job->y.data);
    first += job->y.rows;
  }
}

// Under the engine's mutex.
void PartService::Compute(int64_t layer, ConstF32Matrix x, F32Matrix y) {
  if (layer == kProjection) {
    head_->Apply(*ops_, workspace_, x, y);
  } else {
    ffn_->Apply(layer, x, workspace_, y);
  }
}

Status PartService::PrepareHead() {
  const std::lock_guard lock(engine_mutex_);
  if (head_) return OkStatus();
  const ThreadPool::Pass pass(ops_->threads());
  PERGOLA_ASSIGN_OR_RETURN(
      models::VocabularyHead head,
      models::VocabularyHead::Load(checkpoint_.config, *checkpoint_.source, *ops_, linear_));
  head_ = std::move(head);
  return OkStatus();
}

Status PartService::Logits(const FrameHeader& request, std::span<const std::byte> payload,
                           FrameHeader header, std::string* answer) {
  if (request.type != PayloadType::kF32 || request.rows != 1 ||
      request.width != facts_.hidden_size) {
    return InvalidArgumentError("logits take one f32 row of " + std::to_string(facts_.hidden_size) +
                                " values");
  }
  const bool whole = request.kind == FrameKind::kLogits;
  if (!whole && (request.argument < 1 || request.argument > facts_.vocab_size)) {
    return InvalidArgumentError("the best " + std::to_string(request.argument) +
                                " tokens were asked for, possible are 1 to " +
                                std::to_string(facts_.vocab_size));
  }
  std::vector<float> residual(request.width);
  const F32Matrix row(residual.data(), 1, facts_.hidden_size);
  PERGOLA_RETURN_IF_ERROR(DecodeRows(request, payload, row));
  const auto start = Clock::now();
  std::vector<float> logits(static_cast<size_t>(facts_.vocab_size));
  const F32Matrix out(logits.data(), 1, facts_.vocab_size);
  PERGOLA_RETURN_IF_ERROR(ComputeLogits({}, residual, logits));
  if (whole) {
    header.time = MicrosecondsSince(start);
    return AppendRowsFrame(header, out, answer);
  }
  const engine::TopTokens top = engine::SelectTop(logits, request.argument);
  std::string bytes(reinterpret_cast<const char*>(&top.log_sum_exp), sizeof top.log_sum_exp);
  for (const engine::TokenScore& token : top.tokens) {
    bytes.append(reinterpret_cast<const char*>(&token.id), sizeof token.id);
    bytes.append(reinterpret_cast<const char*>(&token.logit), sizeof token.logit);
  }
  header.type = PayloadType::kBytes;
  header.width = static_cast<uint32_t>(top.tokens.size());
  header.time = MicrosecondsSince(start);
  AppendBytesFrame(header, bytes, answer);
  return OkStatus();
}

}  // namespace pergola::grid
