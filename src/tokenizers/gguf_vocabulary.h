// Tokenizers from the vocabulary inside a GGUF file.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto source, formats::OpenTensorSource("model.gguf"));
//   PERGOLA_ASSIGN_OR_RETURN(auto tokenizer, LoadTokenizerGguf(*source));
//
// `tokenizer.ggml.model` says which kind:
//   "bert"   WordPiece. Pieces at the start of a word are stored with U+2581 before them, pieces
//            inside a word bare; here they become "piece" and "##piece". Whether text is
//            lower-cased and loses its accents say
//            `tokenizer.ggml.normalizer.{lowercase,strip_accents}`; older files do not have them:
//            then a vocabulary with a capital letter is taken as cased.
//   "llama"  SentencePiece BPE with scores. The merges that the Hugging Face tokenizer has are made
//            again: every split of a piece into two pieces, by falling score of the whole, then by
//            falling length of the left part.
//   "gpt2"   byte-level BPE with merges. `tokenizer.ggml.pre` says how text is cut ("qwen2",
//            "llama-bpe", "gpt-2", ...); where the tokenizer.json of those models has NFC, text is
//            normalised too, which llama.cpp leaves out.
//   "t5"     Unigram with scores and, as a rule, a compiled character map; text is cut as the
//            reference library does for XLM-RoBERTa and T5.
// Others, and other values of `pre`, are UNIMPLEMENTED.
#pragma once

#include <memory>

#include "formats/tensor_source.h"
#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {

// The source need not outlive the tokenizer. NOT_FOUND when there is no vocabulary,
// INVALID_ARGUMENT naming the key that is missing or wrong.
Result<std::unique_ptr<Tokenizer>> LoadTokenizerGguf(const formats::TensorSource& source);

}  // namespace pergola::tokenizers
