// Replays the committed corpus of the fuzz targets, so that what fuzzing once reached stays
// covered.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "formats/source_walk.h"

namespace pergola::formats {
namespace {

class FuzzCorpusTest : public testing::TestWithParam<std::string> {};

TEST_P(FuzzCorpusTest, EveryFileIsReadWhollyOrRefusedWithReason) {
  int num_read = 0;
  int num_refused = 0;
  const std::string folder = std::string(PERGOLA_TEST_DATA "/fuzz/corpus/") + GetParam();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().filename());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    const auto data = std::as_bytes(std::span<const char>(bytes));
    const auto source = GetParam() == "gguf" ? ParseGguf(data, "it") : ParseSafetensors(data, "it");
    if (source.ok()) {
      const auto walked = WalkSource(**source);
      EXPECT_TRUE(walked.ok()) << walked.status().ToString();
      ++num_read;
      continue;
    }
    ++num_refused;
    const std::string message = source.status().message();
    EXPECT_TRUE(simdjson::validate_utf8(message.data(), message.size())) << message;
    EXPECT_NE(message.find(" file 'it': "), std::string::npos) << message;
  }
  EXPECT_GE(num_read, 10);
  EXPECT_GE(num_refused, 50);
}

std::string NameOfFormat(const testing::TestParamInfo<std::string>& format) { return format.param; }

INSTANTIATE_TEST_SUITE_P(AllFormats, FuzzCorpusTest, testing::Values("gguf", "safetensors"),
                         NameOfFormat);

}  // namespace
}  // namespace pergola::formats
