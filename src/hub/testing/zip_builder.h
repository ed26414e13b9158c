// Builds zip files in memory for tests: stored and deflated members, zip64 fields on demand.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pergola::hub::testing {

class ZipBuilder {
 public:
  // All sizes and offsets go to zip64 fields when `zip64`.
  explicit ZipBuilder(bool zip64 = false) : zip64_(zip64) {}

  ZipBuilder& Add(const std::string& name, const std::string& content, bool deflate = false) {
    const std::string data = deflate ? Deflated(content) : content;
    const uint32_t crc =
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    const uint16_t method = deflate ? 8 : 0;
    const uint64_t offset = bytes_.size();
    bytes_ += "PK\3\4" + U16(45) + U16(0) + U16(method) + U32(0) + U32(crc) +
              U32(static_cast<uint32_t>(data.size())) + U32(static_cast<uint32_t>(content.size())) +
              U16(static_cast<uint16_t>(name.size())) + U16(0) + name + data;
    const std::string extra =
        zip64_ ? U16(1) + U16(24) + U64(content.size()) + U64(data.size()) + U64(offset) : "";
    directory_ += "PK\1\2" + U16(45) + U16(45) + U16(0) + U16(method) + U32(0) + U32(crc) +
                  Field(data.size()) + Field(content.size()) +
                  U16(static_cast<uint16_t>(name.size())) +
                  U16(static_cast<uint16_t>(extra.size())) + U16(0) + U16(0) + U16(0) + U32(0) +
                  Field(offset) + name + extra;
    ++count_;
    return *this;
  }

  std::string Finish() const {
    std::string zip = bytes_ + directory_;
    if (zip64_) {
      zip += "PK\6\6" + U64(44) + U16(45) + U16(45) + U32(0) + U32(0) + U64(count_) + U64(count_) +
             U64(directory_.size()) + U64(bytes_.size());
      zip += "PK\6\7" + U32(0) + U64(bytes_.size() + directory_.size()) + U32(1);
    }
    const uint16_t count = zip64_ ? 0xffff : static_cast<uint16_t>(count_);
    return zip + "PK\5\6" + U16(0) + U16(0) + U16(count) + U16(count) + Field(directory_.size()) +
           Field(bytes_.size()) + U16(0);
  }

 private:
  static std::string Little(uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  }
  static std::string U16(uint16_t value) { return Little(value, 2); }
  static std::string U32(uint32_t value) { return Little(value, 4); }
  static std::string U64(uint64_t value) { return Little(value, 8); }
  std::string Field(uint64_t value) const {
    return U32(zip64_ ? 0xffffffff : static_cast<uint32_t>(value));
  }

  static std::string Deflated(const std::string& content) {
    z_stream stream{};
    deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    std::string data(deflateBound(&stream, static_cast<uLong>(content.size())), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
    stream.avail_in = static_cast<uInt>(content.size());
    stream.next_out = reinterpret_cast<Bytef*>(data.data());
    stream.avail_out = static_cast<uInt>(data.size());
    deflate(&stream, Z_FINISH);
    data.resize(stream.total_out);
    deflateEnd(&stream);
    return data;
  }

  bool zip64_;
  std::string bytes_;
  std::string directory_;
  uint64_t count_ = 0;
};

}  // namespace pergola::hub::testing
