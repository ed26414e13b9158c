// From pieces back to text.
//
//   std::vector<std::string> pieces = {"hel", "##lo"};
//   MakeWordPieceDecoder("##", true)->Apply(&pieces);  // the text is their concatenation
//
// One class per kind of the `decoder` entry of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace pergola::tokenizers {

// Immutable and thread-safe.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void Apply(std::vector<std::string>* pieces) const = 0;
};

// `cleanup` removes the spaces before punctuation and English contractions.
std::unique_ptr<Decoder> MakeWordPieceDecoder(std::string prefix, bool cleanup);
// `pattern` is not empty.
std::unique_ptr<Decoder> MakeReplaceDecoder(std::string pattern, std::string content);
// Letters become the bytes that they stand for (byte_alphabet.h), of all pieces together; U+FFFD in
// place of what is not UTF-8.
std::unique_ptr<Decoder> MakeByteLevelDecoder();
// `mark` becomes a space; `drops_first`: nothing in the first piece.
std::unique_ptr<Decoder> MakeMetaspaceDecoder(std::string mark, bool drops_first);
// `suffix` (not empty) becomes a space, nothing in the last piece.
std::unique_ptr<Decoder> MakeBpeDecoder(std::string suffix);
// "<0x41>" and its neighbours become the bytes; bytes that are not UTF-8 one U+FFFD each.
std::unique_ptr<Decoder> MakeByteFallbackDecoder();
std::unique_ptr<Decoder> MakeFuseDecoder();
// Removes `content` up to `start` times at the start and `stop` times at the end of each piece.
std::unique_ptr<Decoder> MakeStripDecoder(std::string content, size_t start, size_t stop);
std::unique_ptr<Decoder> MakeDecoderSequence(std::vector<std::unique_ptr<Decoder>> parts);

// The byte that a piece of the form "<0x41>" stands for, or -1.
int ByteOfPiece(std::string_view piece);

}  // namespace pergola::tokenizers
