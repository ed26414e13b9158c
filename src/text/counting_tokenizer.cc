#include "text/counting_tokenizer.h"

#include <utility>

namespace pergola::text {
namespace {

using tokenizers::EncodeOptions;
using tokenizers::Encoding;
using tokenizers::TokenId;
using tokenizers::Tokenizer;

class CountingTokenizer final : public Tokenizer {
 public:
  explicit CountingTokenizer(std::shared_ptr<const Tokenizer> inner) : inner_(std::move(inner)) {}

  std::string_view kind() const override { return inner_->kind(); }
  Status Encode(std::string_view text, const EncodeOptions& options,
                Encoding* encoding) const override {
    calls_->fetch_add(1, std::memory_order_relaxed);
    return inner_->Encode(text, options, encoding);
  }
  Status EncodePair(std::string_view first, std::string_view second, const EncodeOptions& options,
                    Encoding* encoding) const override {
    calls_->fetch_add(1, std::memory_order_relaxed);
    return inner_->EncodePair(first, second, options, encoding);
  }
  Result<std::string> Decode(std::span<const TokenId> ids,
                             bool skip_special_tokens) const override {
    return inner_->Decode(ids, skip_special_tokens);
  }
  size_t vocab_size() const override { return inner_->vocab_size(); }
  std::string_view IdToToken(TokenId id) const override { return inner_->IdToToken(id); }
  TokenId TokenToId(std::string_view token) const override { return inner_->TokenToId(token); }
  bool IsSpecial(TokenId id) const override { return inner_->IsSpecial(id); }
  size_t num_added_tokens(bool pair) const override { return inner_->num_added_tokens(pair); }

  const std::shared_ptr<std::atomic<uint64_t>>& calls() const { return calls_; }

 private:
  const std::shared_ptr<const Tokenizer> inner_;  // second owner: the text it was made of
  const std::shared_ptr<std::atomic<uint64_t>> calls_ = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace

CountedText CountTokenizerCalls(const TextModel& text) {
  TextModelConfig config = text.config();
  const auto tokenizer = std::make_shared<const CountingTokenizer>(config.tokenizer);
  config.tokenizer = tokenizer;
  return {std::make_shared<const TextModel>(std::move(config)), tokenizer->calls()};
}

}  // namespace pergola::text
