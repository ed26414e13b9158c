// Reads zip files: the members' names, and one member's bytes as a stream. Zip64; stored and
// deflated members; no encryption, no spanned volumes.
//
//   PERGOLA_ASSIGN_OR_RETURN(ZipArchive archive, ZipArchive::Open(path));
//   if (const ZipMember* member = archive.Find("folder/config.json")) {
//     PERGOLA_RETURN_IF_ERROR(archive.Read(*member, sink));
//   }
//
// Layout that is read (APPNOTE.TXT sections 4.3 and 4.4):
//   1. end of central directory: last 22 bytes plus a comment of at most 65,535 bytes, "PK\5\6";
//   for
//      zip64 preceded by a locator "PK\6\7" that points to a record "PK\6\6"
//   2. central directory: one entry "PK\1\2" per member with sizes, CRC-32, offset, and name
//   3. local header "PK\3\4" at each member's offset, then its data
// The archive is hostile: offsets and sizes are checked against the file before they are used, and
// a member never inflates beyond the size it states.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pergola/status.h"

namespace pergola::hub {

struct ZipMember {
  std::string name;  // as stated: check before it becomes a path
  int64_t bytes = 0;
  int64_t compressed_bytes = 0;
  int64_t header_offset = 0;
  uint32_t crc32 = 0;
  uint16_t method = 0;  // 0 stored, 8 deflate
  bool encrypted = false;
};

// Immutable after Open; Read is thread-safe.
class ZipArchive {
 public:
  using Sink = std::function<Status(std::string_view)>;

  // DATA_LOSS: not a zip file, or damaged.
  static Result<ZipArchive> Open(const std::filesystem::path& path);

  const std::vector<ZipMember>& members() const { return members_; }
  // The first member of that name, or null. Valid while the archive lives.
  const ZipMember* Find(std::string_view name) const;

  // Passes the member's bytes to `sink` in blocks of at most 256 KiB and checks length and CRC-32.
  // An error of the sink ends the reading and is returned.
  Status Read(const ZipMember& member, const Sink& sink) const;

 private:
  class File;
  struct Directory {
    int64_t offset = 0;
    int64_t bytes = 0;
    int64_t count = 0;
  };
  explicit ZipArchive(std::shared_ptr<const File> file) : file_(std::move(file)) {}
  Result<Directory> FindDirectory() const;
  Status ReadDirectory();
  Result<int64_t> DataOffset(const ZipMember& member) const;
  Status ReadStored(const ZipMember& member, int64_t offset, const Sink& sink) const;
  Status ReadDeflated(const ZipMember& member, int64_t offset, const Sink& sink) const;

  // Shared because a ZipArchive is copyable; the file is closed with the last copy.
  std::shared_ptr<const File> file_;
  std::vector<ZipMember> members_;
};

}  // namespace pergola::hub
