#include "tokenizers/chunk_tokenizer.h"

#include <utility>

#include "tokenizers/byte_alphabet.h"

namespace pergola::tokenizers {

bool EncodeScratch::too_large() const {
  constexpr size_t kMostBytes = size_t{4} << 20;
  return normalized.capacity_bytes() + whole.capacity_bytes() + model.capacity_bytes() +
             word.capacity() + tokens.capacity() * sizeof(ModelToken) +
             (pieces.spans.capacity() + pieces.next.capacity()) * sizeof(TextSpan) +
             (first.ids.capacity() + second.ids.capacity()) * sizeof(TokenId) +
             (first.offsets.capacity() + second.offsets.capacity()) * sizeof(ByteSpan) >
         kMostBytes;
}

ChunkTokenizer::ChunkTokenizer(const PipelineParts& parts,
                               const AddedTokenMatcher& normalized_tokens)
    : parts_(parts), normalized_tokens_(normalized_tokens) {
  if (!parts.pretokenizer) return;
  needs_offsets_ = parts.pretokenizer->needs_offsets();
  maps_bytes_ = parts.pretokenizer->maps_bytes() && !parts.model->reads_bytes();
}

void ChunkTokenizer::TokenizePieces(bool with_offsets, EncodeScratch* scratch,
                                    TokenRun* run) const {
  NormalizedText& normalized = scratch->normalized;
  if (normalized.text().empty()) return;
  scratch->pieces.spans.assign(1, {0, normalized.text().size()});
  if (parts_.pretokenizer) parts_.pretokenizer->Split(&normalized, &scratch->pieces);
  if (maps_bytes_) MapBytes(&normalized, &scratch->pieces);
  const std::string_view text = normalized.text();
  for (const TextSpan piece : scratch->pieces.spans) {
    scratch->tokens.clear();
    parts_.model->Tokenize(text.substr(piece.begin, piece.end - piece.begin), &scratch->model,
                           &scratch->tokens);
    for (const ModelToken& token : scratch->tokens) {
      if (!with_offsets) {
        run->ids.push_back(token.id);
        continue;
      }
      run->Push(token.id, normalized.Original(piece.begin + token.begin, piece.begin + token.end),
                parts_.model->IdToToken(token.id), parts_.post_processor.trim_offsets);
    }
  }
}

void ChunkTokenizer::TokenizeNormalized(std::string_view text, size_t begin, size_t end,
                                        bool with_offsets, EncodeScratch* scratch,
                                        TokenRun* run) const {
  NormalizedText& normalized = scratch->normalized;
  normalized.Assign(text.substr(begin, end - begin), begin, with_offsets || needs_offsets_);
  if (parts_.normalizer) parts_.normalizer->Apply(&normalized);
  if (normalized_tokens_.empty()) {
    TokenizePieces(with_offsets, scratch, run);
    return;
  }
  // Pre-tokenisers may rewrite the text, so each stretch between added tokens is worked on in a
  // copy of its own.
  std::swap(scratch->normalized, scratch->whole);
  const NormalizedText& whole = scratch->whole;
  const std::string_view all = whole.text();
  size_t from = 0;
  size_t scan = 0;
  const auto tokenize_until = [&](size_t to) {
    if (to == from) return;
    normalized.AssignPart(whole, from, to);
    TokenizePieces(with_offsets, scratch, run);
  };
  while (const auto match = normalized_tokens_.FindNext(all, scan, from, all.size())) {
    tokenize_until(match->begin);
    if (with_offsets) {
      run->Push(match->id, whole.Original(match->begin, match->end),
                all.substr(match->begin, match->end - match->begin),
                parts_.post_processor.trim_offsets);
    } else {
      run->ids.push_back(match->id);
    }
    from = match->end;
    scan = match->scan_end;
  }
  tokenize_until(all.size());
}

void ChunkTokenizer::TokenizeAsciiWords(std::string_view text, size_t begin, size_t end,
                                        bool with_offsets, EncodeScratch* scratch,
                                        TokenRun* run) const {
  const auto emit = [&](size_t from, size_t to) {
    if (to == from) return;
    scratch->tokens.clear();
    parts_.model->Tokenize(std::string_view(scratch->word).substr(from, to - from), &scratch->model,
                           &scratch->tokens);
    for (const ModelToken& token : scratch->tokens) {
      if (with_offsets) {
        run->Push(token.id, {begin + from + token.begin, begin + from + token.end},
                  parts_.model->IdToToken(token.id), parts_.post_processor.trim_offsets);
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
void ChunkTokenizer::TokenizeBert(std::string_view text, size_t begin, size_t end,
                                  bool with_offsets, EncodeScratch* scratch, TokenRun* run) const {
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

void ChunkTokenizer::Tokenize(std::string_view text, size_t begin, size_t end, bool with_offsets,
                              EncodeScratch* scratch, TokenRun* run) const {
  if (begin >= end) return;
  if (parts_.bert_ascii && normalized_tokens_.empty()) {
    TokenizeBert(text, begin, end, with_offsets, scratch, run);
  } else {
    TokenizeNormalized(text, begin, end, with_offsets, scratch, run);
  }
}

}  // namespace pergola::tokenizers
