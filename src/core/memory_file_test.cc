#include "core/memory_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace pergola {
namespace {

std::string ReadAll(std::istream& stream) {
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::string ReadAll(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return ReadAll(stream);
}

TEST(MemoryFileTest, IsReadByPathAsOftenAsOneLikes) {
  const std::string contents = std::string("a\0b\n", 4) + std::string(1 << 20, 'x');
  const auto file = MemoryFile::Make("test", contents);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(ReadAll((*file)->path()), contents);
  EXPECT_EQ(ReadAll((*file)->path()), contents);
}

TEST(MemoryFileTest, ReplacedContentsAreThoseOfTheSamePath) {
  const auto file = MemoryFile::Make("test", "first, and longer");
  ASSERT_TRUE(file.ok());
  const std::string path = (*file)->path();
  std::ifstream before(path, std::ios::binary);
  ASSERT_TRUE((*file)->Replace("second").ok());
  EXPECT_EQ((*file)->path(), path);
  EXPECT_EQ(ReadAll(path), "second");
  EXPECT_EQ(ReadAll(before), "first, and longer");
  ASSERT_TRUE((*file)->Replace("").ok());
  EXPECT_EQ(ReadAll(path), "");
}

TEST(MemoryFileTest, IsGoneWithItsObject) {
  std::string path;
  {
    const auto file = MemoryFile::Make("test", "secret");
    ASSERT_TRUE(file.ok());
    path = (*file)->path();
  }
  EXPECT_NE(ReadAll(path), "secret");
}

}  // namespace
}  // namespace pergola
