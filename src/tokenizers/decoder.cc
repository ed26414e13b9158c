#include "tokenizers/decoder.h"

#include <charconv>
#include <utility>

#include "tokenizers/byte_alphabet.h"
#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

void ReplaceAll(std::string_view pattern, std::string_view content, std::string* text) {
  size_t found = text->find(pattern);
  if (found == std::string::npos) return;
  std::string result;
  size_t from = 0;
  for (; found != std::string::npos; found = text->find(pattern, from)) {
    result.append(*text, from, found - from);
    result.append(content);
    from = found + pattern.size();
  }
  result.append(*text, from);
  *text = std::move(result);
}

class WordPieceDecoder final : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  void Apply(std::vector<std::string>* pieces) const override {
    static constexpr std::pair<std::string_view, std::string_view> kCleanups[] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    bool first = true;
    for (std::string& piece : *pieces) {
      if (!first) {
        if (piece.starts_with(prefix_)) {
          piece.erase(0, prefix_.size());
        } else {
          piece.insert(0, 1, ' ');
        }
      }
      first = false;
      if (!cleanup_) continue;
      for (const auto& [pattern, content] : kCleanups) ReplaceAll(pattern, content, &piece);
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class ReplaceDecoder final : public Decoder {
 public:
  ReplaceDecoder(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void Apply(std::vector<std::string>* pieces) const override {
    for (std::string& piece : *pieces) ReplaceAll(pattern_, content_, &piece);
  }

 private:
  std::string pattern_;
  std::string content_;
};

class ByteLevelDecoder final : public Decoder {
 public:
  void Apply(std::vector<std::string>* pieces) const override {
    std::string bytes;
    for (const std::string& piece : *pieces) {
      if (!PieceToBytes(piece, &bytes)) bytes += piece;
    }
    pieces->assign(1, ReplaceInvalidUtf8(bytes));
  }
};

class MetaspaceDecoder final : public Decoder {
 public:
  MetaspaceDecoder(std::string mark, bool drops_first)
      : mark_(std::move(mark)), drops_first_(drops_first) {}

  void Apply(std::vector<std::string>* pieces) const override {
    bool first = true;
    for (std::string& piece : *pieces) {
      ReplaceAll(mark_, first && drops_first_ ? "" : " ", &piece);
      first = false;
    }
  }

 private:
  std::string mark_;
  bool drops_first_;
};

class BpeDecoder final : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}

  void Apply(std::vector<std::string>* pieces) const override {
    for (size_t i = 0; i < pieces->size(); ++i) {
      ReplaceAll(suffix_, i + 1 == pieces->size() ? "" : " ", &(*pieces)[i]);
    }
  }

 private:
  std::string suffix_;
};

class ByteFallbackDecoder final : public Decoder {
 public:
  void Apply(std::vector<std::string>* pieces) const override {
    std::vector<std::string> result;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (FindInvalidUtf8(bytes) == kValidUtf8) {
        result.push_back(bytes);
      } else {
        result.insert(result.end(), bytes.size(), "\uFFFD");
      }
      bytes.clear();
    };
    for (std::string& piece : *pieces) {
      const int byte = ByteOfPiece(piece);
      if (byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
      } else {
        flush();
        result.push_back(std::move(piece));
      }
    }
    flush();
    *pieces = std::move(result);
  }
};

class FuseDecoder final : public Decoder {
 public:
  void Apply(std::vector<std::string>* pieces) const override {
    std::string all;
    for (const std::string& piece : *pieces) all += piece;
    pieces->assign(1, std::move(all));
  }
};

class StripDecoder final : public Decoder {
 public:
  StripDecoder(std::string content, size_t start, size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  void Apply(std::vector<std::string>* pieces) const override {
    for (std::string& piece : *pieces) {
      const std::string_view all = piece;
      size_t begin = 0;
      for (size_t i = 0; i < start_ && all.substr(begin).starts_with(content_); ++i) {
        begin += content_.size();
      }
      size_t end = all.size();
      for (size_t i = 0; i < stop_ && all.substr(begin, end - begin).ends_with(content_); ++i) {
        end -= content_.size();
      }
      piece = std::string(all.substr(begin, end - begin));
    }
  }

 private:
  std::string content_;
  size_t start_;
  size_t stop_;
};

class DecoderSequence final : public Decoder {
 public:
  explicit DecoderSequence(std::vector<std::unique_ptr<Decoder>> parts)
      : parts_(std::move(parts)) {}

  void Apply(std::vector<std::string>* pieces) const override {
    for (const auto& part : parts_) part->Apply(pieces);
  }

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

}  // namespace

int ByteOfPiece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int byte = -1;
  const char* end = piece.data() + 5;
  const auto result = std::from_chars(piece.data() + 3, end, byte, 16);
  return result.ec == std::errc() && result.ptr == end && byte >= 0 ? byte : -1;
}

std::unique_ptr<Decoder> MakeWordPieceDecoder(std::string prefix, bool cleanup) {
  return std::make_unique<WordPieceDecoder>(std::move(prefix), cleanup);
}
std::unique_ptr<Decoder> MakeReplaceDecoder(std::string pattern, std::string content) {
  return std::make_unique<ReplaceDecoder>(std::move(pattern), std::move(content));
}
std::unique_ptr<Decoder> MakeByteLevelDecoder() { return std::make_unique<ByteLevelDecoder>(); }
std::unique_ptr<Decoder> MakeMetaspaceDecoder(std::string mark, bool drops_first) {
  return std::make_unique<MetaspaceDecoder>(std::move(mark), drops_first);
}
std::unique_ptr<Decoder> MakeBpeDecoder(std::string suffix) {
  return std::make_unique<BpeDecoder>(std::move(suffix));
}
std::unique_ptr<Decoder> MakeByteFallbackDecoder() {
  return std::make_unique<ByteFallbackDecoder>();
}
std::unique_ptr<Decoder> MakeFuseDecoder() { return std::make_unique<FuseDecoder>(); }
std::unique_ptr<Decoder> MakeStripDecoder(std::string content, size_t start, size_t stop) {
  return std::make_unique<StripDecoder>(std::move(content), start, stop);
}
std::unique_ptr<Decoder> MakeDecoderSequence(std::vector<std::unique_ptr<Decoder>> parts) {
  return std::make_unique<DecoderSequence>(std::move(parts));
}

}  // namespace pergola::tokenizers
