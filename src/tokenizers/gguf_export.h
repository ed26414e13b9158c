// The vocabulary of a tokenizer.json as a GGUF file has it; gguf_vocabulary.h reads it back.
//
//   PERGOLA_ASSIGN_OR_RETURN(GgufVocabularyFacts facts, ReadGgufFacts("tokenizer.json", 30522));
//   writer.SetStrings("tokenizer.ggml.tokens", facts.tokens);
//
// A GGUF file names a kind of tokenizer ("bert", "llama", "gpt2", "t5") and leaves its parts to the
// reader, so that not every tokenizer.json has an equal there. This recognises the kind; whether
// the two give the same ids is the caller's to check, with CheckSameIds().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {

// Each is the value of `tokenizer.ggml.<name>`; empty or nullopt: not to be written.
struct GgufVocabularyFacts {
  std::string model;                             // "bert", "llama", "gpt2" or "t5"
  std::string pre;                               // how text is cut before byte-level merges
  std::vector<std::string> tokens;               // [V]; "[PAD7]" for an id that no text gets
  std::vector<int32_t> token_type;               // [V]; numbers as in gguf_parts.h
  std::vector<float> scores;                     // [V]; llama and t5
  std::vector<std::string> merges;               // "a b"; gpt2
  std::string precompiled_charsmap;              // bytes; t5
  std::optional<bool> lowercase, strip_accents;  // normalizer.*; bert
  std::optional<bool> add_space_prefix, remove_extra_whitespaces;
  std::optional<TokenId> unknown;
  // Of the template of one text: the tokens before and behind it.
  std::vector<TokenId> before, after;
};

// `vocab_size`: rows of the embedding table; ids beyond the vocabulary are filled up, tokens beyond
// the table left out. UNIMPLEMENTED
// naming the part that GGUF has no name for; INVALID_ARGUMENT for a damaged file.
Result<GgufVocabularyFacts> ReadGgufFacts(const std::string& path, size_t vocab_size);

// OK when both give the same ids for the text of every token that both have, for neighbouring
// tokens' texts joined, and for some texts of white space, scripts and odd characters.
// UNIMPLEMENTED naming the first text that differs.
Status CheckSameIds(const Tokenizer& original, const Tokenizer& other);

}  // namespace pergola::tokenizers
