#include "tokenizers/bpe.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tokenizers/byte_alphabet.h"
#include "tokenizers/decoder.h"
#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

constexpr size_t kMergeBlock = 32;  // look-ups in flight at once while loading
constexpr size_t kFewSymbols = 24;  // up to here a heap does not pay
constexpr uint32_t kNoRank = 0xFFFFFFFF;

std::string ShortPiece(std::string_view piece) {
  constexpr size_t kShown = 32;
  size_t size = std::min(piece.size(), kShown);
  while (size > 0 && size < piece.size() && IsUtf8Continuation(piece[size])) --size;
  return "'" + std::string(piece.substr(0, size)) + (size < piece.size() ? "...'" : "'");
}

// Bits for the pairs that `num_merges` merges join.
int PairBits(size_t num_merges) {
  return std::clamp(static_cast<int>(std::bit_width(num_merges * 4)), 12, 22);
}

}  // namespace

Result<std::unique_ptr<Bpe>> Bpe::Make(Vocabulary vocabulary, BpeOptions options,
                                       size_t num_merges) {
  TokenId unk = Vocabulary::kNone;
  if (!options.unk_token.empty()) {
    unk = vocabulary.Find(options.unk_token);
    if (unk == Vocabulary::kNone) {
      return InvalidArgumentError("BPE: the unknown token " + ShortPiece(options.unk_token) +
                                  " is not in the vocabulary");
    }
  }
  return std::unique_ptr<Bpe>(new Bpe(std::move(vocabulary), std::move(options), unk, num_merges));
}

Bpe::Bpe(Vocabulary vocabulary, BpeOptions options, TokenId unk, size_t num_merges)
    : vocabulary_(std::move(vocabulary)),
      options_(std::move(options)),
      unk_(unk),
      capacity_(num_merges),
      joins_(PairBits(num_merges)),
      unit_states_(new std::atomic<uint8_t>[vocabulary_.id_limit() + 1]()) {
  const size_t slots = std::bit_ceil(num_merges * 2 + 2);
  merges_.resize(slots);
  merge_shift_ = 64 - std::countr_zero(slots);
  for (size_t code = 0; code < ascii_ids_.size(); ++code) {
    const char byte = static_cast<char>(code);
    ascii_ids_[code] = vocabulary_.Find({&byte, 1});
  }
  if (options_.byte_level && IndexBytes()) {
    reads_bytes_ = true;
    return;
  }
  static constexpr char kDigits[] = "0123456789ABCDEF";
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char name[] = {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
    byte_ids_[byte] = vocabulary_.Find({name, sizeof(name)});
    has_all_bytes_ &= byte_ids_[byte] != Vocabulary::kNone;
  }
}

bool Bpe::IndexBytes() {
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    char letter[4];
    const size_t size = EncodeUtf8(ByteToAlphabet(static_cast<uint8_t>(byte)), letter);
    byte_ids_[byte] = vocabulary_.Find({letter, size});
    if (byte_ids_[byte] == Vocabulary::kNone) return false;
  }
  by_bytes_.Reserve(vocabulary_.num_tokens(), vocabulary_.num_bytes());
  std::string bytes;
  bytes.reserve(vocabulary_.num_bytes());  // never more than the letters, so views of it stay
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(vocabulary_.num_tokens());
  for (size_t index = 0; index < vocabulary_.id_limit(); ++index) {
    const auto id = static_cast<TokenId>(index);
    const size_t begin = bytes.size();
    if (!vocabulary_.Has(id) || !PieceToBytes(vocabulary_.Token(id), &bytes)) continue;
    entries.push_back({{bytes.data() + begin, bytes.size() - begin}, id});
  }
  // The alphabet is one to one, so nothing is there twice.
  return by_bytes_.Add(entries).ok();
}

TokenId Bpe::FindByte(char byte) const {
  const auto code = static_cast<uint8_t>(byte);
  return reads_bytes_ ? byte_ids_[code] : ascii_ids_[code];
}

TokenId Bpe::FindUnit(std::string_view unit) const {
  const Vocabulary& pieces = reads_bytes_ ? by_bytes_ : vocabulary_;
  return unit.size() <= pieces.longest_token_bytes() ? pieces.Find(unit) : Vocabulary::kNone;
}

const Bpe::MergeSlot* Bpe::FindMerge(TokenId left, TokenId right) const {
  const size_t mask = merges_.size() - 1;
  for (size_t slot = SlotOf(left, right);; slot = (slot + 1) & mask) {
    const MergeSlot& merge = merges_[slot];
    if (merge.left == left && merge.right == right) return &merge;
    if (merge.left < 0) return nullptr;
  }
}

void Bpe::InsertMerge(const MergeSlot& merge) {
  const size_t mask = merges_.size() - 1;
  size_t slot = SlotOf(merge.left, merge.right);
  while (merges_[slot].left >= 0 &&
         (merges_[slot].left != merge.left || merges_[slot].right != merge.right)) {
    slot = (slot + 1) & mask;
  }
  merges_[slot] = merge;
}

Status Bpe::AddMerges(std::span<const Merge> merges) {
  if (merges.size() > capacity_ - num_merges_) {
    return InvalidArgumentError("BPE: more than the announced " + std::to_string(capacity_) +
                                " merges");
  }
  while (!merges.empty()) {
    const size_t count = std::min(merges.size(), kMergeBlock);
    PERGOLA_RETURN_IF_ERROR(AddBlock(merges.first(count)));
    merges = merges.subspan(count);
  }
  return OkStatus();
}

// All look-ups of a block are started before the first is waited for: twice as fast as one by one
// with the 515,000 merges of Gemma. What two parts make need hardly ever be looked up: it is what
// the merge before made, or the piece after that.
Status Bpe::AddBlock(std::span<const Merge> merges) {
  struct LookUp {
    uint64_t left;
    uint64_t right;
  };
  std::array<LookUp, kMergeBlock> look_ups;
  std::array<MergeSlot, kMergeBlock> found;
  for (size_t i = 0; i < merges.size(); ++i) {
    look_ups[i] = {HashBytes(merges[i].left), HashBytes(merges[i].right)};
    vocabulary_.PrefetchSlot(look_ups[i].left);
    vocabulary_.PrefetchSlot(look_ups[i].right);
  }
  for (size_t i = 0; i < merges.size(); ++i) {
    vocabulary_.PrefetchToken(look_ups[i].left);
    vocabulary_.PrefetchToken(look_ups[i].right);
  }
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto [left, right] = merges[i];
    MergeSlot& merge = found[i];
    last_merged_ = FindMerged(left, right, last_merged_);
    merge = {vocabulary_.Find(left, look_ups[i].left), vocabulary_.Find(right, look_ups[i].right),
             num_merges_++, last_merged_};
    if (merge.left < 0 || merge.right < 0 || merge.merged < 0 || left.empty() || right.empty()) {
      return InvalidArgumentError("BPE: merge " + std::to_string(merge.rank) + " of " +
                                  ShortPiece(left) + " and " + ShortPiece(right) +
                                  ": the parts and the result must be in the vocabulary");
    }
    __builtin_prefetch(&merges_[SlotOf(merge.left, merge.right)], 1);
    if (reads_bytes_) continue;
    size_t last = PreviousUtf8(left, left.size());
    size_t first = 0;
    joins_.Insert(DecodeUtf8(left, &last), DecodeUtf8(right, &first));
    joins_fallbacks_ |= merge.left == unk_ || merge.right == unk_ || ByteOfPiece(left) >= 0 ||
                        ByteOfPiece(right) >= 0;
  }
  for (size_t i = 0; i < merges.size(); ++i) InsertMerge(found[i]);
  return OkStatus();
}

TokenId Bpe::FindMerged(std::string_view left, std::string_view right, TokenId before) const {
  for (const TokenId guess : {before, before + 1}) {
    const std::string_view token = vocabulary_.Token(guess);
    if (token.size() == left.size() + right.size() && token.starts_with(left) &&
        token.ends_with(right)) {
      return guess;
    }
  }
  return vocabulary_.Find(std::string(left).append(right));
}

TokenId Bpe::FindCodePoint(std::string_view bytes) const {
  return bytes.size() == 1 ? ascii_ids_[static_cast<uint8_t>(bytes[0])] : vocabulary_.Find(bytes);
}

bool Bpe::Knows(char32_t code_point) const {
  char bytes[4];
  return FindCodePoint({bytes, EncodeUtf8(code_point, bytes)}) >= 0;
}

bool Bpe::IsBoundary(char32_t before, char32_t after) const {
  if (reads_bytes_) return false;
  if (joins_.Contains(before, after)) return false;
  if (options_.byte_fallback && has_all_bytes_ && !joins_fallbacks_) return true;
  // Unknown code points depend on their neighbours.
  return unk_ >= 0 && Knows(before) && Knows(after);
}

void Bpe::Tokenize(std::string_view piece, ModelScratch* scratch,
                   std::vector<ModelToken>* tokens) const {
  if (options_.ignore_merges) {
    const TokenId whole = FindUnit(piece);
    if (whole >= 0) {
      tokens->push_back({whole, 0, static_cast<uint32_t>(piece.size())});
      return;
    }
  }
  size_t begin = 0;
  size_t pos = 0;
  if (reads_bytes_) return TokenizeUnit(piece, 0, scratch, tokens);
  char32_t before = DecodeUtf8(piece, &pos);
  while (pos < piece.size()) {
    const size_t here = pos;
    const char32_t after = DecodeUtf8(piece, &pos);
    if (IsBoundary(before, after)) {
      TokenizeUnit(piece.substr(begin, here - begin), static_cast<uint32_t>(begin), scratch,
                   tokens);
      begin = here;
    }
    before = after;
  }
  TokenizeUnit(piece.substr(begin), static_cast<uint32_t>(begin), scratch, tokens);
}

void Bpe::TokenizeUnit(std::string_view unit, uint32_t offset, ModelScratch* scratch,
                       std::vector<ModelToken>* tokens) const {
  const TokenId whole = unit.size() == 1 ? FindByte(unit[0]) : FindUnit(unit);
  std::atomic<uint8_t>& state = unit_states_[static_cast<size_t>(whole + 1)];
  if (whole >= 0 && state.load(std::memory_order_relaxed) == kStaysWhole) {
    tokens->push_back({whole, offset, offset + static_cast<uint32_t>(unit.size())});
    return;
  }
  FillSymbols(unit, scratch);
  std::vector<ModelScratch::Symbol>& symbols = scratch->symbols;
  if (symbols.size() <= kFewSymbols) {
    MergeFew(scratch);
  } else {
    MergeMany(scratch);
  }
  if (whole >= 0) {
    const bool stays = symbols.size() == 1 && symbols[0].id == whole;
    state.store(stays ? kStaysWhole : kFallsApart, std::memory_order_relaxed);
  }
  for (const ModelScratch::Symbol& symbol : symbols) {
    tokens->push_back({symbol.id, offset + symbol.begin, offset + symbol.end});
  }
}

// An unknown code point waits until a known one follows, as in the reference library: byte tokens
// in between come before it.
void Bpe::FillSymbols(std::string_view unit, ModelScratch* scratch) const {
  std::vector<ModelScratch::Symbol>& symbols = scratch->symbols;
  symbols.clear();
  if (reads_bytes_) {
    for (uint32_t i = 0; i < unit.size(); ++i) {
      symbols.push_back({byte_ids_[static_cast<uint8_t>(unit[i])], i, i + 1, 0, 0});
    }
    return;
  }
  uint32_t at = 0;
  const auto add = [&](TokenId id, uint32_t length) {
    symbols.push_back({id, at, at + length, 0, 0});
    at += length;
  };
  uint32_t unknown_bytes = 0;
  for (size_t pos = 0; pos < unit.size();) {
    const size_t length = Utf8Length(unit[pos]);
    const std::string_view bytes = unit.substr(pos, length);
    pos += length;
    const TokenId id = FindCodePoint(bytes);
    if (id >= 0) {
      if (unknown_bytes > 0) add(unk_, std::exchange(unknown_bytes, 0));
      add(id, static_cast<uint32_t>(length));
      continue;
    }
    const auto byte_id = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
    if (options_.byte_fallback &&
        std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
      for (const char byte : bytes) add(byte_id(byte), 1);
      continue;
    }
    if (unk_ < 0) continue;
    if (unknown_bytes > 0 && !options_.fuse_unk) add(unk_, std::exchange(unknown_bytes, 0));
    unknown_bytes += static_cast<uint32_t>(length);
  }
  if (unknown_bytes > 0) add(unk_, unknown_bytes);
}

void Bpe::MergeFew(ModelScratch* scratch) const {
  std::vector<ModelScratch::Symbol>& symbols = scratch->symbols;
  size_t count = symbols.size();
  // What the pair (i, i + 1) becomes.
  std::array<uint32_t, kFewSymbols> ranks;
  std::array<TokenId, kFewSymbols> merged;
  const auto look_up = [&](size_t i) {
    const MergeSlot* merge = FindMerge(symbols[i].id, symbols[i + 1].id);
    ranks[i] = merge != nullptr ? merge->rank : kNoRank;
    merged[i] = merge != nullptr ? merge->merged : -1;
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    symbols[best].id = merged[best];
    symbols[best].end = symbols[best + 1].end;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    --count;
    if (best + 1 < count) look_up(best);
    if (best > 0) look_up(best - 1);
  }
  symbols.resize(count);
}

void Bpe::MergeMany(ModelScratch* scratch) const {
  using Candidate = ModelScratch::Candidate;
  std::vector<ModelScratch::Symbol>& symbols = scratch->symbols;
  std::vector<Candidate>& heap = scratch->candidates;
  heap.clear();
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  const auto candidate = [&](int32_t left, int32_t right, Candidate* result) {
    const auto& first = symbols[static_cast<size_t>(left)];
    const auto& second = symbols[static_cast<size_t>(right)];
    const MergeSlot* merge = FindMerge(first.id, second.id);
    if (merge == nullptr) return false;
    *result = {merge->rank, static_cast<uint32_t>(left), merge->merged, second.end};
    return true;
  };
  const auto count = static_cast<int32_t>(symbols.size());
  Candidate found;
  for (int32_t i = 0; i < count; ++i) {
    symbols[static_cast<size_t>(i)].previous = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < count ? i + 1 : -1;
    if (i + 1 < count && candidate(i, i + 1, &found)) heap.push_back(found);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  const auto push = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0 || !candidate(left, right, &found)) return;
    heap.push_back(found);
    std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate best = heap.back();
    heap.pop_back();
    auto& left = symbols[best.left];
    if (left.id < 0 || left.next < 0) continue;
    auto& right = symbols[static_cast<size_t>(left.next)];
    // Symbols only grow, so an equal end means that both are still what they were.
    if (right.end != best.end) continue;
    left.id = best.merged;
    left.end = right.end;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) {
      symbols[static_cast<size_t>(left.next)].previous = static_cast<int32_t>(best.left);
    }
    push(left.previous, static_cast<int32_t>(best.left));
    push(static_cast<int32_t>(best.left), left.next);
  }
  std::erase_if(symbols, [](const ModelScratch::Symbol& symbol) { return symbol.id < 0; });
}

}  // namespace pergola::tokenizers
