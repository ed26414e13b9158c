#include "kernels/checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/cpu/kernel_table.h"
#include "kernels/select.h"
#include "kernels/testing/random_tensors.h"

namespace pergola::kernels {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// One bit at a time, as the definition has it.
uint32_t Definition(std::span<const std::byte> bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

// Of RFC 3720, B.4, and the usual one.
TEST(ChecksumTest, KnownValues) {
  EXPECT_EQ(Crc32c(BytesOf(std::string(32, '\0'))), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(BytesOf(std::string(32, '\xff'))), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(BytesOf("123456789")), 0xE3069283u);
  EXPECT_EQ(Crc32c({}), 0u);
}

TEST(ChecksumTest, GoesOnFromWhatIsBefore) {
  const std::string text(1000, 'x');
  for (const size_t before : {0u, 1u, 300u, 1000u}) {
    EXPECT_EQ(Crc32c(BytesOf(text.substr(before)), Crc32c(BytesOf(text.substr(0, before)))),
              Crc32c(BytesOf(text)));
  }
}

TEST(ChecksumTest, JoinedIsThatOfBothStretches) {
  testing::Random random(3);
  std::vector<std::byte> bytes(100000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Bits());
  const std::span<const std::byte> all(bytes);
  for (const size_t first : {0u, 1u, 7u, 4096u, 50000u}) {
    for (const size_t second : {0u, 1u, 2u, 3u, 8u, 255u, 4095u, 4096u, 10240u, 49999u}) {
      const uint32_t whole = Crc32c(all.first(first + second));
      const uint32_t of_second = Crc32c(all.subspan(first, second));
      EXPECT_EQ(JoinCrc32c(Crc32c(all.first(first)), of_second, second), whole)
          << first << " and " << second << " bytes";
    }
  }
}

// Stretches too long to sum: whichever two of three are joined first, for each power of two.
TEST(ChecksumTest, JoinsStretchesOfAnyLength) {
  const uint32_t first = 0x12345678u, second = 0x9ABCDEF0u, third = 0x0F1E2D3Cu;
  for (int bit = 0; bit < 63; ++bit) {
    const uint64_t bytes = uint64_t{1} << bit;
    EXPECT_EQ(JoinCrc32c(JoinCrc32c(first, second, bytes), third, bytes),
              JoinCrc32c(first, JoinCrc32c(second, third, bytes), 2 * bytes))
        << bytes;
  }
}

// Every set's instruction and products, and the tables' way on machines without.
TEST(ChecksumTest, EveryLengthAndPlaceAsDefined) {
  testing::Random random(9);
  std::vector<std::byte> bytes(20000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Bits());
  for (const size_t count :
       {1u, 7u, 8u, 9u, 63u, 511u, 512u, 777u, 3071u, 3072u, 3073u, 6151u, 19000u}) {
    for (const size_t begin : {0u, 1u, 5u}) {
      const auto part = std::span<const std::byte>(bytes).subspan(begin, count);
      const uint32_t expected = Definition(part);
      EXPECT_EQ(Crc32c(part), expected) << count << " bytes from " << begin;
      for (const KernelSet& set : ListKernelSets()) {
        if (!set.usable || set.table == nullptr || set.table->crc32c == nullptr) continue;
        EXPECT_EQ(~set.table->crc32c(0xFFFFFFFFu, part.data(), static_cast<int64_t>(count)),
                  expected)
            << set.name << ", " << count << " bytes from " << begin;
        if (!HasFoldedChecksum(*set.table)) continue;
        EXPECT_EQ(~set.table->folded_crc32c(0xFFFFFFFFu, part.data(), static_cast<int64_t>(count)),
                  expected)
            << set.name << ", " << count << " bytes from " << begin;
      }
    }
  }
}

}  // namespace
}  // namespace pergola::kernels
