// libFuzzer target: any bytes as a tokenizer.json, then a few texts. Run it on
// tests/fuzz/corpus/tokenizer_json.
#include <cstddef>
#include <cstdint>

#include "tokenizers/fuzz_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pergola::tokenizers::CheckTokenizerJson({reinterpret_cast<const char*>(data), size});
  return 0;
}
