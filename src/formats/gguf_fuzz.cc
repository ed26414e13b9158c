// libFuzzer target: any bytes as a GGUF file. Run it on tests/fuzz/corpus/gguf.
#include <cstddef>
#include <cstdint>

#include "core/check.h"
#include "formats/gguf.h"
#include "formats/source_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto source =
      pergola::formats::ParseGguf(std::as_bytes(std::span<const uint8_t>(data, size)), "fuzz");
  if (source.ok()) PERGOLA_CHECK(pergola::formats::WalkSource(**source).ok());
  return 0;
}
