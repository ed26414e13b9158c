#include "models/workspace.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace pergola::models {
namespace {

TEST(WorkspaceTest, KeepsTheLargestBufferAndItsPlace) {
  Workspace workspace;
  const F32Matrix large = workspace.Get(Workspace::kQkv, 100, 7);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data) % 64, 0u);
  const F32Matrix small = workspace.Get(Workspace::kQkv, 3, 7);
  EXPECT_EQ(small.data, large.data);
  EXPECT_EQ(small.rows, 3);
  EXPECT_EQ(workspace.bytes(), 2800u);
  EXPECT_NE(workspace.Get(Workspace::kHidden, 1, 1).data, large.data);
}

}  // namespace
}  // namespace pergola::models
