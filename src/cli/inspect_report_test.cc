#include "cli/inspect_report.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <limits>

#include "formats/memory_source.h"

namespace pergola::cli {
namespace {

class InspectReportTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(source_.AddF32("weight", {2, 2}, {1, 2, 3, 4}).ok());
    ASSERT_TRUE(source_.Add("packed", DType::kQ8_0, {1, 32}, std::vector<std::byte>(34)).ok());
    ASSERT_TRUE(source_.AddUnsupported({"ids", "I64", {3}, 90, 24, 0}).ok());
    ASSERT_TRUE(source_.Set("count", int64_t{7}).ok());
    ASSERT_TRUE(source_.Set("epsilon", static_cast<double>(1e-12f)).ok());
    ASSERT_TRUE(source_.Set("escape", "\x1b[31mred\xff").ok());
    ASSERT_TRUE(source_.Set("words", {"a", "b", "c"}).ok());
    inspection_.source = &source_;
    inspection_.files = {{"memory", 90, ""}};
  }

  formats::MemorySource source_;
  Inspection inspection_;
};

TEST_F(InspectReportTest, TextHasTensorsTotalsAndMetadata) {
  const std::string text = InspectionText(inspection_);
  for (const char* line : {"  weight  F32                [2, 2]        0     16\n",
                           "  ids     I64 (unsupported)  [3]          90     24\n",
                           "  Q8_0        1        32     34\n", "  count    7\n",
                           "  epsilon  1e-12\n", "  words    ['a', 'b', 'c']\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  }
}

TEST_F(InspectReportTest, NothingOfAFileReachesTheTerminalRaw) {
  const std::string text = InspectionText(inspection_);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("'\\x1b[31mred\\xff'"), std::string::npos) << text;
}

TEST_F(InspectReportTest, JsonIsReadByAParser) {
  inspection_.max_array_values = 2;
  const std::string json = InspectionJson(inspection_);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  ASSERT_FALSE(parser.parse(json).get(root)) << json;
  EXPECT_EQ(root["metadata"]["count"].get_int64().value(), 7);
  EXPECT_EQ(root["metadata"]["escape"].get_string().value(), "\x1b[31mred\xEF\xBF\xBD");
  EXPECT_EQ(root["metadata"]["words"]["count"].get_int64().value(), 3);
  EXPECT_EQ(root["metadata"]["words"]["first"].get_array().value().size(), 2u);
  ASSERT_EQ(root["tensors"].get_array().value().size(), 3u);
  EXPECT_EQ(root["tensors"].at(0)["name"].get_string().value(), "weight");
  EXPECT_EQ(root["tensors"].at(0)["shape"].at(1).get_int64().value(), 2);
  EXPECT_FALSE(root["tensors"].at(2)["supported"].get_bool().value());
  EXPECT_EQ(root["totals"]["Q8_0"]["bytes"].get_int64().value(), 34);
  EXPECT_TRUE(root["verify"].error()) << "only with --verify";
}

TEST_F(InspectReportTest, VerificationNamesTheFirstValueThatIsNotFinite) {
  EXPECT_TRUE(FindNonFinite(source_).empty());
  std::vector<float> values(5000, 1.0f);
  values[4321] = std::numeric_limits<float>::quiet_NaN();
  values[4999] = -std::numeric_limits<float>::infinity();
  ASSERT_TRUE(source_.AddF32("bad", {5, 1000}, values).ok());
  std::vector<std::byte> blocks(2 * 34);
  blocks[34 + 1] = std::byte{0x7C};  // the second block's scale is infinite
  ASSERT_TRUE(source_.Add("scale", DType::kQ8_0, {2, 32}, blocks).ok());
  inspection_.non_finite = FindNonFinite(source_);
  ASSERT_EQ(inspection_.non_finite->size(), 2u);
  EXPECT_EQ((*inspection_.non_finite)[0].name, "bad");
  EXPECT_EQ((*inspection_.non_finite)[0].count, 2);
  EXPECT_EQ((*inspection_.non_finite)[0].first_index, 4321);
  EXPECT_EQ((*inspection_.non_finite)[1].name, "scale");
  EXPECT_EQ((*inspection_.non_finite)[1].count, 32);
  EXPECT_EQ((*inspection_.non_finite)[1].first_index, 32);
  EXPECT_NE(InspectionText(inspection_).find("tensor 'bad' at offset 50: 2 values are not finite"),
            std::string::npos);
  EXPECT_NE(InspectionJson(inspection_).find("\"verify\": {\"ok\": false"), std::string::npos);
}

}  // namespace
}  // namespace pergola::cli
