#include "service/trace_context.h"

#include <gtest/gtest.h>

#include <set>

namespace pergola::service {
namespace {

// The example of the W3C recommendation.
constexpr char kExample[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContextTest, ReadsAndWritesTheHeader) {
  const auto context = ParseTraceParent(kExample);
  ASSERT_TRUE(context);
  EXPECT_EQ(HexOf(context->trace_id), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(HexOf(context->span_id), "b7ad6b7169203331");
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(FormatTraceParent(*context), kExample);
}

TEST(TraceContextTest, TheStateIsPassedOnIfAHeaderMayHoldIt) {
  EXPECT_EQ(TraceStateOf("rojo=00f067aa0ba902b7,congo=t61"), "rojo=00f067aa0ba902b7,congo=t61");
  EXPECT_EQ(TraceStateOf("a=b\r\nx: y"), "");
  EXPECT_EQ(TraceStateOf("a=b,\tc=d"), "a=b, c=d");
  EXPECT_EQ(TraceStateOf("a=\xc3\xa9"), "");
  EXPECT_EQ(TraceStateOf(std::string(513, 'a')), "");
  TraceContext context = *ParseTraceParent(kExample);
  context.state = "rojo=1";
  EXPECT_EQ(ChildOf(context).state, "rojo=1");
}

TEST(TraceContextTest, TakesLaterVersionsWithMoreBehindTheFlags) {
  const std::string rest = std::string(kExample).substr(2);
  EXPECT_TRUE(ParseTraceParent("cc" + rest + "-what-the-future-brings"));
  EXPECT_TRUE(ParseTraceParent("01" + rest));
  EXPECT_FALSE(ParseTraceParent("cc" + rest + "x"));
  EXPECT_FALSE(ParseTraceParent("00" + rest + "-x"));
  EXPECT_FALSE(ParseTraceParent("ff" + rest));
}

TEST(TraceContextTest, RefusesWhatIsNotOfThatForm) {
  const std::string good = kExample;
  for (size_t place = 0; place < good.size(); ++place) {
    std::string bad = good;
    bad[place] = 'G';
    EXPECT_FALSE(ParseTraceParent(bad)) << bad;
    EXPECT_FALSE(ParseTraceParent(good.substr(0, place)));
  }
  EXPECT_FALSE(ParseTraceParent("00-" + std::string(32, '0') + "-b7ad6b7169203331-01"));
  EXPECT_FALSE(ParseTraceParent("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"));
}

TEST(TraceContextTest, NewIdsDifferAndChildrenStayInTheTrace) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const TraceContext begun = BeginTrace(false);
    EXPECT_TRUE(begun.valid());
    const TraceContext child = ChildOf(begun);
    EXPECT_EQ(child.trace_id, begun.trace_id);
    EXPECT_NE(child.span_id, begun.span_id);
    seen.insert(FormatTraceParent(begun));
    seen.insert(FormatTraceParent(child));
  }
  EXPECT_EQ(seen.size(), 2000u);
}

}  // namespace
}  // namespace pergola::service
