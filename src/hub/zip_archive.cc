#include "hub/zip_archive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pergola::hub {
namespace {

constexpr int64_t kBlockBytes = 256 << 10;
constexpr int64_t kEndBytes = 22;
constexpr int64_t kLocatorBytes = 20;
constexpr int64_t kEntryBytes = 46;
constexpr int64_t kLocalBytes = 30;
constexpr int64_t kMaxDirectoryBytes = 64 << 20;

uint16_t U16(const char* bytes) {
  const auto* b = reinterpret_cast<const unsigned char*>(bytes);
  return static_cast<uint16_t>(b[0] | b[1] << 8);
}
uint32_t U32(const char* bytes) {
  return static_cast<uint32_t>(U16(bytes)) | static_cast<uint32_t>(U16(bytes + 2)) << 16;
}
uint64_t U64(const char* bytes) {
  return static_cast<uint64_t>(U32(bytes)) | static_cast<uint64_t>(U32(bytes + 4)) << 32;
}

// -1 for what does not fit, so that every later bounds check fails.
int64_t Signed(uint64_t value) { return value > INT64_MAX ? -1 : static_cast<int64_t>(value); }

// The zip64 extra field (id 1) holds, in this order, those of size, compressed size and offset
// whose 32-bit field is all ones. False when one of them is missing.
bool ApplyZip64(std::string_view extra, ZipMember* member) {
  while (extra.size() >= 4) {
    const uint16_t id = U16(extra.data());
    const uint16_t size = U16(extra.data() + 2);
    extra.remove_prefix(4);
    if (size > extra.size()) break;
    std::string_view body = extra.substr(0, size);
    extra.remove_prefix(size);
    if (id != 1) continue;
    for (int64_t* field : {&member->bytes, &member->compressed_bytes, &member->header_offset}) {
      if (*field != 0xffffffff) continue;
      if (body.size() < 8) return false;
      *field = Signed(U64(body.data()));
      body.remove_prefix(8);
    }
  }
  return true;
}

}  // namespace

class ZipArchive::File {
 public:
  File(int descriptor, int64_t bytes, std::string name)
      : descriptor_(descriptor), bytes_(bytes), name_(std::move(name)) {}
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int64_t bytes() const { return bytes_; }
  Status Damaged(const std::string& what) const {
    return DataLossError("'" + name_ + "' is not a readable zip file: " + what);
  }

  Status ReadAt(int64_t offset, char* into, int64_t count) const {
    if (offset < 0 || count < 0 || offset > bytes_ || count > bytes_ - offset) {
      return Damaged("offset " + std::to_string(offset) + " + " + std::to_string(count) +
                     " is beyond its " + std::to_string(bytes_) + " bytes");
    }
    while (count > 0) {
      const ssize_t got = pread(descriptor_, into, static_cast<size_t>(count), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return Damaged(got < 0 ? std::strerror(errno) : "it became shorter");
      into += got;
      offset += got;
      count -= got;
    }
    return OkStatus();
  }

 private:
  int descriptor_;
  int64_t bytes_;
  std::string name_;
};

Result<ZipArchive> ZipArchive::Open(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return NotFoundError("cannot open '" + path.string() + "': " + std::strerror(errno));
  }
  struct stat info {};
  fstat(descriptor, &info);
  ZipArchive archive(std::make_shared<const File>(descriptor, info.st_size, path.string()));
  PERGOLA_RETURN_IF_ERROR(archive.ReadDirectory());
  return archive;
}

// 1. Where the central directory is.
Result<ZipArchive::Directory> ZipArchive::FindDirectory() const {
  // The end record is the last "PK\5\6" whose comment reaches exactly to the end of the file.
  const int64_t tail_bytes = std::min<int64_t>(file_->bytes(), kEndBytes + 65535);
  const int64_t tail_offset = file_->bytes() - tail_bytes;
  std::string tail(static_cast<size_t>(tail_bytes), '\0');
  PERGOLA_RETURN_IF_ERROR(file_->ReadAt(tail_offset, tail.data(), tail_bytes));
  int64_t end = tail_bytes - kEndBytes;
  for (; end >= 0; --end) {
    const char* at = tail.data() + end;
    if (std::memcmp(at, "PK\5\6", 4) == 0 && end + kEndBytes + U16(at + 20) == tail_bytes) break;
  }
  if (end < 0) return file_->Damaged("no end of central directory");
  const char* record = tail.data() + end;
  Directory directory{U32(record + 16), U32(record + 12), U16(record + 10)};
  if (end >= kLocatorBytes && std::memcmp(record - kLocatorBytes, "PK\6\7", 4) == 0) {
    char zip64[56];
    PERGOLA_RETURN_IF_ERROR(
        file_->ReadAt(Signed(U64(record - kLocatorBytes + 8)), zip64, sizeof zip64));
    if (std::memcmp(zip64, "PK\6\6", 4) != 0) return file_->Damaged("bad zip64 record");
    directory = {Signed(U64(zip64 + 48)), Signed(U64(zip64 + 40)), Signed(U64(zip64 + 32))};
  }
  return directory;
}

// 2. One entry per member.
Status ZipArchive::ReadDirectory() {
  PERGOLA_ASSIGN_OR_RETURN(const Directory directory, FindDirectory());
  if (directory.bytes > kMaxDirectoryBytes) return file_->Damaged("its directory exceeds 64 MiB");
  std::string entries(static_cast<size_t>(std::max<int64_t>(directory.bytes, 0)), '\0');
  PERGOLA_RETURN_IF_ERROR(file_->ReadAt(directory.offset, entries.data(), directory.bytes));
  std::string_view rest = entries;
  for (int64_t index = 0; index < directory.count; ++index) {
    const std::string where = "directory entry " + std::to_string(index);
    if (rest.size() < kEntryBytes || std::memcmp(rest.data(), "PK\1\2", 4) != 0) {
      return file_->Damaged(where + " is cut off or has a wrong signature");
    }
    const char* entry = rest.data();
    const size_t name_bytes = U16(entry + 28);
    const size_t extra_bytes = U16(entry + 30);
    const size_t whole = kEntryBytes + name_bytes + extra_bytes + U16(entry + 32);
    if (rest.size() < whole) return file_->Damaged(where + " is cut off");
    ZipMember member;
    member.name = rest.substr(kEntryBytes, name_bytes);
    member.encrypted = (U16(entry + 8) & 1) != 0;
    member.method = U16(entry + 10);
    member.crc32 = U32(entry + 16);
    member.compressed_bytes = U32(entry + 20);
    member.bytes = U32(entry + 24);
    member.header_offset = U32(entry + 42);
    if (!ApplyZip64(rest.substr(kEntryBytes + name_bytes, extra_bytes), &member) ||
        member.bytes < 0 || member.compressed_bytes < 0 || member.header_offset < 0) {
      return file_->Damaged(where + " has a bad zip64 field");
    }
    members_.push_back(std::move(member));
    rest.remove_prefix(whole);
  }
  return OkStatus();
}

const ZipMember* ZipArchive::Find(std::string_view name) const {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const ZipMember& member) { return member.name == name; });
  return found == members_.end() ? nullptr : &*found;
}

Result<int64_t> ZipArchive::DataOffset(const ZipMember& member) const {
  char header[kLocalBytes];
  PERGOLA_RETURN_IF_ERROR(file_->ReadAt(member.header_offset, header, kLocalBytes));
  if (std::memcmp(header, "PK\3\4", 4) != 0) return file_->Damaged("bad local header");
  const int64_t offset = member.header_offset + kLocalBytes + U16(header + 26) + U16(header + 28);
  if (offset > file_->bytes() || member.compressed_bytes > file_->bytes() - offset) {
    return file_->Damaged("member '" + member.name + "' reaches beyond its end");
  }
  return offset;
}

Status ZipArchive::Read(const ZipMember& member, const Sink& sink) const {
  if (member.encrypted) return file_->Damaged("member '" + member.name + "' is encrypted");
  PERGOLA_ASSIGN_OR_RETURN(const int64_t offset, DataOffset(member));
  if (member.method == 0) return ReadStored(member, offset, sink);
  if (member.method == Z_DEFLATED) return ReadDeflated(member, offset, sink);
  return UnimplementedError("zip member '" + member.name + "' has compression method " +
                            std::to_string(member.method) + ", only 0 and 8 are supported");
}

Status ZipArchive::ReadStored(const ZipMember& member, int64_t offset, const Sink& sink) const {
  if (member.compressed_bytes != member.bytes) {
    return file_->Damaged("stored member '" + member.name + "' states two sizes");
  }
  std::vector<char> block(static_cast<size_t>(std::min(kBlockBytes, member.bytes)));
  uLong crc = crc32(0, nullptr, 0);
  for (int64_t done = 0; done < member.bytes;) {
    const int64_t count = std::min(kBlockBytes, member.bytes - done);
    PERGOLA_RETURN_IF_ERROR(file_->ReadAt(offset + done, block.data(), count));
    crc = crc32(crc, reinterpret_cast<const Bytef*>(block.data()), static_cast<uInt>(count));
    PERGOLA_RETURN_IF_ERROR(sink({block.data(), static_cast<size_t>(count)}));
    done += count;
  }
  if (crc != member.crc32) return file_->Damaged("member '" + member.name + "' has a wrong CRC-32");
  return OkStatus();
}

namespace {

// A raw inflate stream that frees itself.
class Inflater {
 public:
  Inflater() { ok_ = inflateInit2(&stream, -MAX_WBITS) == Z_OK; }
  ~Inflater() {
    if (ok_) inflateEnd(&stream);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  bool ok() const { return ok_; }
  z_stream stream{};

 private:
  bool ok_ = false;
};

}  // namespace

Status ZipArchive::ReadDeflated(const ZipMember& member, int64_t offset, const Sink& sink) const {
  Inflater inflater;
  if (!inflater.ok()) return ResourceExhaustedError("no memory to inflate a zip member");
  std::vector<char> input(kBlockBytes);
  std::vector<char> output(kBlockBytes);
  uLong crc = crc32(0, nullptr, 0);
  int64_t read = 0;
  int64_t produced = 0;
  z_stream& stream = inflater.stream;
  for (int code = Z_OK; code != Z_STREAM_END;) {
    if (stream.avail_in == 0 && read < member.compressed_bytes) {
      const int64_t count = std::min(kBlockBytes, member.compressed_bytes - read);
      PERGOLA_RETURN_IF_ERROR(file_->ReadAt(offset + read, input.data(), count));
      stream.next_in = reinterpret_cast<Bytef*>(input.data());
      stream.avail_in = static_cast<uInt>(count);
      read += count;
    }
    stream.next_out = reinterpret_cast<Bytef*>(output.data());
    stream.avail_out = static_cast<uInt>(output.size());
    code = inflate(&stream, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END) {
      return file_->Damaged("member '" + member.name + "' does not inflate");
    }
    const size_t count = output.size() - stream.avail_out;
    produced += static_cast<int64_t>(count);
    if (produced > member.bytes) break;
    crc = crc32(crc, reinterpret_cast<const Bytef*>(output.data()), static_cast<uInt>(count));
    if (count > 0) PERGOLA_RETURN_IF_ERROR(sink({output.data(), count}));
  }
  if (produced != member.bytes || crc != member.crc32) {
    return file_->Damaged("member '" + member.name + "' has a wrong length or CRC-32");
  }
  return OkStatus();
}

}  // namespace pergola::hub
