// Normalises, cuts and tokenises a stretch of text.
//
//   ChunkTokenizer chunks(parts, normalized_tokens);
//   chunks.Tokenize(text, 0, text.size(), /*with_offsets=*/false, scratch, &run);
#pragma once

#include <string_view>

#include "tokenizers/added_tokens.h"
#include "tokenizers/pipeline.h"
#include "tokenizers/scratch_pool.h"
#include "tokenizers/token_run.h"

namespace pergola::tokenizers {

// Working memory of one Encode. Thread-confined.
struct EncodeScratch {
  NormalizedText normalized;
  NormalizedText whole;  // before it is cut at added tokens
  PieceList pieces;
  std::vector<ModelToken> tokens;
  ModelScratch model;
  std::string word;
  NormalizedText edge;  // one code point, for CutFinder
  TokenRun first;
  TokenRun second;

  // For ScratchPool: some megabytes.
  bool too_large() const;
};

// Immutable and thread-safe; what it is made from must outlive it.
class ChunkTokenizer {
 public:
  // `normalized_tokens`: added tokens that are looked for after normalisation.
  ChunkTokenizer(const PipelineParts& parts, const AddedTokenMatcher& normalized_tokens);

  // Appends the tokens of text[begin, end), which holds no added token that is looked for before
  // normalisation. May be empty.
  void Tokenize(std::string_view text, size_t begin, size_t end, bool with_offsets,
                EncodeScratch* scratch, TokenRun* run) const;

 private:
  void TokenizeBert(std::string_view text, size_t begin, size_t end, bool with_offsets,
                    EncodeScratch* scratch, TokenRun* run) const;
  void TokenizeAsciiWords(std::string_view text, size_t begin, size_t end, bool with_offsets,
                          EncodeScratch* scratch, TokenRun* run) const;
  void TokenizeNormalized(std::string_view text, size_t begin, size_t end, bool with_offsets,
                          EncodeScratch* scratch, TokenRun* run) const;
  // The normalised text of scratch, if there is any.
  void TokenizePieces(bool with_offsets, EncodeScratch* scratch, TokenRun* run) const;

  const PipelineParts& parts_;
  const AddedTokenMatcher& normalized_tokens_;
  bool needs_offsets_ = false;
  bool maps_bytes_ = false;  // the model must be given letters for bytes
};

}  // namespace pergola::tokenizers
