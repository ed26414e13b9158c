#include "tokenizers/gguf_vocabulary.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tokenizers/bpe.h"
#include "tokenizers/gguf_parts.h"
#include "tokenizers/pipeline.h"
#include "tokenizers/unicode.h"
#include "tokenizers/wordpiece.h"

namespace pergola::tokenizers {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

Result<GgufVocabulary> ReadVocabulary(const formats::TensorSource& source) {
  GgufVocabulary vocabulary;
  vocabulary.tokens = source.GetStrings("tokenizer.ggml.tokens");
  vocabulary.types = source.GetInts("tokenizer.ggml.token_type");
  vocabulary.scores = source.GetFloats("tokenizer.ggml.scores");
  if (vocabulary.tokens == nullptr) {
    return InvalidArgumentError("tokenizer.ggml.tokens is missing or not an array of strings");
  }
  const size_t size = vocabulary.tokens->size();
  if (vocabulary.types != nullptr && vocabulary.types->size() != size) {
    return InvalidArgumentError("tokenizer.ggml.token_type has " +
                                std::to_string(vocabulary.types->size()) + " entries for " +
                                std::to_string(size) + " tokens");
  }
  if (vocabulary.scores != nullptr && vocabulary.scores->size() != size) {
    return InvalidArgumentError("tokenizer.ggml.scores has " +
                                std::to_string(vocabulary.scores->size()) + " entries for " +
                                std::to_string(size) + " tokens");
  }
  for (size_t id = 0; id < size; ++id) {
    if (FindInvalidUtf8((*vocabulary.tokens)[id]) != kValidUtf8) {
      return InvalidArgumentError("tokenizer.ggml.tokens[" + std::to_string(id) +
                                  "] is not valid UTF-8");
    }
  }
  return vocabulary;
}

// "▁hello" -> "hello", "ing" -> "##ing"; special tokens and "[unused1]" stay.
std::string WordPieceOf(std::string_view token, int64_t type) {
  const bool bracketed = token.starts_with('[') && token.ends_with(']');
  if (type == kControl || type == kUnknown || bracketed) return std::string(token);
  if (token.starts_with(kSpaceMark) && token != kSpaceMark) {
    return std::string(token.substr(kSpaceMark.size()));
  }
  return "##" + std::string(token);
}

Result<std::unique_ptr<Tokenizer>> MakeBert(const formats::TensorSource& source,
                                            const GgufVocabulary& gguf) {
  const size_t size = gguf.tokens->size();
  PERGOLA_ASSIGN_OR_RETURN(
      TokenId cls,
      ReadId(source, {"tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id"}, 101, size));
  PERGOLA_ASSIGN_OR_RETURN(
      TokenId sep, ReadId(source,
                          {"tokenizer.ggml.seperator_token_id", "tokenizer.ggml.separator_token_id",
                           "tokenizer.ggml.eos_token_id"},
                          102, size));
  PERGOLA_ASSIGN_OR_RETURN(TokenId unk,
                           ReadId(source, {"tokenizer.ggml.unknown_token_id"}, 100, size));
  std::vector<TokenId> special = {cls, sep, unk};
  for (const char* key : {"tokenizer.ggml.padding_token_id", "tokenizer.ggml.mask_token_id"}) {
    if (source.GetInt(key)) {
      PERGOLA_ASSIGN_OR_RETURN(TokenId id, ReadId(source, {key}, 0, size));
      special.push_back(id);
    }
  }
  for (size_t id = 0; id < size; ++id) {
    const std::string_view token = (*gguf.tokens)[id];
    const bool named = token == "[PAD]" || token == "[MASK]";
    if (gguf.TypeOf(id) == kControl || named) special.push_back(static_cast<TokenId>(id));
  }
  std::sort(special.begin(), special.end());
  special.erase(std::unique(special.begin(), special.end()), special.end());

  std::vector<std::string> pieces;
  bool cased = false;
  for (size_t id = 0; id < size; ++id) {
    const std::string_view token = (*gguf.tokens)[id];
    const bool is_special =
        std::binary_search(special.begin(), special.end(), static_cast<TokenId>(id));
    pieces.push_back(is_special ? std::string(token) : WordPieceOf(token, gguf.TypeOf(id)));
    if (is_special || token.starts_with('[')) continue;
    cased |= std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  }
  const bool lowercase = source.GetBool("tokenizer.ggml.normalizer.lowercase").value_or(!cased);
  const bool strip_accents =
      source.GetBool("tokenizer.ggml.normalizer.strip_accents").value_or(lowercase);
  PipelineParts parts;
  for (const TokenId id : special) {
    parts.added_tokens.push_back({.content = pieces[static_cast<size_t>(id)], .special = true});
  }
  PERGOLA_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeGgufVocabulary(pieces));
  WordPieceOptions options;
  options.unk_token = pieces[static_cast<size_t>(unk)];
  PERGOLA_ASSIGN_OR_RETURN(parts.model, WordPiece::Make(std::move(vocabulary), std::move(options)));
  parts.normalizer = MakeBertNormalizer({.strip_accents = strip_accents, .lowercase = lowercase});
  parts.pretokenizer = MakeBertPretokenizer();
  parts.post_processor = PostProcessor::Bert(cls, sep);
  parts.decoder = MakeWordPieceDecoder("##", true);
  parts.bert_ascii = true;
  parts.bert_lowercase = lowercase;
  parts.bert_ideographs = true;
  return MakePipelineTokenizer(std::move(parts));
}

struct ScoredMerge {
  float score;
  uint32_t left_chars;
  uint32_t right_chars;
  TokenId merged;
  TokenId left;
  TokenId right;
};

// Pieces and the places to cut them, looked up a block at a time so that the look-ups wait for
// memory together.
class MergeSearch {
 public:
  MergeSearch(const Vocabulary& vocabulary, const std::vector<float>& scores)
      : vocabulary_(vocabulary), scores_(scores) {}

  // Longer left halves first, as merges are ordered.
  void AddPiece(TokenId id) {
    const std::string_view piece = vocabulary_.Token(id);
    size_t cut = piece.size();
    for (uint32_t right_chars = 1; cut > 0; ++right_chars) {
      do {
        --cut;
      } while (cut > 0 && IsUtf8Continuation(piece[cut]));
      if (cut == 0) return;
      const Cut& added = cuts_.emplace_back(
          Cut{id, cut, right_chars, HashBytes(piece.substr(0, cut)), HashBytes(piece.substr(cut))});
      vocabulary_.PrefetchSlot(added.left_hash);
      vocabulary_.PrefetchSlot(added.right_hash);
      if (cuts_.size() == kBlock) LookUp();
    }
  }

  // In the order in which they apply.
  std::vector<ScoredMerge> Take() {
    LookUp();
    const auto before = [](const ScoredMerge& a, const ScoredMerge& b) {
      if (a.score != b.score) return a.score > b.score;
      if (a.left_chars != b.left_chars) return a.left_chars > b.left_chars;
      if (a.right_chars != b.right_chars) return a.right_chars > b.right_chars;
      return a.merged < b.merged;
    };
    // Most files are all but sorted, which std::sort takes badly.
    std::stable_sort(merges_.begin(), merges_.end(), before);
    return std::move(merges_);
  }

 private:
  static constexpr size_t kBlock = 32;
  struct Cut {
    TokenId id;
    size_t place;  // in bytes
    uint32_t right_chars;
    uint64_t left_hash;
    uint64_t right_hash;
  };

  void LookUp() {
    for (const Cut& cut : cuts_) {
      vocabulary_.PrefetchToken(cut.left_hash);
      vocabulary_.PrefetchToken(cut.right_hash);
    }
    for (const Cut& cut : cuts_) {
      const std::string_view piece = vocabulary_.Token(cut.id);
      const TokenId left = vocabulary_.Find(piece.substr(0, cut.place), cut.left_hash);
      if (left < 0) continue;
      const TokenId right = vocabulary_.Find(piece.substr(cut.place), cut.right_hash);
      if (right < 0) continue;
      const auto left_chars = static_cast<uint32_t>(
          std::count_if(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(cut.place),
                        [](char c) { return !IsUtf8Continuation(c); }));
      merges_.push_back(
          {scores_[static_cast<size_t>(cut.id)], left_chars, cut.right_chars, cut.id, left, right});
    }
    cuts_.clear();
  }

  const Vocabulary& vocabulary_;
  const std::vector<float>& scores_;
  std::vector<Cut> cuts_;
  std::vector<ScoredMerge> merges_;
};

// Every split of every piece into two pieces.
std::vector<ScoredMerge> FindMerges(const Vocabulary& vocabulary,
                                    const std::vector<float>& scores) {
  MergeSearch search(vocabulary, scores);
  for (size_t id = 0; id < vocabulary.id_limit(); ++id) {
    search.AddPiece(static_cast<TokenId>(id));
  }
  return search.Take();
}

Result<std::unique_ptr<TokenModel>> MakeScoredBpe(const std::vector<std::string>& pieces,
                                                  const std::vector<float>& scores,
                                                  const std::string& unk) {
  PERGOLA_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeGgufVocabulary(pieces));
  const std::vector<ScoredMerge> scored = FindMerges(vocabulary, scores);
  std::vector<Merge> merges;
  merges.reserve(scored.size());
  for (const ScoredMerge& merge : scored) {
    merges.push_back(
        {pieces[static_cast<size_t>(merge.left)], pieces[static_cast<size_t>(merge.right)]});
  }
  BpeOptions options;
  options.unk_token = unk;
  options.byte_fallback = true;
  options.fuse_unk = true;
  PERGOLA_ASSIGN_OR_RETURN(auto bpe,
                           Bpe::Make(std::move(vocabulary), std::move(options), merges.size()));
  PERGOLA_RETURN_IF_ERROR(bpe->AddMerges(merges));
  return std::unique_ptr<TokenModel>(std::move(bpe));
}

// [bos] A [eos] and [bos] A [eos] [bos] B [eos], as far as the file asks for them.
Result<PostProcessor> MakeBosEos(const formats::TensorSource& source, size_t size) {
  const bool embedder = source.GetString("general.architecture") == "gemma-embedding";
  const bool add_bos = source.GetBool("tokenizer.ggml.add_bos_token").value_or(true);
  const bool add_eos = source.GetBool("tokenizer.ggml.add_eos_token").value_or(embedder);
  PostProcessor processor;
  processor.single.clear();
  processor.pair.clear();
  using Kind = TemplatePiece::Kind;
  const auto add = [&](const TemplatePiece& piece) {
    processor.single.push_back(piece);
    processor.pair.push_back(piece);
  };
  if (add_bos) {
    PERGOLA_ASSIGN_OR_RETURN(TokenId bos, ReadId(source, {"tokenizer.ggml.bos_token_id"}, 1, size));
    add({Kind::kSpecial, {bos}, 0});
  }
  add({Kind::kFirst, {}, 0});
  if (add_eos) {
    PERGOLA_ASSIGN_OR_RETURN(TokenId eos, ReadId(source, {"tokenizer.ggml.eos_token_id"}, 2, size));
    add({Kind::kSpecial, {eos}, 0});
  }
  for (TemplatePiece piece : processor.single) {
    if (piece.kind == Kind::kFirst) piece.kind = Kind::kSecond;
    piece.type_id = 1;
    processor.pair.push_back(std::move(piece));
  }
  return processor;
}

Result<std::unique_ptr<Tokenizer>> MakeLlama(const formats::TensorSource& source,
                                             const GgufVocabulary& gguf) {
  if (gguf.scores == nullptr) {
    return InvalidArgumentError("tokenizer.ggml.scores is missing or not an array of floats");
  }
  const size_t size = gguf.tokens->size();
  PERGOLA_ASSIGN_OR_RETURN(TokenId unk,
                           ReadId(source, {"tokenizer.ggml.unknown_token_id"}, 0, size));
  PipelineParts parts;
  std::vector<std::string> pieces;
  std::vector<float> scores = *gguf.scores;
  for (size_t id = 0; id < size; ++id) {
    std::string piece((*gguf.tokens)[id]);
    const int64_t type = gguf.TypeOf(id);
    if (type == kControl || type == kUserDefined || static_cast<TokenId>(id) == unk) {
      // The converter writes real spaces and made-up scores for these; SentencePiece has U+2581 and
      // 0.
      for (size_t at = piece.find(' '); at != std::string::npos; at = piece.find(' ', at)) {
        piece.replace(at, 1, kSpaceMark);
      }
      scores[id] = 0;
      parts.added_tokens.push_back({.content = piece, .special = type != kUserDefined});
    }
    pieces.push_back(std::move(piece));
  }
  PERGOLA_ASSIGN_OR_RETURN(parts.model,
                           MakeScoredBpe(pieces, scores, pieces[static_cast<size_t>(unk)]));
  const std::string_view architecture = source.GetString("general.architecture").value_or("");
  std::vector<std::unique_ptr<Normalizer>> normalizers;
  const bool prefix = source.GetBool("tokenizer.ggml.add_space_prefix")
                          .value_or(!architecture.starts_with("gemma"));
  if (prefix) normalizers.push_back(MakePrepend(std::string(kSpaceMark)));
  normalizers.push_back(MakeReplace(" ", std::string(kSpaceMark)));
  parts.normalizer = MakeNormalizerSequence(std::move(normalizers));
  PERGOLA_ASSIGN_OR_RETURN(parts.post_processor, MakeBosEos(source, size));
  std::vector<std::unique_ptr<Decoder>> decoders;
  decoders.push_back(MakeReplaceDecoder(std::string(kSpaceMark), " "));
  decoders.push_back(MakeByteFallbackDecoder());
  decoders.push_back(MakeFuseDecoder());
  if (prefix) decoders.push_back(MakeStripDecoder(" ", 1, 0));
  parts.decoder = MakeDecoderSequence(std::move(decoders));
  return MakePipelineTokenizer(std::move(parts));
}

}  // namespace

Result<TokenId> ReadId(const formats::TensorSource& source, std::initializer_list<const char*> keys,
                       int64_t default_id, size_t vocab_size) {
  int64_t id = default_id;
  const char* name = *keys.begin();
  for (const char* key : keys) {
    if (const auto value = source.GetInt(key)) {
      id = *value;
      name = key;
      break;
    }
  }
  if (id < 0 || static_cast<uint64_t>(id) >= vocab_size) {
    return InvalidArgumentError(std::string(name) + " is " + std::to_string(id) +
                                ", outside the vocabulary of " + std::to_string(vocab_size));
  }
  return static_cast<TokenId>(id);
}

Result<Vocabulary> MakeGgufVocabulary(const std::vector<std::string>& pieces) {
  size_t num_bytes = 0;
  for (const std::string& piece : pieces) num_bytes += piece.size();
  Vocabulary vocabulary;
  vocabulary.Reserve(pieces.size(), num_bytes);
  for (size_t id = 0; id < pieces.size(); ++id) {
    PERGOLA_RETURN_IF_ERROR(
        vocabulary.Add(pieces[id], static_cast<int64_t>(id)).WithContext("tokenizer.ggml.tokens"));
  }
  return vocabulary;
}

Result<std::unique_ptr<Tokenizer>> LoadTokenizerGguf(const formats::TensorSource& source) {
  const auto model = source.GetString("tokenizer.ggml.model");
  if (!model) return NotFoundError("the file has no vocabulary: tokenizer.ggml.model is missing");
  PERGOLA_ASSIGN_OR_RETURN(GgufVocabulary vocabulary, ReadVocabulary(source));
  if (*model == "bert") return MakeBert(source, vocabulary);
  if (*model == "llama") return MakeLlama(source, vocabulary);
  if (*model == "gpt2") return MakeGgufByteLevel(source, vocabulary);
  if (*model == "t5") return MakeGgufUnigram(source, vocabulary);
  return UnimplementedError("tokenizer.ggml.model '" + std::string(model->substr(0, 64)) +
                            "' is not supported");
}

}  // namespace pergola::tokenizers
