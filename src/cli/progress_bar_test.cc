#include "cli/progress_bar.h"

#include <gtest/gtest.h>

namespace pergola::cli {
namespace {

TEST(ProgressBarTest, ShowsBarAmountsRateAndEta) {
  ProgressView view{"model",    ProgressUnit::kBytes,   51'100'000, 91'300'000, 0.56,
                    12'400'000, std::chrono::seconds(3)};
  EXPECT_EQ(RenderProgress(view, 200),
            "model  [#####.....]  56 %  51.1 MB of 91.3 MB  12.4 MB/s  ETA 0:03");
  view.eta = std::chrono::seconds(3725);
  EXPECT_TRUE(RenderProgress(view, 200).ends_with("ETA 1:02:05"));
}

TEST(ProgressBarTest, UnknownTotalHasNoBarAndNoEta) {
  const ProgressView view{"embed", ProgressUnit::kTexts,    1234, 0, -1,
                          512.4,   std::chrono::seconds(-1)};
  EXPECT_EQ(RenderProgress(view, 200), "embed  1234 texts  512 texts/s");
}

TEST(ProgressBarTest, NeverExceedsTheTerminal) {
  const ProgressView view{"a-long-name",          ProgressUnit::kBytes, 1, 2, 1.5, 1,
                          std::chrono::seconds(1)};
  EXPECT_EQ(RenderProgress(view, 20).size(), 20u);
}

TEST(ProgressBarTest, IsSilentInAPipe) {
  FILE* file = std::tmpfile();
  {
    ProgressBar bar(file, "x", ProgressUnit::kTexts);
    bar.Update(1, 2);
    bar.Finish();
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace pergola::cli
