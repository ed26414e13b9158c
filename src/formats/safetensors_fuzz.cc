// libFuzzer target: any bytes as a safetensors file. Run it on tests/fuzz/corpus/safetensors.
#include <cstddef>
#include <cstdint>

#include "core/check.h"
#include "formats/safetensors.h"
#include "formats/source_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto source = pergola::formats::ParseSafetensors(
      std::as_bytes(std::span<const uint8_t>(data, size)), "fuzz");
  if (source.ok()) PERGOLA_CHECK(pergola::formats::WalkSource(**source).ok());
  return 0;
}
