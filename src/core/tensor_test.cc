#include "core/tensor.h"

#include <gtest/gtest.h>

namespace pergola {
namespace {

TEST(DTypeTest, RowBytesCountWholeBlocks) {
  EXPECT_EQ(RowBytes(DType::kF32, 3), 12);
  EXPECT_EQ(RowBytes(DType::kQ4_0, 64), 36);
  EXPECT_EQ(RowBytes(DType::kQ6_K, 512), 420);
}

TEST(ShapeTest, RowsAndColumnsSplitAtTheLastDimension) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.cols(), 4);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ(shape.ToString(), "[2, 3, 4]");
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape({0, 0}).rows(), 0);
}

TEST(MatrixTest, ColumnsAndRowsShareTheStride) {
  float values[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const F32Matrix matrix(values, 3, 4);
  const F32Matrix part = matrix.columns(1, 2).slice(1, 2);
  EXPECT_EQ(part.rows, 2);
  EXPECT_EQ(part.row(0)[0], 5);
  EXPECT_EQ(part.row(1)[1], 10);
}

}  // namespace
}  // namespace pergola
