#include "cli/bench_plot.h"

#include <gtest/gtest.h>

#include <limits>

namespace pergola::cli {
namespace {

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(BenchPlotTest, EveryValueIsADotAndEveryLineAPath) {
  const std::string svg = PlotSvg(
      {"8", "128"},
      {{"tokens/s", {{"here", {900, 450}}, {"there", {300, 20}}}}, {"ms", {{"here", {1, 2}}}}});
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(CountOf(svg, "<circle"), 6u);
  EXPECT_EQ(CountOf(svg, "fill=\"none\""), 3u);
  EXPECT_EQ(CountOf(svg, ">1000</text>"), 1u) << "the scale ends on a round number";
  EXPECT_EQ(CountOf(svg, ">128</text>"), 2u);
}

TEST(BenchPlotTest, ALargerValueStandsHigher) {
  const std::string svg = PlotSvg({"a", "b"}, {{"x", {{"y", {10, 0}}}}});
  const auto height_of = [&](size_t dot) {
    size_t at = 0;
    for (size_t i = 0; i <= dot; ++i) at = svg.find("cy=\"", at) + 4;
    return std::stod(svg.substr(at));
  };
  EXPECT_LT(height_of(0), height_of(1));
}

TEST(BenchPlotTest, WhatIsNoNumberIsLeftOutAndNamesAreEscaped) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::string svg = PlotSvg({"a", "b"}, {{"<b>&", {{"\"x\"", {none, -1}}}}});
  EXPECT_EQ(CountOf(svg, "<circle"), 0u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(svg.find("&lt;b&gt;&amp;"), std::string::npos);
  EXPECT_NE(svg.find("&quot;x&quot;"), std::string::npos);
}

}  // namespace
}  // namespace pergola::cli
