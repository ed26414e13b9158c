#include "tokenizers/unigram.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr uint32_t kUnreached = 0xFFFFFFFF;

}  // namespace

Result<std::unique_ptr<Unigram>> Unigram::Make(Vocabulary vocabulary, std::vector<double> scores,
                                               const UnigramOptions& options) {
  if (scores.size() != vocabulary.id_limit()) {
    return InvalidArgumentError("Unigram: " + std::to_string(scores.size()) + " scores for " +
                                std::to_string(vocabulary.id_limit()) + " pieces");
  }
  if (!vocabulary.Has(options.unk)) {
    return InvalidArgumentError("Unigram: the unknown token " + std::to_string(options.unk) +
                                " is outside the vocabulary of " + std::to_string(scores.size()));
  }
  std::unique_ptr<Unigram> unigram(new Unigram(std::move(vocabulary), std::move(scores), options));
  std::vector<DoubleArray::Entry> entries;
  entries.reserve(unigram->vocabulary_.num_tokens());
  for (size_t index = 0; index < unigram->vocabulary_.id_limit(); ++index) {
    const auto id = static_cast<TokenId>(index);
    const std::string_view piece = unigram->vocabulary_.Token(id);
    if (!piece.empty()) entries.push_back({piece, id});
  }
  PERGOLA_ASSIGN_OR_RETURN(unigram->trie_, DoubleArray::Build(std::move(entries)));
  return unigram;
}

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options)
    : vocabulary_(std::move(vocabulary)),
      scores_(std::move(scores)),
      unk_(options.unk),
      byte_fallback_(options.byte_fallback) {
  unk_score_ = std::numeric_limits<double>::infinity();
  for (size_t id = 0; id < scores_.size(); ++id) {
    if (vocabulary_.Has(static_cast<TokenId>(id))) unk_score_ = std::min(unk_score_, scores_[id]);
  }
  unk_score_ -= kUnknownPenalty;
  static constexpr char kDigits[] = "0123456789ABCDEF";
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char name[] = {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
    byte_ids_[byte] = vocabulary_.Find({name, sizeof(name)});
  }
}

void Unigram::FillLattice(std::string_view piece,
                          std::vector<ModelScratch::LatticeNode>* lattice) const {
  const size_t size = piece.size();
  lattice->assign(size + 1, {0, kUnreached, 0});
  ModelScratch::LatticeNode* nodes = lattice->data();
  for (size_t begin = 0; begin < size;) {
    const double score = nodes[begin].score;
    const size_t char_end = begin + Utf8Length(piece[begin]);
    const auto reach = [&](size_t end, double step, TokenId id) {
      const double candidate = step + score;
      ModelScratch::LatticeNode& node = nodes[end];
      if (node.begin != kUnreached && !(candidate > node.score)) return;
      node = {candidate, static_cast<uint32_t>(begin), id};
    };
    bool has_char = false;
    DoubleArray::Node at = trie_.root();
    for (size_t end = begin; end < size && trie_.Step(piece[end], &at);) {
      ++end;
      const TokenId id = trie_.Value(at);
      if (id == DoubleArray::kNoValue) continue;
      reach(end, scores_[static_cast<size_t>(id)], id);
      has_char |= end == char_end;
    }
    if (!has_char) reach(char_end, unk_score_, unk_);
    begin = char_end;
  }
}

void Unigram::PushUnknown(std::string_view piece, uint32_t begin, uint32_t end,
                          std::vector<ModelToken>* tokens) const {
  const std::string_view bytes = piece.substr(begin, end - begin);
  const auto byte_id = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  // Joined, they may be a piece after all: the unknown token itself, written out.
  const TokenId whole = vocabulary_.Find(bytes);
  if (whole == Vocabulary::kNone && byte_fallback_ &&
      std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
    for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte) {
      tokens->push_back({byte_id(*byte), begin, end});
    }
    return;
  }
  tokens->push_back({whole == Vocabulary::kNone ? unk_ : whole, begin, end});
}

void Unigram::Tokenize(std::string_view piece, ModelScratch* scratch,
                       std::vector<ModelToken>* tokens) const {
  FillLattice(piece, &scratch->lattice);
  const ModelScratch::LatticeNode* nodes = scratch->lattice.data();
  const size_t first = tokens->size();
  auto end = static_cast<uint32_t>(piece.size());
  while (end > 0) {
    if (nodes[end].id != unk_) {
      tokens->push_back({nodes[end].id, nodes[end].begin, end});
      end = nodes[end].begin;
      continue;
    }
    uint32_t begin = nodes[end].begin;
    while (begin > 0 && nodes[begin].id == unk_) begin = nodes[begin].begin;
    PushUnknown(piece, begin, end, tokens);
    end = begin;
  }
  std::reverse(tokens->begin() + static_cast<ptrdiff_t>(first), tokens->end());
}

}  // namespace pergola::tokenizers
