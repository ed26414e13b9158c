// An embedder that computes in no time and whose rows tell which text they came from.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "cli/embed_pipeline.h"

namespace pergola::cli::testing {

// Row of text t: {size of t, sum of its bytes, 0.1}. A text that begins with "bad" is refused, one
// that begins with "broken" breaks the engine.
class FakeEmbedder : public TextEmbedder {
 public:
  int64_t width() const override { return 3; }

  Result<EmbeddedTexts> Embed(std::span<const std::string> texts) const override {
    ++calls;
    EmbeddedTexts out;
    for (const std::string& text : texts) {
      if (text.starts_with("bad")) return InvalidArgumentError("input is bad");
      if (text.starts_with("broken")) return InternalError("engine is broken");
      float sum = 0;
      for (const char c : text) sum += static_cast<float>(static_cast<unsigned char>(c));
      out.values.insert(out.values.end(), {static_cast<float>(text.size()), sum, 0.1f});
      ++out.tokens;
    }
    return out;
  }

  mutable std::atomic<int> calls{0};
};

}  // namespace pergola::cli::testing
