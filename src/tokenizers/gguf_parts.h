// What the kinds of GGUF vocabularies share; gguf_vocabulary.h is the face of it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensor_source.h"
#include "tokenizers/split_pattern.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/vocabulary.h"

namespace pergola::tokenizers {

// Values of tokenizer.ggml.token_type.
enum GgufTokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Views of the source's metadata, which must outlive it.
struct GgufVocabulary {
  const std::vector<std::string_view>* tokens = nullptr;
  const std::vector<int64_t>* types = nullptr;  // null: all normal
  const std::vector<float>* scores = nullptr;   // null: none

  int64_t TypeOf(size_t id) const { return types != nullptr ? (*types)[id] : kNormal; }
};

// A value of tokenizer.ggml.pre: llama.cpp's name, and what the tokenizer.json of those models
// does.
struct KnownPre {
  std::string_view name;
  std::vector<std::string_view> regexes = {kGpt2Regex};
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // unless the file says otherwise
  bool add_eos = false;
};

// Of names that mean the same the one to write comes first.
std::span<const KnownPre> ListKnownPres();

// The id under the first of `keys` that is there, or `default_id`; INVALID_ARGUMENT when it is
// outside the vocabulary.
Result<TokenId> ReadId(const formats::TensorSource& source, std::initializer_list<const char*> keys,
                       int64_t default_id, size_t vocab_size);

// Ids are places in `pieces`.
Result<Vocabulary> MakeGgufVocabulary(const std::vector<std::string>& pieces);

// Models "gpt2" and "t5".
Result<std::unique_ptr<Tokenizer>> MakeGgufByteLevel(const formats::TensorSource& source,
                                                     const GgufVocabulary& gguf);
Result<std::unique_ptr<Tokenizer>> MakeGgufUnigram(const formats::TensorSource& source,
                                                   const GgufVocabulary& gguf);

}  // namespace pergola::tokenizers
