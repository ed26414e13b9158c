#include "tokenizers/pipeline.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "core/check.h"
#include "tokenizers/cut_finder.h"
#include "tokenizers/text_window.h"
#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

constexpr size_t kChunkBytes = 4096;
constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

// Tokens of one text before special tokens are added.
struct TokenRun {
  std::vector<TokenId> ids;
  std::vector<ByteSpan> offsets;  // empty without offsets
  bool complete = true;           // all of the text was tokenised
  std::string_view text;          // what is tokenised
  size_t begin = 0;               // byte of the text where the run begins
};

// Working memory of one Encode.
struct Scratch {
  NormalizedText normalized;
  std::vector<TextSpan> pieces;
  std::vector<ModelToken> tokens;
  ModelScratch model;
  std::string word;
};

// Keeps `count` tokens of the run.
void Cut(size_t count, TruncationSide side, TokenRun* run) {
  if (run->ids.size() <= count) return;
  const auto surplus = static_cast<ptrdiff_t>(run->ids.size() - count);
  if (side == TruncationSide::kLeft) {
    run->ids.erase(run->ids.begin(), run->ids.begin() + surplus);
    if (!run->offsets.empty()) {
      run->offsets.erase(run->offsets.begin(), run->offsets.begin() + surplus);
    }
  } else {
    run->ids.resize(count);
    if (!run->offsets.empty()) run->offsets.resize(count);
  }
}

class PipelineTokenizer final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Make(PipelineParts parts);

  std::string_view kind() const override { return parts_.model->kind(); }
  Status Encode(std::string_view text, const EncodeOptions& options,
                Encoding* encoding) const override;
  Status EncodePair(std::string_view first, std::string_view second, const EncodeOptions& options,
                    Encoding* encoding) const override;
  Result<std::string> Decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  size_t vocab_size() const override { return vocab_size_; }
  std::string_view IdToToken(TokenId id) const override;
  TokenId TokenToId(std::string_view token) const override;
  bool IsSpecial(TokenId id) const override {
    return id >= 0 && static_cast<size_t>(id) < special_.size() &&
           special_[static_cast<size_t>(id)] != 0;
  }
  size_t num_added_tokens(bool pair) const override {
    return parts_.post_processor.NumAddedTokens(pair);
  }

 private:
  explicit PipelineTokenizer(PipelineParts parts);
  Status AddTokens();
  Status CheckPostProcessor() const;

  // Tokens of `text`, all or (complete = false) at least `enough` from the side that truncation
  // keeps.
  Status Run(std::string_view text, size_t enough, const EncodeOptions& options,
             TokenRun* run) const;
  Status RunFromRight(std::string_view text, size_t enough, const EncodeOptions& options,
                      TokenRun* run) const;
  // Stops once there are `enough` tokens.
  Status RunFrom(std::string_view text, size_t begin, size_t enough, bool with_offsets,
                 TokenRun* run) const;

  // text[begin, end) holds no added token that is looked for before normalisation.
  void TokenizeChunk(std::string_view text, size_t begin, size_t end, bool with_offsets,
                     Scratch* scratch, TokenRun* run) const;
  void TokenizeBertChunk(std::string_view text, size_t begin, size_t end, bool with_offsets,
                         Scratch* scratch, TokenRun* run) const;
  void TokenizeAsciiWords(std::string_view text, size_t begin, size_t end, bool with_offsets,
                          Scratch* scratch, TokenRun* run) const;
  void TokenizeNormalized(std::string_view text, size_t begin, size_t end, bool with_offsets,
                          Scratch* scratch, TokenRun* run) const;
  void TokenizePieces(size_t begin, size_t end, Scratch* scratch, TokenRun* run) const;

  struct PairRuns {
    TokenRun first;
    TokenRun second;
  };
  Status RunPair(std::string_view first, std::string_view second, size_t budget,
                 const EncodeOptions& options, PairRuns* runs) const;
  // `token`: the text that was matched, with white space that it took.
  void PushAdded(TokenId id, ByteSpan span, std::string_view token, bool with_offsets,
                 TokenRun* run) const;
  void PushPiece(TokenId id, ByteSpan span, TokenRun* run) const;
  ByteSpan Trimmed(ByteSpan span, std::string_view token, const TokenRun& run) const;
  void Assemble(const std::vector<TemplatePiece>& pieces, const TokenRun& first,
                const TokenRun& second, const EncodeOptions& options, Encoding* encoding) const;
  size_t Budget(const EncodeOptions& options, bool pair) const {
    const size_t added = options.add_special_tokens ? num_added_tokens(pair) : 0;
    return options.max_tokens > added ? options.max_tokens - added : 0;
  }

  PipelineParts parts_;
  AddedTokenMatcher raw_;                  // looked for before normalisation
  AddedTokenMatcher normalized_;           // looked for after it
  std::vector<std::string> extra_tokens_;  // added tokens with ids from model.id_limit() on
  std::map<std::string, TokenId, std::less<>> extra_ids_;
  // What the reference library calls added tokens that are changed by normalisation.
  std::map<TokenId, std::string> normalized_names_;
  std::vector<uint8_t> special_;  // by id
  size_t vocab_size_ = 0;
  std::unique_ptr<CutFinder> cuts_;
};

PipelineTokenizer::PipelineTokenizer(PipelineParts parts) : parts_(std::move(parts)) {}

Result<std::unique_ptr<Tokenizer>> PipelineTokenizer::Make(PipelineParts parts) {
  std::unique_ptr<PipelineTokenizer> tokenizer(new PipelineTokenizer(std::move(parts)));
  PERGOLA_RETURN_IF_ERROR(tokenizer->AddTokens());
  PERGOLA_RETURN_IF_ERROR(tokenizer->CheckPostProcessor());
  tokenizer->cuts_ = std::make_unique<CutFinder>(tokenizer->parts_, tokenizer->raw_,
                                                 !tokenizer->normalized_.empty());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

Status PipelineTokenizer::AddTokens() {
  const TokenModel& model = *parts_.model;
  vocab_size_ = model.id_limit();
  special_.assign(vocab_size_, 0);
  NormalizedText scratch;
  for (const AddedToken& token : parts_.added_tokens) {
    if (token.content.empty()) continue;
    TokenId id = TokenToId(token.content);
    if (id < 0) {
      id = static_cast<TokenId>(vocab_size_++);
      extra_tokens_.push_back(token.content);
      extra_ids_.emplace(token.content, id);
      special_.push_back(0);
    }
    if (token.special) special_[static_cast<size_t>(id)] = 1;
    if (!token.normalized) {
      raw_.Insert(token, token.content, id);
      continue;
    }
    scratch.Assign(token.content, 0, false);
    if (parts_.normalizer) parts_.normalizer->Apply(&scratch);
    normalized_.Insert(token, scratch.text(), id);
    if (scratch.text() != token.content) normalized_names_[id] = scratch.text();
  }
  return OkStatus();
}

Status PipelineTokenizer::CheckPostProcessor() const {
  for (const auto* pieces : {&parts_.post_processor.single, &parts_.post_processor.pair}) {
    for (const TemplatePiece& piece : *pieces) {
      for (const TokenId id : piece.ids) {
        if (id >= 0 && static_cast<size_t>(id) < vocab_size_) continue;
        return InvalidArgumentError("post_processor: special token id " + std::to_string(id) +
                                    " is outside the vocabulary of " + std::to_string(vocab_size_));
      }
    }
  }
  return OkStatus();
}

std::string_view PipelineTokenizer::IdToToken(TokenId id) const {
  const size_t model_limit = parts_.model->id_limit();
  if (id < 0 || static_cast<size_t>(id) >= vocab_size_) return {};
  const auto index = static_cast<size_t>(id);
  if (const auto name = normalized_names_.find(id); name != normalized_names_.end()) {
    return name->second;
  }
  return index < model_limit ? parts_.model->IdToToken(id)
                             : std::string_view(extra_tokens_[index - model_limit]);
}

TokenId PipelineTokenizer::TokenToId(std::string_view token) const {
  const TokenId id = parts_.model->TokenToId(token);
  if (id >= 0) return id;
  const auto found = extra_ids_.find(token);
  return found == extra_ids_.end() ? -1 : found->second;
}

void PipelineTokenizer::TokenizePieces(size_t begin, size_t end, Scratch* scratch,
                                       TokenRun* run) const {
  const std::string_view text = scratch->normalized.text();
  scratch->pieces.assign(1, {begin, end});
  if (parts_.pretokenizer) parts_.pretokenizer->Split(text, &scratch->pieces);
  for (const TextSpan piece : scratch->pieces) {
    scratch->tokens.clear();
    parts_.model->Tokenize(text.substr(piece.begin, piece.end - piece.begin), &scratch->model,
                           &scratch->tokens);
    for (const ModelToken& token : scratch->tokens) {
      if (!scratch->normalized.with_offsets()) {
        run->ids.push_back(token.id);
        continue;
      }
      PushPiece(token.id,
                scratch->normalized.Original(piece.begin + token.begin, piece.begin + token.end),
                run);
    }
  }
}

void PipelineTokenizer::TokenizeNormalized(std::string_view text, size_t begin, size_t end,
                                           bool with_offsets, Scratch* scratch,
                                           TokenRun* run) const {
  NormalizedText& normalized = scratch->normalized;
  normalized.Assign(text.substr(begin, end - begin), begin, with_offsets);
  if (parts_.normalizer) parts_.normalizer->Apply(&normalized);
  const std::string_view all = normalized.text();
  size_t from = 0;
  size_t scan = 0;
  while (!normalized_.empty()) {
    const auto match = normalized_.FindNext(all, scan, from, all.size());
    if (!match) break;
    if (match->begin > from) TokenizePieces(from, match->begin, scratch, run);
    const ByteSpan span = with_offsets ? normalized.Original(match->begin, match->end) : ByteSpan{};
    PushAdded(match->id, span, all.substr(match->begin, match->end - match->begin), with_offsets,
              run);
    from = match->end;
    scan = match->scan_end;
  }
  if (from < all.size()) TokenizePieces(from, all.size(), scratch, run);
}

void PipelineTokenizer::TokenizeAsciiWords(std::string_view text, size_t begin, size_t end,
                                           bool with_offsets, Scratch* scratch,
                                           TokenRun* run) const {
  const auto emit = [&](size_t from, size_t to) {
    if (to == from) return;
    scratch->tokens.clear();
    parts_.model->Tokenize(std::string_view(scratch->word).substr(from, to - from), &scratch->model,
                           &scratch->tokens);
    for (const ModelToken& token : scratch->tokens) {
      if (with_offsets) {
        PushPiece(token.id, {begin + from + token.begin, begin + from + token.end}, run);
      } else {
        run->ids.push_back(token.id);
      }
    }
  };
  scratch->word.assign(text.substr(begin, end - begin));
  size_t from = 0;
  for (size_t i = 0; i < scratch->word.size(); ++i) {
    char& c = scratch->word[i];
    if (parts_.bert_lowercase && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool alphanumeric =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
    if (alphanumeric) continue;
    emit(from, i);
    emit(i, i + 1);
    from = i + 1;
  }
  emit(from, scratch->word.size());
}

// Words of printable ASCII take the short way, stretches with anything else the long one.
void PipelineTokenizer::TokenizeBertChunk(std::string_view text, size_t begin, size_t end,
                                          bool with_offsets, Scratch* scratch,
                                          TokenRun* run) const {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  size_t slow_begin = begin;  // of a stretch for the long way
  bool slow = false;
  for (size_t pos = begin; pos < end;) {
    if (is_space(text[pos])) {
      ++pos;
      continue;
    }
    const size_t word = pos;
    bool plain = true;
    for (; pos < end && !is_space(text[pos]); ++pos) plain &= text[pos] > ' ' && text[pos] < 0x7F;
    if (!plain) {
      if (!slow) slow_begin = word;
      slow = true;
      continue;
    }
    if (slow) TokenizeNormalized(text, slow_begin, word, with_offsets, scratch, run);
    slow = false;
    TokenizeAsciiWords(text, word, pos, with_offsets, scratch, run);
  }
  if (slow) TokenizeNormalized(text, slow_begin, end, with_offsets, scratch, run);
}

void PipelineTokenizer::TokenizeChunk(std::string_view text, size_t begin, size_t end,
                                      bool with_offsets, Scratch* scratch, TokenRun* run) const {
  if (begin >= end) return;
  if (parts_.bert_ascii && normalized_.empty()) {
    TokenizeBertChunk(text, begin, end, with_offsets, scratch, run);
  } else {
    TokenizeNormalized(text, begin, end, with_offsets, scratch, run);
  }
}

Status PipelineTokenizer::RunFrom(std::string_view text, size_t begin, size_t enough,
                                  bool with_offsets, TokenRun* run) const {
  run->text = text;
  run->begin = begin;
  TextWindow window(text, begin);
  Scratch scratch;
  if (raw_.LooksRight()) PERGOLA_RETURN_IF_ERROR(window.CheckUntil(text.size()));
  size_t from = begin;  // all before is tokenised
  size_t scan = begin;  // no added token starts between `from` and here
  size_t step = kChunkBytes;
  while (from < text.size()) {
    if (run->ids.size() >= enough) {
      run->complete = false;
      return OkStatus();
    }
    const size_t wanted = std::min(text.size(), std::max(scan, from) + step);
    PERGOLA_RETURN_IF_ERROR(window.CheckUntil(wanted));
    const size_t limit = std::min(std::max(wanted, from), window.checked());
    if (const auto match = raw_.FindNext(text, scan, from, limit)) {
      TokenizeChunk(text, from, match->begin, with_offsets, &scratch, run);
      PushAdded(match->id, {match->begin, match->end},
                text.substr(match->begin, match->end - match->begin), with_offsets, run);
      from = match->end;
      scan = match->scan_end;
      step = kChunkBytes;
      PERGOLA_RETURN_IF_ERROR(window.CheckUntil(from));
      continue;
    }
    scan = std::max(scan, limit);
    const size_t cut = limit == text.size() ? limit : cuts_->FindLast(text, from, limit);
    if (cut == from) {
      step *= 2;
      continue;
    }
    TokenizeChunk(text, from, cut, with_offsets, &scratch, run);
    from = cut;
    step = kChunkBytes;
  }
  return OkStatus();
}

Status PipelineTokenizer::RunFromRight(std::string_view text, size_t enough,
                                       const EncodeOptions& options, TokenRun* run) const {
  for (size_t tail = kChunkBytes; tail < text.size(); tail *= 4) {
    size_t start = text.size() - tail;
    for (int i = 0; i < 3 && IsUtf8Continuation(text[start]); ++i) ++start;
    const size_t bad = FindInvalidUtf8(text.substr(start));
    if (bad != kValidUtf8) return InvalidUtf8Error(start + bad);
    // One code point in, so that the one before a cut is known.
    const size_t cut = cuts_->FindFirst(text, start + Utf8Length(text[start]));
    if (cut == text.size()) continue;
    *run = {};
    PERGOLA_RETURN_IF_ERROR(RunFrom(text, cut, kUnlimited, options.with_offsets, run));
    run->complete = false;
    if (run->ids.size() >= enough) return OkStatus();
  }
  *run = {};
  return RunFrom(text, 0, kUnlimited, options.with_offsets, run);
}

Status PipelineTokenizer::Run(std::string_view text, size_t enough, const EncodeOptions& options,
                              TokenRun* run) const {
  if (text.size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgumentError("a text of " + std::to_string(text.size()) +
                                " bytes; the limit is 4 GiB");
  }
  *run = {};
  if (options.side == TruncationSide::kLeft && enough != kUnlimited) {
    PERGOLA_RETURN_IF_ERROR(RunFromRight(text, enough, options, run));
  } else {
    PERGOLA_RETURN_IF_ERROR(RunFrom(text, 0, enough, options.with_offsets, run));
  }
  return OkStatus();
}

// As the byte-level post-processing of the reference library: white space at the ends of `token`,
// also as "Ġ", is not part of its place.
ByteSpan PipelineTokenizer::Trimmed(ByteSpan span, std::string_view token,
                                    const TokenRun& run) const {
  const auto is_space = [](char32_t c) { return c == U'\u0120' || HasFlag(c, kWhitespace); };
  size_t leading = 0;
  for (size_t pos = 0; pos < token.size() && is_space(DecodeUtf8(token, &pos));) ++leading;
  size_t trailing = 0;
  for (size_t pos = token.size(); pos > 0; ++trailing) {
    pos = PreviousUtf8(token, pos);
    size_t next = pos;
    if (!is_space(DecodeUtf8(token, &next))) break;
  }
  const bool first = span.begin == 0 || (run.ids.empty() && run.begin == 0);
  if (leading > 0 && first && parts_.post_processor.add_prefix_space) --leading;
  for (; leading > 0 && span.begin < span.end; --leading) {
    span.begin += Utf8Length(run.text[span.begin]);
  }
  for (; trailing > 0 && span.end > span.begin; --trailing) {
    span.end = PreviousUtf8(run.text, span.end);
  }
  return span;
}

void PipelineTokenizer::PushAdded(TokenId id, ByteSpan span, std::string_view token,
                                  bool with_offsets, TokenRun* run) const {
  if (with_offsets) {
    run->offsets.push_back(parts_.post_processor.trim_offsets ? Trimmed(span, token, *run) : span);
  }
  run->ids.push_back(id);
}

void PipelineTokenizer::PushPiece(TokenId id, ByteSpan span, TokenRun* run) const {
  PushAdded(id, span, parts_.post_processor.trim_offsets ? IdToToken(id) : "", true, run);
}

void PipelineTokenizer::Assemble(const std::vector<TemplatePiece>& pieces, const TokenRun& first,
                                 const TokenRun& second, const EncodeOptions& options,
                                 Encoding* encoding) const {
  using Kind = TemplatePiece::Kind;
  for (const TemplatePiece& piece : pieces) {
    const bool special = piece.kind == Kind::kSpecial;
    if (special && !options.add_special_tokens) continue;
    const TokenRun& run = piece.kind == Kind::kSecond ? second : first;
    const std::vector<TokenId>& ids = special ? piece.ids : run.ids;
    encoding->ids.insert(encoding->ids.end(), ids.begin(), ids.end());
    encoding->type_ids.insert(encoding->type_ids.end(), ids.size(), piece.type_id);
    if (!options.with_offsets) continue;
    encoding->special_mask.insert(encoding->special_mask.end(), ids.size(), special ? 1 : 0);
    if (special) {
      encoding->offsets.insert(encoding->offsets.end(), ids.size(), ByteSpan{});
    } else {
      encoding->offsets.insert(encoding->offsets.end(), run.offsets.begin(), run.offsets.end());
    }
  }
  // A limit below the number of special tokens: the closing one stays.
  if (encoding->ids.size() <= options.max_tokens) return;
  const size_t surplus = encoding->ids.size() - options.max_tokens;
  const auto cut = [&](auto* values) {
    if (values->empty()) return;
    const size_t kept = options.max_tokens > 0 ? 1 : 0;
    const auto end = values->end() - static_cast<ptrdiff_t>(kept);
    values->erase(end - static_cast<ptrdiff_t>(surplus), end);
  };
  cut(&encoding->ids);
  cut(&encoding->type_ids);
  cut(&encoding->offsets);
  cut(&encoding->special_mask);
}

Status PipelineTokenizer::Encode(std::string_view text, const EncodeOptions& options,
                                 Encoding* encoding) const {
  encoding->clear();
  const size_t budget = Budget(options, false);
  TokenRun run;
  const size_t enough = options.max_tokens == kUnlimited ? kUnlimited : budget + 1;
  PERGOLA_RETURN_IF_ERROR(Run(text, enough, options, &run));
  const size_t added = options.add_special_tokens ? num_added_tokens(false) : 0;
  encoding->total_tokens = run.ids.size() + added;
  encoding->total_is_exact = run.complete;
  encoding->truncated = encoding->total_tokens > options.max_tokens;
  Cut(budget, options.side, &run);
  Assemble(parts_.post_processor.single, run, {}, options, encoding);
  return OkStatus();
}

// Tokenises both texts far enough to cut them, longest first. Which of two long texts is the longer
// one decides who keeps the odd token, so work goes on until that is known.
Status PipelineTokenizer::RunPair(std::string_view first, std::string_view second, size_t budget,
                                  const EncodeOptions& options, PairRuns* runs) const {
  size_t enough = options.max_tokens == kUnlimited ? kUnlimited : budget + 1;
  while (true) {
    PERGOLA_RETURN_IF_ERROR(Run(first, enough, options, &runs->first));
    PERGOLA_RETURN_IF_ERROR(Run(second, enough, options, &runs->second));
    const size_t a = runs->first.ids.size();
    const size_t b = runs->second.ids.size();
    const bool order_known = (runs->first.complete && runs->second.complete) ||
                             (runs->first.complete && b > a) || (runs->second.complete && a > b);
    if (order_known || budget % 2 == 0) return OkStatus();
    enough = enough > kUnlimited / 4 ? kUnlimited : enough * 4;
  }
}

Status PipelineTokenizer::EncodePair(std::string_view first, std::string_view second,
                                     const EncodeOptions& options, Encoding* encoding) const {
  encoding->clear();
  const size_t budget = Budget(options, true);
  PairRuns runs;
  PERGOLA_RETURN_IF_ERROR(RunPair(first, second, budget, options, &runs));
  const size_t added = options.add_special_tokens ? num_added_tokens(true) : 0;
  const size_t a = runs.first.ids.size();
  const size_t b = runs.second.ids.size();
  encoding->total_tokens = a + b + added;
  encoding->total_is_exact = runs.first.complete && runs.second.complete;
  encoding->truncated = encoding->total_tokens > options.max_tokens;
  if (a + b > budget) {
    size_t shorter = std::min(a, b);
    size_t longer = shorter > budget ? shorter : std::max(shorter, budget - shorter);
    if (shorter + longer > budget) {
      shorter = budget / 2;
      longer = shorter + budget % 2;
    }
    Cut(a > b ? longer : shorter, options.side, &runs.first);
    Cut(a > b ? shorter : longer, options.side, &runs.second);
  }
  Assemble(parts_.post_processor.pair, runs.first, runs.second, options, encoding);
  return OkStatus();
}

Result<std::string> PipelineTokenizer::Decode(std::span<const TokenId> ids,
                                              bool skip_special_tokens) const {
  std::vector<std::string> pieces;
  pieces.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<size_t>(ids[i]) >= vocab_size_) {
      return OutOfRangeError("token id " + std::to_string(ids[i]) + " at index " +
                             std::to_string(i) + " is outside the vocabulary of " +
                             std::to_string(vocab_size_));
    }
    if (skip_special_tokens && IsSpecial(ids[i])) continue;
    const std::string_view token = IdToToken(ids[i]);
    if (!token.empty()) pieces.emplace_back(token);
  }
  if (parts_.decoder) parts_.decoder->Apply(&pieces);
  std::string text;
  for (const std::string& piece : pieces) {
    if (!parts_.decoder && !text.empty()) text += ' ';
    text += piece;
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakePipelineTokenizer(PipelineParts parts) {
  PERGOLA_CHECK(parts.model != nullptr);
  return PipelineTokenizer::Make(std::move(parts));
}

}  // namespace pergola::tokenizers
