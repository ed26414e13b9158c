#include "tokenizers/pipeline.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "core/check.h"
#include "tokenizers/chunk_tokenizer.h"
#include "tokenizers/cut_finder.h"
#include "tokenizers/text_window.h"
#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

constexpr size_t kChunkBytes = 4096;
constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

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
             EncodeScratch* scratch, TokenRun* run) const;
  Status RunFromRight(std::string_view text, size_t enough, const EncodeOptions& options,
                      EncodeScratch* scratch, TokenRun* run) const;
  // Stops once there are `enough` tokens.
  Status RunFrom(std::string_view text, size_t begin, size_t enough, bool with_offsets,
                 EncodeScratch* scratch, TokenRun* run) const;

  // Both texts into scratch->first and second.
  Status RunPair(std::string_view first, std::string_view second, size_t budget,
                 const EncodeOptions& options, EncodeScratch* scratch) const;
  // `token`: the text that was matched, with white space that it took.
  void PushAdded(TokenId id, ByteSpan span, bool with_offsets, TokenRun* run) const;
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
  std::unique_ptr<ChunkTokenizer> chunks_;
  mutable ScratchPool<EncodeScratch> scratches_;
};

PipelineTokenizer::PipelineTokenizer(PipelineParts parts) : parts_(std::move(parts)) {}

Result<std::unique_ptr<Tokenizer>> PipelineTokenizer::Make(PipelineParts parts) {
  std::unique_ptr<PipelineTokenizer> tokenizer(new PipelineTokenizer(std::move(parts)));
  PERGOLA_RETURN_IF_ERROR(tokenizer->AddTokens());
  PERGOLA_RETURN_IF_ERROR(tokenizer->CheckPostProcessor());
  tokenizer->cuts_ = std::make_unique<CutFinder>(tokenizer->parts_, tokenizer->raw_,
                                                 !tokenizer->normalized_.empty());
  tokenizer->chunks_ = std::make_unique<ChunkTokenizer>(tokenizer->parts_, tokenizer->normalized_);
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

void PipelineTokenizer::PushAdded(TokenId id, ByteSpan span, bool with_offsets,
                                  TokenRun* run) const {
  if (with_offsets) {
    const std::string_view token = run->text.substr(span.begin, span.end - span.begin);
    run->Push(id, span, token, parts_.post_processor.trim_offsets);
  } else {
    run->ids.push_back(id);
  }
}

Status PipelineTokenizer::RunFrom(std::string_view text, size_t begin, size_t enough,
                                  bool with_offsets, EncodeScratch* scratch, TokenRun* run) const {
  run->text = text;
  run->begin = begin;
  TextWindow window(text, begin);
  if (raw_.LooksRight()) PERGOLA_RETURN_IF_ERROR(window.CheckUntil(text.size()));
  size_t from = begin;     // all before is tokenised
  size_t scan = begin;     // no added token starts between `from` and here
  size_t section = begin;  // start of the text, or the end of the last added token
  bool shifted = false;    // the section must not be cut: see Normalizer::ShiftsOffsets
  size_t step = kChunkBytes;
  // Tokens are also found in white space that the token before them took, even at the end.
  while (std::min(from, scan) < text.size()) {
    if (run->ids.size() >= enough) {
      run->complete = false;
      return OkStatus();
    }
    const size_t wanted = std::min(text.size(), std::max(scan, from) + step);
    PERGOLA_RETURN_IF_ERROR(window.CheckUntil(wanted));
    const size_t limit = std::min(std::max(wanted, from), window.checked());
    if (const auto match = raw_.FindNext(text, scan, from, limit)) {
      chunks_->Tokenize(text, from, match->begin, with_offsets, scratch, run);
      PushAdded(match->id, {match->begin, match->end}, with_offsets, run);
      from = match->end;
      scan = match->scan_end;
      section = from;
      step = kChunkBytes;
      PERGOLA_RETURN_IF_ERROR(window.CheckUntil(from));
      continue;
    }
    scan = std::max(scan, limit);
    if (from == section) {
      shifted = with_offsets && parts_.normalizer &&
                parts_.normalizer->ShiftsOffsets(text.substr(from, limit - from));
    }
    if (shifted && limit < text.size()) {
      step *= 2;
      continue;
    }
    const size_t cut =
        limit == text.size() ? limit : cuts_->FindLast(text, from, limit, &scratch->edge);
    if (cut == from) {
      step *= 2;
      continue;
    }
    chunks_->Tokenize(text, from, cut, with_offsets, scratch, run);
    from = cut;
    step = kChunkBytes;
  }
  return OkStatus();
}

Status PipelineTokenizer::RunFromRight(std::string_view text, size_t enough,
                                       const EncodeOptions& options, EncodeScratch* scratch,
                                       TokenRun* run) const {
  // Where the section starts is not known from its end.
  const bool may_shift =
      options.with_offsets && parts_.normalizer && parts_.normalizer->may_shift_offsets();
  for (size_t tail = kChunkBytes; !may_shift && tail < text.size(); tail *= 4) {
    size_t start = text.size() - tail;
    for (int i = 0; i < 3 && IsUtf8Continuation(text[start]); ++i) ++start;
    const size_t bad = FindInvalidUtf8(text.substr(start));
    if (bad != kValidUtf8) return InvalidUtf8Error(start + bad);
    // One code point in, so that the one before a cut is known.
    const size_t cut = cuts_->FindFirst(text, start + Utf8Length(text[start]), &scratch->edge);
    if (cut == text.size()) continue;
    run->Clear();
    PERGOLA_RETURN_IF_ERROR(RunFrom(text, cut, kUnlimited, options.with_offsets, scratch, run));
    run->complete = false;
    if (run->ids.size() >= enough) return OkStatus();
  }
  run->Clear();
  return RunFrom(text, 0, kUnlimited, options.with_offsets, scratch, run);
}

Status PipelineTokenizer::Run(std::string_view text, size_t enough, const EncodeOptions& options,
                              EncodeScratch* scratch, TokenRun* run) const {
  if (text.size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgumentError("a text of " + std::to_string(text.size()) +
                                " bytes; the limit is 4 GiB");
  }
  run->Clear();
  if (options.side == TruncationSide::kLeft && enough != kUnlimited) {
    PERGOLA_RETURN_IF_ERROR(RunFromRight(text, enough, options, scratch, run));
  } else {
    PERGOLA_RETURN_IF_ERROR(RunFrom(text, 0, enough, options.with_offsets, scratch, run));
  }
  return OkStatus();
}

Status PipelineTokenizer::Encode(std::string_view text, const EncodeOptions& options,
                                 Encoding* encoding) const {
  encoding->clear();
  const auto scratch = scratches_.Borrow();
  TokenRun& run = scratch->first;
  const size_t budget = Budget(options, false);
  const size_t enough = options.max_tokens == kUnlimited ? kUnlimited : budget + 1;
  PERGOLA_RETURN_IF_ERROR(Run(text, enough, options, scratch.get(), &run));
  const size_t added = options.add_special_tokens ? num_added_tokens(false) : 0;
  encoding->total_tokens = run.ids.size() + added;
  encoding->total_is_exact = run.complete;
  encoding->truncated = encoding->total_tokens > options.max_tokens;
  run.Cut(budget, options.side);
  run.Trim(parts_.post_processor.add_prefix_space);
  scratch->second.Clear();
  Assemble(parts_.post_processor.single, run, scratch->second, options, encoding);
  return OkStatus();
}

// Tokenises both texts far enough to cut them, longest first. Which of two long texts is the longer
// one decides who keeps the odd token, so work goes on until that is known.
Status PipelineTokenizer::RunPair(std::string_view first, std::string_view second, size_t budget,
                                  const EncodeOptions& options, EncodeScratch* scratch) const {
  size_t enough = options.max_tokens == kUnlimited ? kUnlimited : budget + 1;
  const TokenRun& a = scratch->first;
  const TokenRun& b = scratch->second;
  while (true) {
    PERGOLA_RETURN_IF_ERROR(Run(first, enough, options, scratch, &scratch->first));
    PERGOLA_RETURN_IF_ERROR(Run(second, enough, options, scratch, &scratch->second));
    const bool order_known = (a.complete && b.complete) ||
                             (a.complete && b.ids.size() > a.ids.size()) ||
                             (b.complete && a.ids.size() > b.ids.size());
    if (order_known || budget % 2 == 0) return OkStatus();
    enough = enough > kUnlimited / 4 ? kUnlimited : enough * 4;
  }
}

Status PipelineTokenizer::EncodePair(std::string_view first, std::string_view second,
                                     const EncodeOptions& options, Encoding* encoding) const {
  encoding->clear();
  const auto scratch = scratches_.Borrow();
  const size_t budget = Budget(options, true);
  PERGOLA_RETURN_IF_ERROR(RunPair(first, second, budget, options, scratch.get()));
  const size_t added = options.add_special_tokens ? num_added_tokens(true) : 0;
  const size_t a = scratch->first.ids.size();
  const size_t b = scratch->second.ids.size();
  encoding->total_tokens = a + b + added;
  encoding->total_is_exact = scratch->first.complete && scratch->second.complete;
  encoding->truncated = encoding->total_tokens > options.max_tokens;
  if (a + b > budget) {
    size_t shorter = std::min(a, b);
    size_t longer = shorter > budget ? shorter : std::max(shorter, budget - shorter);
    if (shorter + longer > budget) {
      shorter = budget / 2;
      longer = shorter + budget % 2;
    }
    scratch->first.Cut(a > b ? longer : shorter, options.side);
    scratch->second.Cut(a > b ? shorter : longer, options.side);
  }
  scratch->first.Trim(parts_.post_processor.add_prefix_space);
  scratch->second.Trim(parts_.post_processor.add_prefix_space);
  Assemble(parts_.post_processor.pair, scratch->first, scratch->second, options, encoding);
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
