#include "cli/model_location.h"

#include <gtest/gtest.h>

#include "core/testing/temp_folder.h"

namespace pergola::cli {
namespace {

class ModelLocationTest : public ::testing::Test {
 protected:
  ModelLocationTest() {
    config_.home = folder_.path() / "home";
    config_.offline = true;
  }
  Result<ModelLocation> Resolve(const std::string& model) {
    return ResolveModel(model, config_, observer_);
  }
  std::string At(const std::string& name) const { return (folder_.path() / name).string(); }

  TempFolder folder_;
  hub::HubConfig config_;
  hub::PullObserver observer_;
};

TEST_F(ModelLocationTest, FolderAndGgufFileAreTakenAsTheyAre) {
  folder_.Write("my-model/config.json", "{}");
  folder_.Write("x.Q8_0.gguf", "GGUF");
  const ModelLocation folder = Resolve(At("my-model")).value();
  EXPECT_EQ(folder.path, At("my-model"));
  EXPECT_EQ(folder.id, "my-model");
  EXPECT_EQ(Resolve(At("my-model/")).value().id, "my-model");
  const ModelLocation file = Resolve(At("x.Q8_0.gguf")).value();
  EXPECT_EQ(file.path, At("x.Q8_0.gguf"));
  EXPECT_EQ(file.id, "x.Q8_0");
}

TEST_F(ModelLocationTest, CachedModelNeedsNoNetwork) {
  folder_.Write("home/models/sentence-transformers/all-MiniLM-L6-v2/x", "1");
  folder_.Write("home/models/sentence-transformers/all-MiniLM-L6-v2/pergola_manifest.json",
                R"({"model":"sentence-transformers/all-MiniLM-L6-v2","files":{"x":{"bytes":1}}})");
  for (const char* name :
       {"all-minilm", "all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"}) {
    const Result<ModelLocation> found = Resolve(name);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(found->id, "all-MiniLM-L6-v2");
    EXPECT_EQ(found->path, At("home/models/sentence-transformers/all-MiniLM-L6-v2"));
  }
}

TEST_F(ModelLocationTest, MissingModelOfflineSaysHowToPull) {
  for (const char* name : {"all-MiniLM-L6-v2", "org/name", "org/name:Q8_0"}) {
    const Status status = Resolve(name).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << name;
    EXPECT_NE(status.message().find("pergola pull"), std::string::npos);
  }
}

TEST_F(ModelLocationTest, WhatIsNoModelIsNotFound) {
  folder_.Write("empty/README.md", "");
  EXPECT_NE(Resolve(At("empty")).status().message().find("holds no model"), std::string::npos);
  EXPECT_NE(Resolve("./none.gguf").status().message().find("no model file"), std::string::npos);
  const Status unknown = Resolve("all-minilm-typo").status();
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_NE(unknown.message().find("all-MiniLM-L6-v2"), std::string::npos);
}

}  // namespace
}  // namespace pergola::cli
