#include "tokenizers/post_processor.h"

namespace pergola::tokenizers {

PostProcessor PostProcessor::Bert(TokenId cls, TokenId sep) {
  using Kind = TemplatePiece::Kind;
  PostProcessor processor;
  processor.single = {
      {Kind::kSpecial, {cls}, 0}, {Kind::kFirst, {}, 0}, {Kind::kSpecial, {sep}, 0}};
  processor.pair = processor.single;
  processor.pair.push_back({Kind::kSecond, {}, 1});
  processor.pair.push_back({Kind::kSpecial, {sep}, 1});
  return processor;
}

PostProcessor PostProcessor::Roberta(TokenId cls, TokenId sep) {
  using Kind = TemplatePiece::Kind;
  PostProcessor processor;
  processor.single = {
      {Kind::kSpecial, {cls}, 0}, {Kind::kFirst, {}, 0}, {Kind::kSpecial, {sep}, 0}};
  processor.pair = processor.single;
  processor.pair.push_back({Kind::kSpecial, {sep}, 0});
  processor.pair.push_back({Kind::kSecond, {}, 0});
  processor.pair.push_back({Kind::kSpecial, {sep}, 0});
  return processor;
}

size_t PostProcessor::NumAddedTokens(bool for_pair) const {
  size_t count = 0;
  for (const TemplatePiece& piece : for_pair ? pair : single) count += piece.ids.size();
  return count;
}

}  // namespace pergola::tokenizers
