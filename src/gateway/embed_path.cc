#include "gateway/embed_path.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <utility>

#include "core/finite.h"
#include "gateway/json_writer.h"
#include "service/part_mean.h"

namespace pergola::gateway {
namespace {

std::string JoinNumbers(const std::vector<int64_t>& numbers) {
  std::string out;
  for (const int64_t number : numbers) {
    if (!out.empty()) out.append(", ");
    out.append(std::to_string(number));
  }
  return out;
}

// Rule 5.
MaybeFailure CheckDimensions(const RoutesOptions& options, const service::ModelInfo& info,
                             const EmbedCall& call, int64_t* width) {
  *width = info.width(OutputKind::kEmbedding);
  if (!call.dimensions) return std::nullopt;
  const int64_t asked = *call.dimensions;
  if (asked < 1 || asked > info.width(OutputKind::kEmbedding)) {
    return Failure::Invalid(call.dimensions_field,
                            std::string(call.dimensions_field) + " is " + std::to_string(asked) +
                                ", it must be 1.." +
                                std::to_string(info.width(OutputKind::kEmbedding)));
  }
  const auto& declared = info.matryoshka_widths;
  if (!options.allow_any_dimensions && !declared.empty() &&
      asked != info.width(OutputKind::kEmbedding) &&
      std::find(declared.begin(), declared.end(), asked) == declared.end()) {
    return Failure::Invalid(call.dimensions_field,
                            std::string(call.dimensions_field) + " is " + std::to_string(asked) +
                                ", this model was trained for " + JoinNumbers(declared));
  }
  *width = asked;
  return std::nullopt;
}

// Rule 6, the part that needs the width.
MaybeFailure CheckFormats(const EmbedCall& call, int64_t width) {
  for (const NumberFormat& format : call.formats) {
    if (format.packs_bits() && width % 8 != 0) {
      return Failure::Invalid(
          call.format_field, std::string(call.format_field) + " '" + std::string(format.name) +
                                 "' packs 8 numbers into a byte: the dimensions must be a multiple "
                                 "of 8, not " +
                                 std::to_string(width));
    }
  }
  return std::nullopt;
}

MaybeFailure CheckMaxTokens(const ServedModel& model, const EmbedCall& call) {
  if (!call.max_tokens) return std::nullopt;
  const int64_t special =
      call.inputs.ids.empty()
          ? static_cast<int64_t>(model.text->tokenizer().num_added_tokens(false))
          : 0;
  if (*call.max_tokens > special) return std::nullopt;
  return Failure::Invalid(call.max_tokens_field,
                          std::string(call.max_tokens_field) + " is " +
                              std::to_string(*call.max_tokens) + ", it must be more than " +
                              std::to_string(special) + ", the number of special tokens");
}

MaybeFailure CheckPrompt(const ServedModel& model, const text::PrepareOptions& options) {
  constexpr size_t kLongestName = 100;  // what TextModel may echo
  if (options.prompt_name && options.prompt_name->size() > kLongestName) {
    return Failure::Invalid("prompt_name",
                            "prompt_name '" + Excerpt(*options.prompt_name) + "' is not known");
  }
  const Result<std::string> prompt = model.text->ResolvePrompt(options);
  if (prompt.ok()) return std::nullopt;
  return Failure{prompt.status(), "prompt_name", "", false};
}

text::PrepareOptions ToPrepareOptions(const ServedModel& model, const EmbedCall& call) {
  text::PrepareOptions options;
  options.prompt_name = call.prompt_name;
  options.prompt = call.prompt;
  options.role = call.role;
  options.truncate = call.truncate;
  options.side = call.side;
  if (call.max_tokens) options.max_tokens = std::min(*call.max_tokens, model.info.max_tokens);
  return options;
}

// What the model gives for the call, and how pairs are scored; false: the model cannot serve it.
bool ChooseOutput(const service::ModelInfo& info, const EmbedCall& call, EmbedAnswer* answer) {
  const auto take = [&](OutputKind kind) {
    answer->kind = kind;
    return info.has(kind);
  };
  switch (call.ask) {
    case Ask::kEmbeddings:
    case Ask::kSimilarity:
      return take(OutputKind::kEmbedding);
    case Ask::kTokenVectors:
      return take(OutputKind::kMultiVector) || take(OutputKind::kTokenVectors);
    case Ask::kSparse:
      return take(OutputKind::kSparse);
    case Ask::kLabels:
      return take(OutputKind::kLogits);
    case Ask::kScores:
    case Ask::kRanking:
      break;
  }
  if (info.width(OutputKind::kLogits) == 1) {
    answer->scoring = Scoring::kClassifier;
    return take(OutputKind::kLogits);
  }
  if (info.has(OutputKind::kMultiVector)) {
    answer->scoring = Scoring::kMaxSim;
    return take(OutputKind::kMultiVector);
  }
  return call.ask == Ask::kScores && take(OutputKind::kEmbedding);
}

std::string_view AbilityOf(Ask ask) {
  switch (ask) {
    case Ask::kEmbeddings:
      return "embeddings";
    case Ask::kTokenVectors:
      return "token vectors";
    case Ask::kSparse:
      return "sparse embeddings";
    case Ask::kSimilarity:
      return "similarity";
    case Ask::kScores:
      return "scores of pairs";
    case Ask::kRanking:
      return "reranking";
    case Ask::kLabels:
      return "classification (predict)";
  }
  return "";
}

// Rule 13.
MaybeFailure CheckAbility(const ServedModel& model, const EmbedCall& call, EmbedAnswer* answer) {
  if (!ChooseOutput(model.info, call, answer)) return LacksAbility(model, AbilityOf(call.ask));
  if (call.document_sizes.empty() || model.info.chunk_separator >= 0) return std::nullopt;
  if (!call.late_chunking) return LacksAbility(model, "contextual embedding of chunks");
  if (model.info.pooling != "mean") return LacksAbility(model, "late chunking");
  return std::nullopt;
}

// A sequence of the request: which inputs it is made of.
struct Piece {
  InputPair inputs;
  size_t chunks = 0;  // of a document, from inputs.first on; 0: no document
};

std::vector<Piece> PiecesOf(const EmbedCall& call, const EmbedAnswer& answer) {
  std::vector<Piece> pieces;
  if (answer.kind == OutputKind::kLogits) {
    for (const InputPair& pair : call.pairs) pieces.push_back({pair, 0});
    return pieces;
  }
  size_t first = 0;
  for (const size_t chunks : call.document_sizes) {
    pieces.push_back({{first, InputPair::kNone}, chunks});
    first += chunks;
  }
  for (; first < call.inputs.size(); ++first) pieces.push_back({{first, InputPair::kNone}, 0});
  return pieces;
}

Result<text::PreparedText> PreparePiece(const ServedModel& model, EmbedCall& call,
                                        const text::PrepareOptions& options, const Piece& piece) {
  const std::vector<std::string>& texts = call.inputs.texts;
  const auto [first, second] = piece.inputs;
  if (!call.inputs.ids.empty()) {
    return model.text->PrepareIds(std::move(call.inputs.ids[first]), options);
  }
  if (piece.chunks > 0) {
    return model.text->PrepareDocument(std::span(texts).subspan(first, piece.chunks),
                                       model.info.chunk_separator, options);
  }
  if (second == InputPair::kNone) return model.text->Prepare(texts[first], options);
  return model.text->PreparePair(texts[first], texts[second], options, call.max_second_tokens);
}

// Where a client finds the input that a piece is about.
std::string PlaceOf(const EmbedCall& call, const Piece& piece, size_t piece_index) {
  const std::string field(call.input_field);
  size_t index = piece.inputs.first;
  if (piece.chunks > 0) {
    index = piece_index;
  } else if (call.ask == Ask::kRanking) {  // input 0 is the query
    if (piece.inputs.second == InputPair::kNone && index == 0) return "query";
    index = piece.inputs.second == InputPair::kNone ? index - 1 : piece.inputs.second - 1;
  } else if (call.inputs.size() == 1) {
    return field;
  }
  return field + "[" + std::to_string(index) + "]";
}

// Texts that are too long become several sequences (docs/http.md, "Long texts").
MaybeFailure TokeniseParts(const ServedModel& model, EmbedCall& call, const GivenUp& given_up,
                           PreparedEmbed* prepared) {
  const text::PrepareOptions options = ToPrepareOptions(model, call);
  if (MaybeFailure failure = CheckPrompt(model, options)) return failure;
  EmbedAnswer& answer = *prepared->answer;
  const std::vector<Piece> pieces = PiecesOf(call, answer);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (MaybeFailure failure = given_up()) return failure;
    Result<text::PreparedParts> input = model.text->PrepareParts(call.inputs.texts[i], options);
    if (!input.ok()) {
      return Failure{input.status().WithContext(PlaceOf(call, pieces[i], i)),
                     std::string(call.input_field), "", false};
    }
    for (Sequence& sequence : input->sequences) {
      answer.tokens += sequence.tokens();
      prepared->request.sequences.push_back(std::move(sequence));
    }
    answer.parts.push_back(std::move(input->tokens));
    answer.embeddings.push_back({i, 0});
  }
  answer.sequences = prepared->request.sequences.size();
  return std::nullopt;
}

// Whether long texts are to be averaged: embeddings of texts, and no lower limit asked for.
bool AveragesLong(const RoutesOptions& options, const EmbedCall& call) {
  return call.average_long.value_or(options.average_long) && call.ask == Ask::kEmbeddings &&
         call.inputs.ids.empty() && call.document_sizes.empty() && !call.max_tokens;
}

// One output per input.
std::vector<std::shared_ptr<const service::SequenceOutput>> FoldParts(
    const std::vector<std::shared_ptr<const service::SequenceOutput>>& outputs,
    const EmbedAnswer& answer) {
  std::vector<std::shared_ptr<const service::SequenceOutput>> folded;
  size_t next = 0;
  for (const std::vector<int64_t>& tokens : answer.parts) {
    if (tokens.size() == 1) {
      folded.push_back(outputs[next++]);
      continue;
    }
    std::vector<service::PartRow> rows;
    for (const int64_t weight : tokens) {
      rows.push_back({(*outputs[next++])[answer.kind].values, weight});
    }
    auto mean = std::make_shared<service::SequenceOutput>();
    service::Rows& row = (*mean)[answer.kind];
    row.values = service::MeanOfParts(rows, answer.served->info.normalises);
    row.rows = 1;
    row.width = static_cast<int64_t>(row.values.size());
    folded.push_back(std::move(mean));
  }
  return folded;
}

MaybeFailure Tokenise(const ServedModel& model, EmbedCall& call, const GivenUp& given_up,
                      PreparedEmbed* prepared) {
  const text::PrepareOptions options = ToPrepareOptions(model, call);
  if (MaybeFailure failure = CheckPrompt(model, options)) return failure;
  EmbedAnswer& answer = *prepared->answer;
  const std::vector<Piece> pieces = PiecesOf(call, answer);
  prepared->request.sequences.reserve(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (MaybeFailure failure = given_up()) return failure;
    Result<text::PreparedText> input = PreparePiece(model, call, options, pieces[i]);
    if (!input.ok()) {
      return Failure{input.status().WithContext(PlaceOf(call, pieces[i], i)),
                     std::string(call.input_field), "", false};
    }
    answer.tokens += input->sequence.tokens();
    answer.truncated += input->truncated ? 1 : 0;
    if (answer.kind == OutputKind::kSparse) answer.ids.push_back(input->sequence.ids);
    const int64_t rows = input->sequence.rows(answer.kind);
    for (int64_t row = 0; answer.kind == OutputKind::kEmbedding && row < rows; ++row) {
      answer.embeddings.push_back({i, row});
    }
    prepared->request.sequences.push_back(std::move(input->sequence));
  }
  answer.sequences = pieces.size();
  return std::nullopt;
}

}  // namespace

// Unique within and across processes, as a UUID looks. Not a secret.
std::string MakeAnswerId() {
  static const uint64_t process_seed = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  static std::atomic<uint64_t> counter{0};
  const uint64_t number = counter.fetch_add(1, std::memory_order_relaxed);
  // splitmix64: a bijection of the counter, so ids of a process never repeat.
  uint64_t mixed = process_seed + (number + 1) * 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  mixed ^= mixed >> 31;
  constexpr char kHex[] = "0123456789abcdef";
  std::string id;
  for (int digit = 0; digit < 32; ++digit) {
    if (digit == 8 || digit == 12 || digit == 16 || digit == 20) id.push_back('-');
    const uint64_t half = digit < 16 ? process_seed : mixed;
    id.push_back(digit == 12 ? '4' : digit == 16 ? 'a' : kHex[half >> (60 - digit % 16 * 4) & 15]);
  }
  return id;
}

MaybeFailure ResolveModel(const RoutesOptions& options, std::string_view name, bool exact,
                          const ServedModel** model) {
  *model = &options.models.front();
  const bool any = options.models.size() == 1 && !options.strict_model;
  if (!exact && (any || name.empty())) return std::nullopt;
  constexpr std::string_view kTag = ":latest";  // how Ollama's clients complete a name
  for (const ServedModel& candidate : options.models) {
    const std::string& id = candidate.info.id;
    if (name == id ||
        (name.size() == id.size() + kTag.size() && name.starts_with(id) && name.ends_with(kTag))) {
      *model = &candidate;
      return std::nullopt;
    }
  }
  return Failure{NotFoundError("model '" + Excerpt(name) + "' is not served here"), "model",
                 "model_not_found", false};
}

Failure LacksAbility(const ServedModel& model, std::string_view ability) {
  const service::ModelInfo& info = model.info;
  std::string can;
  const auto add = [&can](bool does, std::string_view what) {
    if (does) can.append(can.empty() ? "" : ", ").append(what);
  };
  add(info.has(OutputKind::kEmbedding), "embeds texts");
  add(info.has(OutputKind::kEmbedding), "scores pairs by cosine (/score, /similarity)");
  add(info.has(OutputKind::kTokenVectors), "gives token vectors (/embed_all)");
  add(info.has(OutputKind::kSparse), "gives sparse embeddings (/embed_sparse)");
  add(info.width(OutputKind::kLogits) == 1 || info.has(OutputKind::kMultiVector),
      "reranks (/rerank, /score)");
  add(info.has(OutputKind::kLogits), "classifies (/predict)");
  return Failure::Invalid("", "the model '" + Excerpt(info.id) + "' does not support " +
                                  std::string(ability) + "; it " + can);
}

MaybeFailure PrepareEmbed(const RoutesOptions& options, EmbedCall call, const GivenUp& given_up,
                          PreparedEmbed* prepared) {
  if (MaybeFailure failure = ResolveModel(options, call.model, false, &prepared->model)) {
    return failure;
  }
  const ServedModel& model = *prepared->model;
  prepared->answer = std::make_shared<EmbedAnswer>();
  EmbedAnswer& answer = *prepared->answer;
  answer.served = &model;
  if (MaybeFailure failure = CheckAbility(model, call, &answer)) return failure;
  if (MaybeFailure failure = CheckDimensions(options, model.info, call, &answer.width)) {
    return failure;
  }
  if (MaybeFailure failure = CheckFormats(call, answer.width)) return failure;
  if (MaybeFailure failure = CheckMaxTokens(model, call)) return failure;
  const auto tokenise = AveragesLong(options, call) ? TokeniseParts : Tokenise;
  if (MaybeFailure failure = tokenise(model, call, given_up, prepared)) return failure;
  prepared->request.model = model.info.id;
  prepared->request.outputs = {answer.kind};
  prepared->request.keep_alive = call.keep_alive;
  answer.model = call.model.empty() ? model.info.id : call.model;
  answer.id = MakeAnswerId();
  answer.normalise = call.normalise.value_or(model.info.normalises);
  answer.call = std::move(call);
  return std::nullopt;
}

Status TakeRows(service::InferenceOutput output, EmbedAnswer* answer) {
  if (output.sequences.size() != answer->sequences) {
    return InternalError("the engine answered " + std::to_string(output.sequences.size()) +
                         " sequences for " + std::to_string(answer->sequences));
  }
  const int64_t width = answer->kind == OutputKind::kEmbedding
                            ? answer->width
                            : answer->served->info.width(answer->kind);
  for (const auto& sequence : output.sequences) {
    const service::Rows none;
    const service::Rows& rows = sequence == nullptr ? none : (*sequence)[answer->kind];
    if (rows.rows < 1 || rows.width < width ||
        rows.values.size() != static_cast<size_t>(rows.rows * rows.width)) {
      return InternalError("the engine answered rows of the wrong size");
    }
    if (!AllFinite(rows.values)) {
      return InternalError("the engine computed a number that is not finite");
    }
  }
  if (!answer->parts.empty()) output.sequences = FoldParts(output.sequences, *answer);
  for (const EmbedAnswer::Place& place : answer->embeddings) {
    if (place.row >= (*output.sequences[place.sequence])[answer->kind].rows) {
      return InternalError("the engine answered fewer rows than a document has chunks");
    }
  }
  answer->outputs = std::move(output.sequences);
  answer->promise = std::move(output.promise);
  return OkStatus();
}

}  // namespace pergola::gateway
