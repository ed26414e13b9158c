#include "hub/model_reference.h"

#include <gtest/gtest.h>

namespace pergola::hub {
namespace {

TEST(ModelReferenceTest, ReadsIdAndVariant) {
  const ModelReference plain = ParseModelReference("intfloat/e5-small-v2").value();
  EXPECT_EQ(plain, (ModelReference{"intfloat/e5-small-v2", ""}));
  EXPECT_EQ(plain.CachePath(), "intfloat/e5-small-v2");
  const ModelReference variant = ParseModelReference("ggml-org/x-GGUF:Q8_0").value();
  EXPECT_EQ(variant, (ModelReference{"ggml-org/x-GGUF", "Q8_0"}));
  EXPECT_EQ(variant.CachePath(), "ggml-org/x-GGUF@Q8_0");
  EXPECT_EQ(variant.ToString(), "ggml-org/x-GGUF:Q8_0");
}

TEST(ModelReferenceTest, RefusesWhatIsNoId) {
  for (const char* text :
       {"", "name", "/name", "org/", "a/b/c", "../x", "org/..", "org/.x", "o/a..b", "org/na me",
        "org/name:", "org/name:a/b", "org/name:a:b", "org/n@v"}) {
    EXPECT_FALSE(ParseModelReference(text).ok()) << text;
  }
}

}  // namespace
}  // namespace pergola::hub
