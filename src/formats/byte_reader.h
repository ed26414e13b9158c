// A cursor over untrusted little-endian bytes that never leaves them.
//
//   ByteReader reader(bytes);
//   uint32_t count;
//   if (!reader.Read(&count)) return Truncated(reader.position());
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace pergola::formats {

// Thread-compatible; the bytes must outlive it and the views it gives.
class ByteReader {
 public:
  static_assert(std::endian::native == std::endian::little, "values are copied as they lie");

  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  // False, and nothing read, when fewer bytes remain than the value has.
  template <typename T>
  [[nodiscard]] bool Read(T* value) {
    static_assert(std::is_arithmetic_v<T>);
    if (remaining() < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }

  // A view of the next `size` bytes; false, and nothing read, when fewer remain.
  [[nodiscard]] bool ReadText(uint64_t size, std::string_view* text) {
    if (remaining() < size) return false;
    *text = {reinterpret_cast<const char*>(bytes_.data() + position_), static_cast<size_t>(size)};
    position_ += size;
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;  // <= bytes_.size()
};

}  // namespace pergola::formats
