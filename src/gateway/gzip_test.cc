#include "gateway/gzip.h"

#include <gtest/gtest.h>

#include <random>

namespace pergola::gateway {
namespace {

std::string Noise(size_t size) {
  std::mt19937 random(7);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

TEST(GzipTest, UnpacksWhatItPacked) {
  for (const std::string& plain :
       {std::string(), std::string("a"), Noise(200'000), std::string(3'000'000, 'x')}) {
    const Result<std::string> back = Gunzip(Gzip(plain), plain.size());
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    EXPECT_EQ(*back, plain);
  }
}

TEST(GzipTest, StopsAtTheLimit) {
  const std::string packed = Gzip(std::string(50'000'000, 'x'));
  ASSERT_LT(packed.size(), 400'000u);
  EXPECT_EQ(Gunzip(packed, 1'000'000).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Gunzip(Gzip("abc"), 2).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Gunzip(Gzip("abc"), 3).ok());
}

TEST(GzipTest, UnpacksMembersEndToEnd) {
  const Result<std::string> back = Gunzip(Gzip("one ") + Gzip("two"), 100);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, "one two");
}

TEST(GzipTest, RefusesWhatIsNotGzip) {
  const std::string packed = Gzip(Noise(1000));
  for (const std::string& bad :
       {std::string("{\"a\":1}"), std::string(), packed.substr(0, packed.size() - 1),
        packed.substr(0, 5), packed + "trailing", packed + '\0'}) {
    EXPECT_EQ(Gunzip(bad, 1 << 20).status().code(), StatusCode::kInvalidArgument) << bad.size();
  }
  std::string flipped = packed;
  flipped[flipped.size() - 6] ^= 1;  // checksum
  EXPECT_EQ(Gunzip(flipped, 1 << 20).status().code(), StatusCode::kInvalidArgument);
}

TEST(GzipTest, WriterGivesOneStream) {
  GzipWriter writer;
  std::string packed;
  writer.Append("some ", false, &packed);
  writer.Append("", false, &packed);
  writer.Append("pieces", true, &packed);
  const Result<std::string> back = Gunzip(packed, 100);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, "some pieces");
}

TEST(GzipTest, ReadsAcceptEncoding) {
  for (const std::string_view yes :
       {"gzip", "GZIP", "gzip, deflate, br", "deflate;q=0.5, gzip;q=1.0", "*", "br, *;q=0.1",
        "x-gzip", "gzip; q=0.001", "identity;q=0,gzip"}) {
    EXPECT_TRUE(AcceptsGzip(yes)) << yes;
  }
  for (const std::string_view no : {"", "identity", "gzip;q=0", "gzip;q=0.000", "gzip ; q=0, *",
                                    "*;q=0", "deflate, br", "gzipped", ",;,"}) {
    EXPECT_FALSE(AcceptsGzip(no)) << no;
  }
}

}  // namespace
}  // namespace pergola::gateway
