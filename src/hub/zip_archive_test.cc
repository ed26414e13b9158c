#include "hub/zip_archive.h"

#include <gtest/gtest.h>

#include "core/testing/temp_folder.h"
#include "hub/testing/zip_builder.h"

namespace pergola::hub {
namespace {

using testing::ZipBuilder;

std::string Pattern(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>("abcdefgh"[(i / 7 + i * i) % 8]);
  return text;
}

Result<std::string> ReadMember(const std::filesystem::path& path, const std::string& name) {
  PERGOLA_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(path));
  const ZipMember* member = archive.Find(name);
  if (member == nullptr) return NotFoundError("no member " + name);
  std::string content;
  PERGOLA_RETURN_IF_ERROR(archive.Read(*member, [&](std::string_view bytes) {
    content += bytes;
    return OkStatus();
  }));
  return content;
}

void PatchByte(const std::filesystem::path& path, size_t at, char value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(value);
}

class ZipArchiveTest : public ::testing::TestWithParam<bool> {};

TEST_P(ZipArchiveTest, ReadsStoredAndDeflatedMembers) {
  const TempFolder folder;
  const std::string big = Pattern(1'000'000);
  const auto path = folder.Write("a.zip", ZipBuilder(GetParam())
                                              .Add("empty", "")
                                              .Add("stored", big)
                                              .Add("dir/deflated", big, true)
                                              .Add("small", "x", true)
                                              .Finish());
  EXPECT_EQ(ReadMember(path, "empty").value(), "");
  EXPECT_EQ(ReadMember(path, "stored").value(), big);
  EXPECT_EQ(ReadMember(path, "dir/deflated").value(), big);
  EXPECT_EQ(ReadMember(path, "small").value(), "x");
  EXPECT_EQ(ReadMember(path, "none").status().code(), StatusCode::kNotFound);
}

TEST_P(ZipArchiveTest, EveryTruncationIsAnError) {
  const TempFolder folder;
  const std::string zip =
      ZipBuilder(GetParam()).Add("a", "hello").Add("b", Pattern(300), true).Finish();
  const auto path = folder.Write("cut.zip", zip);
  for (size_t bytes = zip.size(); bytes-- > 0;) {
    std::filesystem::resize_file(path, bytes);
    EXPECT_EQ(ReadMember(path, "b").status().code(), StatusCode::kDataLoss) << bytes;
  }
}

TEST_P(ZipArchiveTest, NoChangedByteGivesWrongContent) {
  const TempFolder folder;
  const std::string content = Pattern(300);
  const std::string zip = ZipBuilder(GetParam()).Add("a", "hello").Add("b", content, true).Finish();
  const auto path = folder.Write("bad.zip", zip);
  int refused = 0;
  for (size_t at = 0; at < zip.size(); ++at) {
    for (const char mask : {'\x01', '\x80', '\xff'}) {
      PatchByte(path, at, static_cast<char>(zip[at] ^ mask));
      const Result<std::string> read = ReadMember(path, "b");
      refused += read.ok() ? 0 : 1;
      EXPECT_EQ(read.ok() ? *read : content, content) << at;
    }
    PatchByte(path, at, zip[at]);
  }
  EXPECT_GT(refused, 100);
}

INSTANTIATE_TEST_SUITE_P(Formats, ZipArchiveTest, ::testing::Values(false, true),
                         [](const auto& zip64) { return zip64.param ? "Zip64" : "Zip32"; });

TEST(ZipArchiveErrorTest, ErrorOfTheSinkEndsTheReading) {
  const TempFolder folder;
  const auto path = folder.Write("a.zip", ZipBuilder().Add("a", Pattern(1'000'000)).Finish());
  const ZipArchive archive = ZipArchive::Open(path).value();
  int calls = 0;
  const Status status = archive.Read(archive.members()[0], [&](std::string_view) {
    ++calls;
    return ResourceExhaustedError("full");
  });
  EXPECT_EQ(status, ResourceExhaustedError("full"));
  EXPECT_EQ(calls, 1);
}

TEST(ZipArchiveErrorTest, EncryptedAndOddlyCompressedMembersAreRefused) {
  const TempFolder folder;
  std::string zip = ZipBuilder().Add("a", "hello").Finish();
  const size_t entry = zip.find("PK\1\2");
  std::string encrypted = zip;
  encrypted[entry + 8] |= 1;
  EXPECT_EQ(ReadMember(folder.Write("e.zip", encrypted), "a").status().code(),
            StatusCode::kDataLoss);
  zip[entry + 10] = 14;
  EXPECT_EQ(ReadMember(folder.Write("m.zip", zip), "a").status().code(),
            StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace pergola::hub
