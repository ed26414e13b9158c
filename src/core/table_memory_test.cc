#include "core/table_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>

namespace pergola {
namespace {

TEST(TableMemoryTest, HoldsWhatIsWrittenWhateverTheSize) {
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

TEST(TableMemoryTest, AlignsWhatIsLargeToHugePages) {
  const TableVector<char> table(size_t{4} << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(table.data()) % (size_t{2} << 20), 0u);
}

}  // namespace
}  // namespace pergola
