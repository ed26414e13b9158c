// libFuzzer target: any bytes as a text for tokenizers of tests/golden/tiny, one of each kind;
// PERGOLA_TEST_DATA is the tests folder. Run it on tests/fuzz/corpus/tokenizer_encode.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "core/check.h"
#include "tokenizers/fuzz_checks.h"

namespace {

using pergola::tokenizers::LoadTokenizerJson;
using pergola::tokenizers::Tokenizer;

std::unique_ptr<Tokenizer> Load(const std::string& model) {
  const char* data = std::getenv("PERGOLA_TEST_DATA");
  auto tokenizer = LoadTokenizerJson(std::string(data != nullptr ? data : "tests") +
                                     "/golden/tiny/" + model + "/tokenizer.json");
  PERGOLA_CHECK(tokenizer.ok());
  return std::move(*tokenizer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<Tokenizer> kBert = Load("bert");
  static const std::unique_ptr<Tokenizer> kGemma = Load("gemma3-embed");
  static const std::unique_ptr<Tokenizer> kQwen = Load("qwen3-embed");
  static const std::unique_ptr<Tokenizer> kRoberta = Load("roberta");
  static const std::unique_ptr<Tokenizer> kXlmRoberta = Load("xlm-roberta");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto* tokenizer : {&kBert, &kGemma, &kQwen, &kRoberta, &kXlmRoberta}) {
    pergola::tokenizers::CheckEncoding(**tokenizer, text);
  }
  return 0;
}
