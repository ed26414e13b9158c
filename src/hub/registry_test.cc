#include "hub/registry.h"

#include <gtest/gtest.h>

#include <set>

#include "hub/remote_path.h"

namespace pergola::hub {
namespace {

TEST(RegistryTest, FindsByNameAliasAndIdInAnyCase) {
  const RegistryModel* model = FindRegistryModel("all-MiniLM-L6-v2");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(FindRegistryModel("ALL-minilm"), model);
  EXPECT_EQ(FindRegistryModel("sentence-transformers/all-MiniLM-L6-v2"), model);
  EXPECT_NE(FindRegistryModel("embeddinggemma"), nullptr);
  EXPECT_NE(FindRegistryModel("google/gemma-3-270m:q4_k_m"), nullptr);
  EXPECT_EQ(FindRegistryModel("google/gemma-3-270m"), nullptr);
  EXPECT_EQ(FindRegistryModel("all-MiniLM-L12-v2"), nullptr);
}

TEST(RegistryTest, EntriesAreWellFormed) {
  std::set<std::string> names;
  for (const RegistryModel& model : RegistryModels()) {
    EXPECT_TRUE(names.insert(std::string(model.name)).second) << model.name;
    EXPECT_EQ(ParseModelReference(model.reference().ToString()).value(), model.reference());
    EXPECT_TRUE(model.on_hub || model.packages != nullptr) << model.name;
    bool has_entry = model.entry.empty();
    for (const RegistryFile& file : model.files) {
      EXPECT_TRUE(CheckRemotePath(file.path).ok()) << file.path;
      EXPECT_EQ(file.sha256.size(), 64u) << file.path;
      EXPECT_GT(file.bytes, 0) << file.path;
      has_entry |= file.path == model.entry;
    }
    EXPECT_TRUE(has_entry) << model.name;
    if (model.packages == nullptr) continue;
    EXPECT_FALSE(model.files.empty()) << model.name << ": packages need checksums";
    EXPECT_FALSE(model.packages->wheels.empty());
  }
}

}  // namespace
}  // namespace pergola::hub
