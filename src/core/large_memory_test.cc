#include "core/large_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace pergola {
namespace {

TEST(LargeMemoryTest, HoldsWhatIsWrittenWhateverTheSize) {
  for (const size_t size : {size_t{1}, size_t{1000}, size_t{600000}, size_t{3000001}}) {
    TableVector<uint32_t> table(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(table.data()) % 64, 0u);
    std::iota(table.begin(), table.end(), 7u);
    TableVector<uint32_t> copy = table;
    copy.push_back(1);  // moves to a larger place
    EXPECT_EQ(copy[size - 1], static_cast<uint32_t>(size) + 6);
    EXPECT_EQ(copy[0], 7u);
  }
}

TEST(LargeMemoryTest, AlignsWhatIsLargeToHugePages) {
  const TableVector<char> table(size_t{4} << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(table.data()) % (size_t{2} << 20), 0u);
}

TEST(ChunkedMemoryTest, PiecesDoNotOverlapAndOutliveIt) {
  std::vector<std::pair<std::shared_ptr<std::byte>, size_t>> pieces;
  {
    ChunkedMemory memory;
    for (int i = 0; i < 200; ++i) {
      // From an empty piece to one that no chunk so far would hold.
      const size_t bytes = i == 150 ? size_t{40} << 20 : static_cast<size_t>(i) * 997;
      pieces.emplace_back(memory.Allocate(bytes), bytes);
      std::byte* piece = pieces.back().first.get();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
      std::fill_n(piece, bytes, static_cast<std::byte>(i));
    }
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto& [piece, bytes] = pieces[i];
    const auto own = [&](std::byte value) { return value == static_cast<std::byte>(i); };
    EXPECT_TRUE(std::all_of(piece.get(), piece.get() + bytes, own)) << i;
  }
}

TEST(ChunkedMemoryTest, ThreadsShareIt) {
  ChunkedMemory memory;
  const auto fill = [&](std::byte value) {
    std::vector<std::shared_ptr<std::byte>> pieces;
    for (int i = 0; i < 100; ++i) {
      pieces.push_back(memory.Allocate(5000));
      std::fill_n(pieces.back().get(), 5000, value);
    }
    for (const auto& piece : pieces)
      EXPECT_EQ(std::count(piece.get(), piece.get() + 5000, value), 5000);
  };
  std::thread other(fill, std::byte{1});
  fill(std::byte{2});
  other.join();
}

}  // namespace
}  // namespace pergola
