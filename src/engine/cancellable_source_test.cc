#include "engine/cancellable_source.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "engine/model.h"

namespace pergola::engine {
namespace {

// Says so from the nth question on.
struct CancelledAt {
  int question;
  int asked = 0;
  bool operator()() { return ++asked >= question; }
};

TEST(CancellableSourceTest, LoadingEndsAtEveryTensorThatItIsAskedAt) {
  const std::string tiny = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/";
  for (const char* name : {"bert", "qwen2-lora", "bge-m3"}) {
    CancelledAt never{.question = 1 << 30};
    ASSERT_TRUE(Model::Load(tiny + name, {.ops = {}, .cancelled = std::ref(never)}).ok()) << name;
    EXPECT_GT(never.asked, 10) << name;
    for (int question = 1; question <= never.asked; ++question) {
      CancelledAt soon{.question = question};
      const auto model = Model::Load(tiny + name, {.ops = {}, .cancelled = std::ref(soon)});
      EXPECT_EQ(model.status().code(), StatusCode::kCancelled)
          << name << " at " << question << ": " << model.status().ToString();
      EXPECT_EQ(soon.asked, question) << name << ": what follows is not read";
    }
  }
}

TEST(CancellableSourceTest, AChecksumEndsLikewise) {
  const auto model = Model::Load(std::string(PERGOLA_TEST_DATA) + "/golden/tiny/bert", {});
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const auto whole = (*model)->ContentChecksum();
  ASSERT_TRUE(whole.ok());
  CancelledAt never{.question = 1 << 30};
  EXPECT_EQ(*(*model)->ContentChecksum(std::ref(never)), *whole);
  CancelledAt soon{.question = never.asked};
  EXPECT_EQ((*model)->ContentChecksum(std::ref(soon)).status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace pergola::engine
