// The "gpt2" and "t5" vocabularies of GGUF files.
#include <algorithm>
#include <utility>

#include "tokenizers/bpe.h"
#include "tokenizers/gguf_parts.h"
#include "tokenizers/pipeline.h"
#include "tokenizers/precompiled.h"
#include "tokenizers/unigram.h"

namespace pergola::tokenizers {
namespace {

using formats::TensorSource;
using Kind = TemplatePiece::Kind;

const KnownPre* FindPre(std::string_view name) {
  const std::span<const KnownPre> known = ListKnownPres();
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const KnownPre& pre) { return pre.name == name; });
  return found == known.end() ? nullptr : &*found;
}

Result<std::unique_ptr<Pretokenizer>> MakePretokenizer(const KnownPre& pre) {
  std::vector<std::unique_ptr<Pretokenizer>> parts;
  for (const std::string_view regex : pre.regexes) {
    PERGOLA_ASSIGN_OR_RETURN(auto pattern, MakeRegexPattern(regex, "tokenizer.ggml.pre"));
    const PretokenizerCuts cuts =
        pattern->tiles() ? PretokenizerCuts::kLetterRuns : PretokenizerCuts::kNone;
    parts.push_back(MakeSplit(std::move(pattern), SplitBehaviour::kIsolated, false, cuts));
  }
  parts.push_back(MakeByteLevel(false, false));
  return MakePretokenizerSequence(std::move(parts));
}

// "a b"
Result<std::vector<Merge>> ReadMerges(const TensorSource& source) {
  const auto* lines = source.GetStrings("tokenizer.ggml.merges");
  if (lines == nullptr) {
    return InvalidArgumentError("tokenizer.ggml.merges is missing or not an array of strings");
  }
  std::vector<Merge> merges;
  merges.reserve(lines->size());
  for (const std::string_view line : *lines) {
    const size_t space = line.find(' ', 1);
    if (space == std::string_view::npos) {
      return InvalidArgumentError("tokenizer.ggml.merges[" + std::to_string(merges.size()) +
                                  "] is not a pair of tokens");
    }
    merges.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return merges;
}

struct Ends {
  std::vector<TokenId> bos;
  std::vector<TokenId> eos;
};

Result<Ends> ReadEnds(const TensorSource& source, size_t size, bool add_bos, bool add_eos) {
  Ends ends;
  if (source.GetBool("tokenizer.ggml.add_bos_token").value_or(add_bos)) {
    PERGOLA_ASSIGN_OR_RETURN(
        TokenId id,
        ReadId(source, {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.cls_token_id"}, -1, size));
    ends.bos.push_back(id);
  }
  if (source.GetBool("tokenizer.ggml.add_eos_token").value_or(add_eos)) {
    PERGOLA_ASSIGN_OR_RETURN(
        TokenId id,
        ReadId(source, {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.seperator_token_id"}, -1,
               size));
    ends.eos.push_back(id);
  }
  return ends;
}

// [bos] A [eos] and, for encoders, [bos] A [eos] [eos] B [eos]; else A and B each as one text.
PostProcessor MakeTemplate(const Ends& ends, bool is_encoder) {
  const bool both = !ends.bos.empty() && !ends.eos.empty();
  if (is_encoder && both) return PostProcessor::Roberta(ends.bos[0], ends.eos[0]);
  PostProcessor processor;
  processor.single.clear();
  if (!ends.bos.empty()) processor.single.push_back({Kind::kSpecial, ends.bos, 0});
  processor.single.push_back({Kind::kFirst, {}, 0});
  if (!ends.eos.empty()) processor.single.push_back({Kind::kSpecial, ends.eos, 0});
  processor.pair = processor.single;
  for (TemplatePiece piece : processor.single) {
    if (piece.kind == Kind::kFirst) piece.kind = Kind::kSecond;
    piece.type_id = is_encoder ? 0 : 1;
    processor.pair.push_back(std::move(piece));
  }
  return processor;
}

bool IsEncoder(const TensorSource& source) {
  return source.GetString("general.architecture").value_or("").find("bert") !=
         std::string_view::npos;
}

// The mask takes the space before it in all published encoders of these kinds; the file does not
// say.
bool IsMask(std::string_view piece) { return piece == "<mask>" || piece == "[MASK]"; }

std::vector<std::string> CopyPieces(const GgufVocabulary& gguf) {
  return {gguf.tokens->begin(), gguf.tokens->end()};
}

}  // namespace

std::span<const KnownPre> ListKnownPres() {
  static const std::vector<KnownPre> kKnown = {
      {.name = "default",
       .regexes = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Regex, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {.name = "gpt-2"},
      {.name = "phi-2"},
      {.name = "jina-es"},
      {.name = "jina-de"},
      {.name = "jina-v2-es"},
      {.name = "jina-v2-de"},
      {.name = "modern-bert", .nfc = true, .add_bos = true, .add_eos = true},
      {.name = "jina-v1-en", .add_bos = true, .add_eos = true},
      {.name = "jina-v2-code", .add_bos = true, .add_eos = true},
      {.name = "roberta-bpe", .add_bos = true, .add_eos = true},
      {.name = "llama-bpe", .regexes = {kLlama3Regex}, .ignore_merges = true, .add_bos = true},
      {.name = "llama3", .regexes = {kLlama3Regex}, .ignore_merges = true, .add_bos = true},
      {.name = "llama-v3", .regexes = {kLlama3Regex}, .ignore_merges = true, .add_bos = true},
      {.name = "qwen2", .regexes = {kQwen2Regex}, .nfc = true},
      {.name = "deepseek-r1-qwen", .regexes = {kQwen2Regex}, .nfc = true},
      {.name = "qwen35", .regexes = {kQwen35Regex}, .nfc = true},
      {.name = "gpt-4o", .regexes = {kO200kRegex}},
      {.name = "llama4", .regexes = {kO200kRegex}},
  };
  return kKnown;
}

Result<std::unique_ptr<Tokenizer>> MakeGgufByteLevel(const TensorSource& source,
                                                     const GgufVocabulary& gguf) {
  const std::string_view name = source.GetString("tokenizer.ggml.pre").value_or("default");
  const KnownPre* pre = FindPre(name);
  if (pre == nullptr) {
    return UnimplementedError("tokenizer.ggml.pre '" + std::string(name.substr(0, 64)) +
                              "' is not supported");
  }
  const size_t size = gguf.tokens->size();
  const bool is_encoder = IsEncoder(source);
  PipelineParts parts;
  for (size_t id = 0; id < size; ++id) {
    const int64_t type = gguf.TypeOf(id);
    if (type != kControl && type != kUserDefined && type != kUnknown) continue;
    parts.added_tokens.push_back({.content = std::string((*gguf.tokens)[id]),
                                  .lstrip = is_encoder && IsMask((*gguf.tokens)[id]),
                                  .special = type != kUserDefined});
  }
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<Merge> merges, ReadMerges(source));
  PERGOLA_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeGgufVocabulary(CopyPieces(gguf)));
  const BpeOptions options{
      .unk_token = "", .ignore_merges = pre->ignore_merges, .byte_level = true};
  PERGOLA_ASSIGN_OR_RETURN(auto bpe, Bpe::Make(std::move(vocabulary), options, merges.size()));
  PERGOLA_RETURN_IF_ERROR(bpe->AddMerges(merges).WithContext("tokenizer.ggml.merges"));
  parts.model = std::move(bpe);
  if (pre->nfc) parts.normalizer = MakeUnicodeNormalizer(UnicodeForm::kNfc);
  PERGOLA_ASSIGN_OR_RETURN(parts.pretokenizer, MakePretokenizer(*pre));
  PERGOLA_ASSIGN_OR_RETURN(Ends ends, ReadEnds(source, size, pre->add_bos, pre->add_eos));
  parts.post_processor = MakeTemplate(ends, is_encoder);
  // ModernBERT joins a pair like BERT.
  if (name == "modern-bert" && !ends.bos.empty() && !ends.eos.empty()) {
    parts.post_processor = PostProcessor::Bert(ends.bos[0], ends.eos[0]);
    for (TemplatePiece& piece : parts.post_processor.pair) piece.type_id = 0;
  }
  parts.decoder = MakeByteLevelDecoder();
  return MakePipelineTokenizer(std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> MakeGgufUnigram(const TensorSource& source,
                                                   const GgufVocabulary& gguf) {
  if (gguf.scores == nullptr) {
    return InvalidArgumentError("tokenizer.ggml.scores is missing or not an array of floats");
  }
  const size_t size = gguf.tokens->size();
  PERGOLA_ASSIGN_OR_RETURN(TokenId unk,
                           ReadId(source, {"tokenizer.ggml.unknown_token_id"}, 2, size));
  const bool is_encoder = IsEncoder(source);
  PipelineParts parts;
  Vocabulary vocabulary;
  size_t num_bytes = 0;
  bool has_bytes = false;
  for (const std::string_view piece : *gguf.tokens) num_bytes += piece.size();
  vocabulary.Reserve(size, num_bytes);
  std::vector<double> scores;
  for (size_t id = 0; id < size; ++id) {
    const int64_t type = gguf.TypeOf(id);
    const std::string_view piece = (*gguf.tokens)[id];
    if (type == kUnused) continue;  // filled up to the size of the embedding table
    has_bytes |= type == kByte;
    PERGOLA_RETURN_IF_ERROR(
        vocabulary.Add(piece, static_cast<int64_t>(id)).WithContext("tokenizer.ggml.tokens"));
    scores.resize(id + 1);
    scores[id] = (*gguf.scores)[id];
    if (type == kControl || type == kUserDefined || static_cast<TokenId>(id) == unk) {
      parts.added_tokens.push_back({.content = std::string(piece),
                                    .lstrip = is_encoder && IsMask(piece),
                                    .special = type != kUserDefined});
    }
  }
  const UnigramOptions options{.unk = unk, .byte_fallback = has_bytes};
  PERGOLA_ASSIGN_OR_RETURN(parts.model,
                           Unigram::Make(std::move(vocabulary), std::move(scores), options));
  if (const auto* values = source.GetInts("tokenizer.ggml.precompiled_charsmap")) {
    std::string charsmap;
    for (const int64_t value : *values) charsmap.push_back(static_cast<char>(value));
    auto normalizer = MakePrecompiled(charsmap);
    if (!normalizer.ok()) {
      return normalizer.status().WithContext("tokenizer.ggml.precompiled_charsmap");
    }
    parts.normalizer = std::move(*normalizer);
  }
  const bool prefix = source.GetBool("tokenizer.ggml.add_space_prefix").value_or(true);
  std::vector<std::unique_ptr<Pretokenizer>> pretokenizers;
  if (source.GetBool("tokenizer.ggml.remove_extra_whitespaces").value_or(true)) {
    pretokenizers.push_back(MakeWhitespaceSplit());
  }
  MetaspaceOptions metaspace;
  metaspace.prepend_scheme = prefix ? PrependScheme::kAlways : PrependScheme::kNever;
  pretokenizers.push_back(MakeMetaspace(metaspace));
  parts.pretokenizer = MakePretokenizerSequence(std::move(pretokenizers));
  PERGOLA_ASSIGN_OR_RETURN(Ends ends, ReadEnds(source, size, is_encoder, true));
  parts.post_processor = MakeTemplate(ends, is_encoder);
  parts.decoder = MakeMetaspaceDecoder("\u2581", prefix);
  return MakePipelineTokenizer(std::move(parts));
}

}  // namespace pergola::tokenizers
