// A part in this process, without frames: the projection and rows of several callers.
#include "grid/part_service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/testing/temp_folder.h"
#include "grid/frame.h"
#include "kernels/row_decoder.h"

namespace pergola::grid {
namespace {

const std::string kModel = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/gemma3-causal";

std::unique_ptr<PartService> LoadEmbed(int threads = 1) {
  PartOptions options;
  options.ops.num_threads = threads;
  auto part = PartService::Load(kModel, options);
  EXPECT_TRUE(part.ok()) << part.status().ToString();
  return std::move(part).value();
}

// What a caller asks, by a number; different from the others'.
std::vector<float> Residuals(const PartService& part, int64_t rows, int caller) {
  std::vector<float> values(static_cast<size_t>(rows * part.hidden_size()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 37 + static_cast<size_t>(caller) * 101) % 211) / 50 - 2;
  }
  return values;
}

std::vector<float> Logits(PartService& part, const std::vector<float>& residuals) {
  const auto rows = static_cast<int64_t>(residuals.size()) / part.hidden_size();
  std::vector<float> logits(static_cast<size_t>(rows * part.vocab_size()));
  const Status status = part.ComputeLogits({}, residuals, logits);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return logits;
}

TEST(PartServiceTest, LogitsDoNotDependOnWhoElseAsks) {
  const auto part = LoadEmbed();
  constexpr int kCallers = 6, kRounds = 20;
  std::vector<std::vector<float>> alone;
  for (int caller = 0; caller < kCallers; ++caller) {
    alone.push_back(Logits(*part, Residuals(*part, 1 + caller % 3, caller)));
  }
  std::vector<int> different(kCallers);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      const auto at = static_cast<size_t>(caller);
      const std::vector<float> residuals = Residuals(*part, 1 + caller % 3, caller);
      for (int round = 0; round < kRounds; ++round) {
        different[at] += Logits(*part, residuals) != alone[at];
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(different, std::vector<int>(kCallers));
}

// More rows than go through together, from one caller.
TEST(PartServiceTest, ManyRowsOfOneCallerAreTheSingleOnes) {
  const auto part = LoadEmbed();
  const std::vector<float> residuals = Residuals(*part, 50, 1);
  const std::vector<float> together = Logits(*part, residuals);
  const auto width = static_cast<size_t>(part->hidden_size());
  const auto vocab = static_cast<size_t>(part->vocab_size());
  for (size_t row : {size_t{0}, size_t{31}, size_t{32}, size_t{49}}) {
    const auto from = residuals.begin() + static_cast<std::ptrdiff_t>(row * width);
    const std::vector<float> one =
        Logits(*part, std::vector<float>(from, from + static_cast<std::ptrdiff_t>(width)));
    const auto begin = together.begin() + static_cast<std::ptrdiff_t>(row * vocab);
    EXPECT_TRUE(std::equal(one.begin(), one.end(), begin)) << "row " << row;
  }
}

// So many rows that the engine's threads share them, while others ask for logits and for rows, too.
TEST(PartServiceTest, ManyRowsAreThoseOfOneThreadWhoeverElseAsks) {
  const auto alone = LoadEmbed(), part = LoadEmbed(2);
  const auto width = static_cast<size_t>(part->hidden_size());
  const size_t count = 3 * kernels::kSharedRowsBytes / (width * sizeof(float)) / 2;
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(i * 7) % part->vocab_size();
  FrameHeader request{.kind = FrameKind::kEmbed,
                      .identity = ShortIdentityOf(part->model_identity())};
  request.rows = static_cast<uint32_t>(count);
  const auto ask = [&](PartService& service) {
    std::string answer;
    const Status status = service.Handle(request, std::as_bytes(std::span(ids)), &answer);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return answer;
  };
  // All but the header, which holds a time; its checksum of the rows is compared by itself.
  const auto rows_of = [](const std::string& answer) {
    const auto bytes = std::as_bytes(std::span(answer));
    const auto header = ParseFrameHeader(bytes.first(kFrameHeaderBytes));
    EXPECT_TRUE(header.ok() && CheckPayload(*header, bytes.subspan(kFrameHeaderBytes)).ok());
    return answer.substr(kFrameHeaderBytes);
  };
  const std::string expected = rows_of(ask(*alone));
  const std::vector<float> logits = Logits(*alone, Residuals(*alone, 2, 0));
  constexpr int kCallers = 3, kRounds = 10;
  std::vector<int> different(kCallers);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < kRounds; ++round) {
        different[static_cast<size_t>(caller)] +=
            caller == 0 ? Logits(*part, Residuals(*part, 2, 0)) != logits
                        : rows_of(ask(*part)) != expected;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(different, std::vector<int>(kCallers));
}

TEST(PartServiceTest, ATableThatIsNotFiniteIsAnError) {
  const TempFolder folder;
  for (const char* name : {"config.json", "tokenizer.json"}) {
    std::filesystem::copy_file(kModel + "/" + name, folder.path() / name);
  }
  std::string tensors = ReadFile(kModel + "/model.safetensors");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, tensors.data(), sizeof header_bytes);
  constexpr std::string_view kOffsets = "\"data_offsets\":[";
  const size_t table = tensors.find("embed_tokens.weight");
  const size_t offset = tensors.find(kOffsets, table) + kOffsets.size();
  ASSERT_LT(offset, header_bytes);
  const uint64_t begin = std::stoull(tensors.substr(offset, 20));
  tensors.replace(8 + header_bytes + begin, 4, "\xff\xff\xff\xff");  // NaN in row 0
  folder.Write("model.safetensors", tensors);
  PartOptions options;
  options.ops.num_threads = 2;
  const auto part = PartService::Load(folder.path().string(), options);
  ASSERT_TRUE(part.ok()) << part.status().ToString();
  std::vector<float> row(static_cast<size_t>((*part)->hidden_size()));
  std::vector<float> logits(static_cast<size_t>((*part)->vocab_size()));
  const int32_t damaged = 0, sound = 1;
  EXPECT_EQ((*part)->EmbedRows({}, std::span(&damaged, 1), row).code(), StatusCode::kInternal);
  EXPECT_TRUE((*part)->EmbedRows({}, std::span(&sound, 1), row).ok());
  EXPECT_EQ((*part)->ComputeLogits({}, row, logits).code(), StatusCode::kInternal);
  // Shared among threads.
  std::vector<int32_t> many(2 * kernels::kSharedRowsBytes / (row.size() * sizeof(float)), sound);
  std::vector<float> rows(many.size() * row.size());
  EXPECT_TRUE((*part)->EmbedRows({}, many, rows).ok());
  many[many.size() - 2] = damaged;
  const Status status = (*part)->EmbedRows({}, many, rows);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("token id 0 "), std::string::npos) << status.message();
}

TEST(PartServiceTest, AnFfnPartHasNoRowsAndNoLogits) {
  PartOptions options;
  options.role = Role::kFfn;
  options.ops.num_threads = 1;
  const auto part = PartService::Load(kModel, options);
  ASSERT_TRUE(part.ok()) << part.status().ToString();
  std::vector<float> row(static_cast<size_t>((*part)->hidden_size()));
  std::vector<float> logits(static_cast<size_t>((*part)->vocab_size()));
  const int32_t id = 1;
  EXPECT_EQ((*part)->EmbedRows({}, std::span(&id, 1), row).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ((*part)->ComputeLogits({}, row, logits).code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace pergola::grid
