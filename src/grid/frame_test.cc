#include "grid/frame.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/checksum.h"

namespace pergola::grid {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<float> RandomRows(size_t count) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random) * 10;
  return values;
}

FrameHeader SampleHeader(PayloadType type) {
  FrameHeader header{.kind = FrameKind::kFfn, .type = type};
  header.identity = ShortIdentityOf("00112233445566778899aabbccddeeff0011");
  header.request_id = 0x123456789ABCDEF0;
  header.argument = 17;
  header.time = 250;
  return header;
}

TEST(FrameTest, RowsWrittenInPlaceMakeTheSameFrame) {
  const std::vector<float> rows = {1, -2, 3.5f, 4, 5, 6};
  const FrameHeader header = SampleHeader(PayloadType::kF32);
  std::string copied;
  ASSERT_TRUE(AppendRowsFrame(header, {rows.data(), 2, 3}, &copied).ok());
  const auto fill = [&](F32Matrix target, FrameHeader& own) {
    EXPECT_EQ(target.rows, 2);
    EXPECT_EQ(target.cols, 3);
    std::copy(rows.begin(), rows.end(), target.data);
    own.payload_crc = kernels::Crc32c(std::as_bytes(std::span(rows)));
    return OkStatus();
  };
  for (std::string in_place : {std::string(), std::string(7, 'x'), std::string(1000, 'x')}) {
    ASSERT_TRUE(FillFrame(header, 2, 3, fill, &in_place).ok());
    EXPECT_EQ(in_place, copied);
  }
  const auto refuse = [](F32Matrix, FrameHeader&) { return InternalError("no rows"); };
  EXPECT_EQ(FillFrame(header, 2, 3, refuse, &copied).message(), "no rows");
}

TEST(FrameTest, RowsComeBackAsTheTypeCarriesThem) {
  constexpr int64_t kRows = 3, kWidth = 70;
  const std::vector<float> values = RandomRows(kRows * kWidth);
  for (const auto& [type, relative] : {std::pair{PayloadType::kF32, 0.0f},
                                       {PayloadType::kBF16, 1.0f / 256},
                                       {PayloadType::kI8, 0.5f / 127}}) {
    std::string frame;
    ASSERT_TRUE(AppendRowsFrame(SampleHeader(type), {values.data(), kRows, kWidth}, &frame).ok());
    const auto header = ParseFrameHeader(BytesOf(frame).first(kFrameHeaderBytes));
    ASSERT_TRUE(header.ok()) << header.status().ToString();
    EXPECT_EQ(header->argument, 17u);
    EXPECT_EQ(header->request_id, 0x123456789ABCDEF0u);
    EXPECT_EQ(header->time, 250u);
    EXPECT_FALSE(header->answer);
    EXPECT_EQ(header->identity, ShortIdentityOf("00112233445566778899aabbccddeeff"));
    const auto payload = BytesOf(frame).subspan(kFrameHeaderBytes);
    EXPECT_EQ(payload.size(), RowsBytes(type, kRows, kWidth));
    ASSERT_TRUE(CheckPayload(*header, payload).ok());
    std::vector<float> back(values.size());
    ASSERT_TRUE(DecodeRows(*header, payload, {back.data(), kRows, kWidth}).ok());
    for (size_t i = 0; i < values.size(); ++i) {
      // i8 errs by half a step of the group's largest value, below 60 here.
      const float bound =
          type == PayloadType::kI8 ? 60 * relative : std::fabs(values[i]) * relative;
      EXPECT_LE(std::fabs(back[i] - values[i]), bound) << PayloadTypeName(type);
    }
  }
  EXPECT_EQ(RowsBytes(PayloadType::kBF16, 1, 640), 1280u);
  EXPECT_EQ(RowsBytes(PayloadType::kI8, 1, 640), 720u);
}

TEST(FrameTest, ATypeThatCannotCarryAValueIsAnError) {
  std::string frame = "before";
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_FALSE(AppendRowsFrame(SampleHeader(PayloadType::kF32), {&bad, 1, 1}, &frame).ok());
  }
  const float largest = std::numeric_limits<float>::max();  // rounds to infinity in bf16
  EXPECT_FALSE(AppendRowsFrame(SampleHeader(PayloadType::kBF16), {&largest, 1, 1}, &frame).ok());
  EXPECT_TRUE(AppendRowsFrame(SampleHeader(PayloadType::kF32), {&largest, 1, 1}, &frame).ok());
  EXPECT_EQ(frame.substr(0, 6), "before");
}

TEST(FrameTest, EveryFlippedBitIsNoticed) {
  const std::vector<float> values = RandomRows(8);
  std::string frame;
  ASSERT_TRUE(AppendRowsFrame(SampleHeader(PayloadType::kF32), {values.data(), 2, 4}, &frame).ok());
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string damaged = frame;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto header = ParseFrameHeader(BytesOf(damaged).first(kFrameHeaderBytes));
    if (!header.ok()) continue;
    EXPECT_EQ(CheckPayload(*header, BytesOf(damaged).subspan(kFrameHeaderBytes)).code(),
              StatusCode::kDataLoss)
        << "bit " << bit;
  }
}

TEST(FrameTest, LengthsThatContradictTheRowsAreErrors) {
  std::string frame;
  FrameHeader header = SampleHeader(PayloadType::kF32);
  header.rows = 0xFFFFFFFF;
  header.width = 0xFFFFFFFF;
  AppendBytesFrame(header, std::string(16, 'x'), &frame);
  EXPECT_EQ(ParseFrameHeader(BytesOf(frame).first(kFrameHeaderBytes)).status().code(),
            StatusCode::kInvalidArgument);
  header.rows = 2;
  header.width = 3;
  frame.clear();
  AppendBytesFrame(header, std::string(20, 'x'), &frame);
  EXPECT_FALSE(ParseFrameHeader(BytesOf(frame).first(kFrameHeaderBytes)).ok());
}

TEST(FrameTest, NonFiniteRowsAreRefusedOnArrival) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::string frame;
  FrameHeader header = SampleHeader(PayloadType::kF32);
  header.rows = header.width = 1;
  AppendBytesFrame(header, {reinterpret_cast<const char*>(&infinity), sizeof infinity}, &frame);
  const auto parsed = ParseFrameHeader(BytesOf(frame).first(kFrameHeaderBytes));
  ASSERT_TRUE(parsed.ok());
  float row = 0;
  EXPECT_EQ(DecodeRows(*parsed, BytesOf(frame).subspan(kFrameHeaderBytes), {&row, 1, 1}).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pergola::grid
