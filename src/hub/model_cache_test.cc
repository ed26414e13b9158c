#include "hub/model_cache.h"

#include <gtest/gtest.h>

#include "core/testing/temp_folder.h"
#include "hub/digest.h"

namespace pergola::hub {
namespace {

// Puts a verified file where a pull would and publishes the model.
CachedModel PublishModel(const TempFolder& folder, const ModelReference& reference,
                         const std::string& content) {
  const ModelCache cache(folder.path());
  const auto partial = std::filesystem::relative(cache.PartialFolder(reference), folder.path());
  folder.Write((partial / "files" / "a" / "x.bin").string(), content);
  const CachedModel model{
      reference, cache.Folder(reference),
      "a/x.bin", "hub",
      "main",    {{"a/x.bin", static_cast<int64_t>(content.size()), Sha256(content)}}};
  EXPECT_TRUE(cache.Publish(model).ok());
  return model;
}

TEST(ModelCacheTest, PublishedModelIsFoundWithItsFacts) {
  const TempFolder folder;
  const ModelCache cache(folder.path());
  const ModelReference reference{"org/name", "Q8_0"};
  EXPECT_FALSE(cache.Find(reference).has_value());
  const CachedModel written = PublishModel(folder, reference, "weights");
  const std::optional<CachedModel> found = cache.Find(reference);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->reference, reference);
  EXPECT_EQ(found->OpenPath(), folder.path() / "models/org/name@Q8_0/a/x.bin");
  EXPECT_EQ(found->source, "hub");
  EXPECT_EQ(found->total_bytes(), 7);
  EXPECT_EQ(found->files[0].sha256, written.files[0].sha256);
  EXPECT_FALSE(std::filesystem::exists(cache.PartialFolder(reference)));
  EXPECT_EQ(cache.List().size(), 1u);
}

TEST(ModelCacheTest, PublishingReplacesTheModel) {
  const TempFolder folder;
  const ModelReference reference{"org/name", ""};
  PublishModel(folder, reference, "old");
  PublishModel(folder, reference, "newer");
  const std::optional<CachedModel> found = ModelCache(folder.path()).Find(reference);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(ReadFile(found->OpenPath()), "newer");
}

TEST(ModelCacheTest, DamagedModelIsNotFound) {
  const TempFolder folder;
  const ModelCache cache(folder.path());
  const ModelReference reference{"org/name", ""};
  PublishModel(folder, reference, "weights");
  folder.Write("models/org/name/a/x.bin", "short");
  EXPECT_FALSE(cache.Find(reference).has_value());
  EXPECT_TRUE(cache.List().empty());
  folder.Write("models/org/name/pergola_manifest.json", "{");
  EXPECT_FALSE(cache.Find(reference).has_value());
}

TEST(ModelCacheTest, ManifestCannotPointOutOfItsFolder) {
  const TempFolder folder;
  folder.Write("models/org/name/x", "1");
  folder.Write("models/org/secret", "1");
  folder.Write("models/org/name/pergola_manifest.json",
               R"({"model":"org/name","entry":"../secret","files":{"x":{"bytes":1}}})");
  EXPECT_FALSE(ModelCache(folder.path()).Find({"org/name", ""}).has_value());
}

TEST(ModelCacheTest, RemoveDeletesOnceAndThenSaysNotFound) {
  const TempFolder folder;
  const ModelCache cache(folder.path());
  const ModelReference reference{"org/name", ""};
  PublishModel(folder, reference, "weights");
  EXPECT_TRUE(cache.Remove(reference).ok());
  EXPECT_FALSE(std::filesystem::exists(cache.Folder(reference)));
  EXPECT_EQ(cache.Remove(reference).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace pergola::hub
