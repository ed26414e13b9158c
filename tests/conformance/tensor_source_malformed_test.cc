// Hostile and broken files: the tables tensor_source_malformed_*.txt, and sound files cut or
// changed.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "tensor_source_samples.h"

namespace pergola::formats {
namespace {

using Parse = std::function<Result<std::unique_ptr<TensorSource>>(std::string_view)>;

Parse ParserOf(const std::string& format) {
  return [format](std::string_view text) {
    const std::span bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
    return format == "gguf" ? ParseGguf(bytes, "it") : ParseSafetensors(bytes, "it");
  };
}

struct MalformedCase {
  std::string name;
  std::string code;
  std::vector<std::string> parts;
  std::string tokens;
};

// Bytes from the tokens of a case.
class Assembler {
 public:
  explicit Assembler(std::string_view tokens) : tokens_(tokens) {}

  std::string Assemble() {
    for (std::string word = NextWord(); !word.empty(); word = NextWord()) Add(word);
    return bytes_;
  }

 private:
  void SkipSpace() {
    while (!tokens_.empty() && (tokens_[0] == ' ' || tokens_[0] == '\n')) tokens_.remove_prefix(1);
  }
  std::string NextWord() {
    SkipSpace();
    const std::string word(tokens_.substr(0, tokens_.find_first_of(" \n")));
    tokens_.remove_prefix(word.size());
    return word;
  }
  std::string NextQuoted() {
    SkipSpace();
    EXPECT_TRUE(tokens_.starts_with('"')) << tokens_;
    const size_t end = tokens_.find('"', 1);
    const std::string_view inside = tokens_.substr(1, end - 1);
    tokens_.remove_prefix(end + 1);
    std::string text;
    for (size_t i = 0; i < inside.size(); ++i) {
      if (inside[i] != '\\') {
        text += inside[i];
        continue;
      }
      text += static_cast<char>(std::stoi(std::string(inside.substr(i + 2, 2)), nullptr, 16));
      i += 3;
    }
    return text;
  }
  template <typename T>
  void Append(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Add(const std::string& word) {
    if (word == "header") {
      SkipSpace();
      const std::string_view text = tokens_.substr(0, tokens_.find('\n'));
      tokens_.remove_prefix(text.size());
      Append<uint64_t>(text.size());
      bytes_ += text;
    } else if (word == "str" || word == "raw") {
      const std::string text = NextQuoted();
      if (word == "str") Append<uint64_t>(text.size());
      bytes_ += text;
    } else {
      AddNumber(word, std::stoull(NextWord()));
    }
  }
  void AddNumber(const std::string& word, uint64_t number) {
    if (word == "u8") {
      Append(static_cast<uint8_t>(number));
    } else if (word == "u16") {
      Append(static_cast<uint16_t>(number));
    } else if (word == "u32") {
      Append(static_cast<uint32_t>(number));
    } else if (word == "u64") {
      Append(number);
    } else if (word == "zero") {
      bytes_.append(number, '\0');
    } else if (word == "align") {
      bytes_.resize((bytes_.size() + number - 1) / number * number, '\0');
    } else {
      ADD_FAILURE() << "unknown token " << word;
    }
  }

  std::string_view tokens_;
  std::string bytes_;
};

std::vector<std::string> SplitParts(std::string text) {
  std::vector<std::string> parts;
  for (size_t bar = text.find(" | "); bar != std::string::npos; bar = text.find(" | ")) {
    parts.push_back(text.substr(0, bar));
    text.erase(0, bar + 3);
  }
  parts.push_back(text);
  return parts;
}

std::vector<MalformedCase> ReadTable(const std::string& format) {
  std::ifstream file(PERGOLA_TEST_DATA "/conformance/tensor_source_malformed_" + format + ".txt");
  std::vector<MalformedCase> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      cases.push_back({line.substr(1, line.find(']') - 1), "", {}, ""});
    } else if (line.starts_with("error: ")) {
      const size_t space = line.find(' ', 7);
      cases.back().code = line.substr(7, space - 7);
      cases.back().parts = SplitParts(line.substr(space + 1));
    } else {
      cases.back().tokens += line.substr(line.starts_with("bytes: ") ? 7 : 0) + "\n";
    }
  }
  return cases;
}

class MalformedTest : public testing::TestWithParam<std::string> {};

TEST_P(MalformedTest, EveryCaseOfTheTableIsRefusedInItsWords) {
  const std::vector<MalformedCase> cases = ReadTable(GetParam());
  ASSERT_GE(cases.size(), 35u);
  for (const MalformedCase& malformed : cases) {
    SCOPED_TRACE(malformed.name);
    // On the heap at its exact size, so that AddressSanitizer sees the first byte beyond.
    const std::string assembled = Assembler(malformed.tokens).Assemble();
    const std::vector<char> bytes(assembled.begin(), assembled.end());
    const Status status = ParserOf(GetParam())({bytes.data(), bytes.size()}).status();
    EXPECT_EQ(StatusCodeName(status.code()), malformed.code) << status.ToString();
    EXPECT_NE(status.message().find("file 'it'"), std::string::npos) << status.ToString();
    ASSERT_FALSE(malformed.parts.empty());
    for (const std::string& part : malformed.parts) {
      EXPECT_NE(status.message().find(part), std::string::npos)
          << "lacks: " << part << "\nhas:   " << status.message();
    }
  }
}

std::string SoundFile(const std::string& format) {
  std::ifstream file(PERGOLA_TEST_DATA "/golden/formats/python." + format, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads the first and the last byte of everything that was handed out.
int Touch(const TensorSource& source) {
  int sum = 0;
  for (const TensorInfo& info : source.tensors()) {
    sum += static_cast<int>(info.view.data[0]);
    sum += static_cast<int>(info.view.data[info.view.bytes() - 1]);
  }
  return sum;
}

TEST_P(MalformedTest, EveryBeginningOfASoundFileIsRefused) {
  const std::string whole = SoundFile(GetParam());
  ASSERT_TRUE(ParserOf(GetParam())(whole).ok());
  // The last tensor of the GGUF file has a type of unknown size, and padding behind it.
  const size_t needed = GetParam() == "gguf" ? whole.size() - 64 + 1 : whole.size();
  for (size_t size = 0; size < needed; ++size) {
    const std::vector<char> bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    const Status status = ParserOf(GetParam())({bytes.data(), bytes.size()}).status();
    EXPECT_FALSE(status.ok()) << size << " bytes of " << whole.size();
  }
}

TEST_P(MalformedTest, AChangedByteNeverLeadsOutsideTheFile) {
  const std::string whole = SoundFile(GetParam());
  int num_refused = 0;
  int sum = 0;
  for (size_t place = 0; place < whole.size(); ++place) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::vector<char> bytes(whole.begin(), whole.end());
      bytes[place] = static_cast<char>(bytes[place] ^ flip);
      const auto source = ParserOf(GetParam())({bytes.data(), bytes.size()});
      num_refused += source.ok() ? 0 : 1;
      if (source.ok()) sum += Touch(**source);
    }
  }
  EXPECT_GT(num_refused, 100);
  EXPECT_NE(sum, 0);
}

std::string NameOfFormat(const testing::TestParamInfo<std::string>& format) { return format.param; }

INSTANTIATE_TEST_SUITE_P(AllFormats, MalformedTest, testing::Values("gguf", "safetensors"),
                         NameOfFormat);

}  // namespace
}  // namespace pergola::formats
