#include "scheduler/result_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/temp_folder.h"

namespace pergola::scheduler {
namespace {

constexpr int32_t kWidth = 16;

SequenceKey KeyOf(int32_t number) {
  return {{OutputKind::kEmbedding}, Sequence{.ids = {101, number, 102}}};
}

StoredOutput OutputOf(int32_t number) {
  auto output = std::make_shared<service::SequenceOutput>();
  (*output)[OutputKind::kEmbedding] = {1, kWidth,
                                       std::vector<float>(kWidth, static_cast<float>(number))};
  return output;
}

class ResultFileTest : public testing::Test {
 protected:
  ResultFileOptions Options() {
    ResultFileOptions options;
    options.path = path_;
    options.identity = "model A, avx2";
    options.tell = [this](const std::string& line) { told_ += line + "\n"; };
    return options;
  }
  // What it holds goes to loaded_; every row must be the one that was appended.
  std::unique_ptr<ResultFile> Open(ResultFileOptions options) {
    loaded_.clear();
    auto file = ResultFile::Open(std::move(options), [this](SequenceKey key, StoredOutput output) {
      const int32_t number = key.sequence.ids.at(1);
      EXPECT_EQ(key, KeyOf(number));
      EXPECT_EQ((*output)[OutputKind::kEmbedding].values,
                (*OutputOf(number))[OutputKind::kEmbedding].values);
      loaded_.push_back(number);
    });
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return file.ok() ? std::move(*file) : nullptr;
  }
  static void Append(ResultFile& file, int32_t first, int32_t end) {
    for (int32_t number = first; number < end; ++number) {
      file.Append(KeyOf(number), OutputOf(number));
    }
    file.Flush();
  }
  static double Metric(const ResultFile& file, const std::string& name) {
    for (const service::MetricSample& sample : file.Metrics()) {
      if (sample.name == name) return sample.value;
    }
    ADD_FAILURE() << name;
    return -1;
  }

  const TempFolder folder_;
  const std::string path_ = (folder_.path() / "results").string();
  std::vector<int32_t> loaded_;
  std::string told_;
};

TEST_F(ResultFileTest, RowsOutliveTheProcessOnce) {
  {
    const auto file = Open(Options());
    EXPECT_TRUE(loaded_.empty());
    Append(*file, 0, 3);
    Append(*file, 0, 2);  // recomputed: there already
    EXPECT_EQ(Metric(*file, "pergola_cache_file_written_total"), 3);
    EXPECT_EQ(Metric(*file, "pergola_cache_file_bytes"),
              static_cast<double>(std::filesystem::file_size(path_)));
  }
  const auto file = Open(Options());
  EXPECT_EQ(loaded_, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(Metric(*file, "pergola_cache_file_loaded_total"), 3);
  EXPECT_EQ(told_, "");
}

TEST_F(ResultFileTest, EveryPartOfAKeyAndOfAnOutputComesBack) {
  const SequenceKey key{{OutputKind::kEmbedding, OutputKind::kSparse},
                        Sequence{.ids = {1, 2, 3}, .second_text = 2, .spans = {{0, 1}, {1, 3}}}};
  auto output = std::make_shared<service::SequenceOutput>();
  (*output)[OutputKind::kEmbedding] = {2, 2, {0.5f, -0.0f, 1e-30f, 4}};
  (*output)[OutputKind::kSparse] = {3, 1, {1, 2, 3}};
  const std::string bytes = HeaderBytes("x") + RecordBytes(key, *output);
  int taken = 0;
  EXPECT_EQ(ReadRecords(std::as_bytes(std::span(bytes)), "x",
                        [&](const StoredRecord& record) {
                          ++taken;
                          EXPECT_EQ(record.key, key);
                          EXPECT_EQ(RecordBytes(record.key, *record.output), record.bytes);
                        }),
            bytes.size());
  EXPECT_EQ(taken, 1);
}

// What fuzzing starts from: payloads with a good checksum.
TEST_F(ResultFileTest, PayloadsOfTheFuzzCorpusAreReadWhollyOrRefused) {
  int num_read = 0;
  int num_refused = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(PERGOLA_TEST_DATA "/fuzz/corpus/result_records")) {
    const std::string record = FramedPayload(ReadFile(entry.path()));
    const std::string bytes = HeaderBytes("x") + record;
    int taken = 0;
    const size_t end =
        ReadRecords(std::as_bytes(std::span(bytes)), "x", [&](const StoredRecord& read) {
          ++taken;
          EXPECT_EQ(RecordBytes(read.key, *read.output), record);
        });
    EXPECT_EQ(end, taken == 1 ? bytes.size() : bytes.size() - record.size()) << entry.path();
    ++(taken == 1 ? num_read : num_refused);
  }
  EXPECT_EQ(num_read, 3);
  EXPECT_EQ(num_refused, 6);
}

TEST_F(ResultFileTest, AnotherIdentityBeginsAnew) {
  Append(*Open(Options()), 0, 3);
  ResultFileOptions other = Options();
  other.identity = "model B, avx2";
  Append(*Open(other), 7, 8);
  EXPECT_TRUE(loaded_.empty());
  EXPECT_NE(told_.find("begun anew"), std::string::npos) << told_;
  Open(other);
  EXPECT_EQ(loaded_, (std::vector<int32_t>{7}));
}

TEST_F(ResultFileTest, AForeignFileIsLeftAsItIs) {
  const std::string foreign = "GGUF, and somebody's only copy of it";
  std::ofstream(Options().path, std::ios::binary) << foreign;
  const auto opened = ResultFile::Open(Options(), [](SequenceKey, StoredOutput) {});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), StatusCode::kFailedPrecondition);
  std::ifstream file(Options().path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), foreign);
}

TEST_F(ResultFileTest, WhereverItIsTornWholeRecordsStay) {
  Append(*Open(Options()), 0, 3);
  const std::string whole = ReadFile(path_);
  const size_t header = HeaderBytes(Options().identity).size();
  const size_t record = (whole.size() - header) / 3;
  for (size_t size = header; size < whole.size(); ++size) {
    folder_.Write("results", whole.substr(0, size));
    Append(*Open(Options()), 9, 10);
    ASSERT_EQ(loaded_.size(), (size - header) / record);
    const size_t before = loaded_.size();
    Open(Options());
    ASSERT_EQ(loaded_.size(), before + 1);
    ASSERT_EQ(loaded_.back(), 9);
  }
}

TEST_F(ResultFileTest, AChangedBitIsNeverServed) {
  Append(*Open(Options()), 0, 2);
  const std::string whole = ReadFile(path_);
  for (size_t bit = 0; bit < whole.size() * 8; bit += 3) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    int taken = 0;
    ReadRecords(std::as_bytes(std::span(changed)), Options().identity,
                [&](const StoredRecord& read) {
                  EXPECT_EQ(read.bytes, RecordBytes(KeyOf(taken), *OutputOf(taken)));
                  ++taken;
                });
    EXPECT_LT(taken, 2);
  }
}

TEST_F(ResultFileTest, StaysWithinItsBoundAndKeepsTheNewest) {
  ResultFileOptions options = Options();
  options.max_bytes = 2000;
  {
    const auto file = Open(options);
    for (int32_t number = 0; number < 200; ++number) {
      Append(*file, number, number + 1);
      ASSERT_LE(std::filesystem::file_size(path_), 2000u);
    }
    EXPECT_EQ(Metric(*file, "pergola_cache_file_bytes"),
              static_cast<double>(std::filesystem::file_size(path_)));
    EXPECT_EQ(Metric(*file, "pergola_cache_file_dropped_total"), 0);
  }
  Open(options);
  ASSERT_GE(loaded_.size(), 8u);
  for (size_t index = 0; index < loaded_.size(); ++index) {
    EXPECT_EQ(loaded_[index], static_cast<int32_t>(200 - loaded_.size() + index));
  }
  EXPECT_FALSE(std::filesystem::exists(path_ + ".part"));
}

TEST_F(ResultFileTest, AFullDiskIsToldOnceAndCostsNothingElse) {
  ResultFileOptions options = Options();
  std::atomic<int64_t> room = 700;  // bytes
  options.write = [&room](int fd, const void* data, size_t size) -> ssize_t {
    const auto fits = std::min<int64_t>(room, static_cast<int64_t>(size));
    if (fits == 0) {
      errno = ENOSPC;
      return -1;
    }
    room -= fits;
    return ::write(fd, data, static_cast<size_t>(fits));
  };
  {
    const auto file = Open(options);
    Append(*file, 0, 50);
    EXPECT_EQ(Metric(*file, "pergola_cache_file_writable"), 0);
    const double written = Metric(*file, "pergola_cache_file_written_total");
    EXPECT_GT(written, 0);
    EXPECT_EQ(written + Metric(*file, "pergola_cache_file_dropped_total"), 50);
    EXPECT_EQ(std::count(told_.begin(), told_.end(), '\n'), 1) << told_;
    EXPECT_NE(told_.find("No space left"), std::string::npos) << told_;
  }
  told_.clear();
  const auto file = Open(Options());  // there is room again
  EXPECT_EQ(told_, "");               // nothing was torn
  EXPECT_GT(loaded_.size(), 0u);
  EXPECT_EQ(Metric(*file, "pergola_cache_file_writable"), 1);
}

TEST_F(ResultFileTest, WhatCannotBeWrittenInTimeIsDropped) {
  ResultFileOptions options = Options();
  options.max_waiting_bytes = 0;
  const auto file = Open(options);
  Append(*file, 0, 5);
  EXPECT_EQ(Metric(*file, "pergola_cache_file_dropped_total"), 5);
}

// Waits for a file that another process has.
class LockedResultFileTest : public ResultFileTest {
 protected:
  // Returns at once; told() when it has told as many lines.
  std::unique_ptr<ResultFile> OpenLocked(std::chrono::milliseconds retry) {
    ResultFileOptions options = Options();
    options.retry = retry;
    options.tell = [this](const std::string& line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      lines_.push_back(line);
      changed_.notify_all();
    };
    auto file = Open(std::move(options));
    EXPECT_EQ(Metric(*file, "pergola_cache_file_locked"), 1);
    EXPECT_EQ(Metric(*file, "pergola_cache_file_writable"), 0);
    return file;
  }
  std::vector<std::string> told(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return lines_.size() >= count; });
    return lines_;
  }

 private:
  std::mutex mutex_;  // guards the next
  std::vector<std::string> lines_;
  std::condition_variable changed_;
};

TEST_F(LockedResultFileTest, IsTakenOverWhenTheOtherEnds) {
  auto first = Open(Options());
  Append(*first, 0, 3);
  const auto second = OpenLocked(std::chrono::milliseconds(1));
  Append(*second, 7, 9);
  EXPECT_TRUE(loaded_.empty());
  EXPECT_EQ(Metric(*second, "pergola_cache_file_dropped_total"), 2);
  Append(*first, 3, 4);
  first = nullptr;
  EXPECT_EQ(told(2), (std::vector<std::string>{
                         "'" + path_ + "' is in use by another process: nothing is read or kept " +
                             "until it is free",
                         "'" + path_ + "' is free and taken over"}));
  EXPECT_EQ(loaded_, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(Metric(*second, "pergola_cache_file_locked"), 0);
  EXPECT_EQ(Metric(*second, "pergola_cache_file_writable"), 1);
  EXPECT_EQ(Metric(*second, "pergola_cache_file_loaded_total"), 4);
  Append(*second, 3, 6);
  EXPECT_EQ(Metric(*second, "pergola_cache_file_written_total"), 2);
}

TEST_F(LockedResultFileTest, IsWaitedForNoLongerThanItIsWanted) {
  const auto first = Open(Options());
  OpenLocked(std::chrono::hours(1)).reset();
  EXPECT_EQ(told(1).size(), 1u);
}

TEST_F(LockedResultFileTest, ThatTurnsOutForeignIsLeftAsItIs) {
  auto first = Open(Options());
  const auto second = OpenLocked(std::chrono::milliseconds(1));
  std::filesystem::remove(path_);
  std::ofstream(path_) << "somebody's diary";
  first = nullptr;
  EXPECT_NE(told(2)[1].find("is no file of results"), std::string::npos);
  Append(*second, 0, 1);
  EXPECT_EQ(Metric(*second, "pergola_cache_file_writable"), 0);
  EXPECT_EQ(Metric(*second, "pergola_cache_file_locked"), 0);
  EXPECT_EQ(std::filesystem::file_size(path_), std::string("somebody's diary").size());
}

TEST_F(ResultFileTest, AFolderOrAPathBelowAFileIsAnError) {
  ResultFileOptions options = Options();
  options.path = folder_.path() / "no such folder" / "results";
  EXPECT_EQ(ResultFile::Open(options, {}).status().code(), StatusCode::kInternal);
}

// A child appends and compacts as fast as it can until it is killed.
TEST_F(ResultFileTest, KilledInTheMiddleOfWritesItLosesOnlyTheTail) {
  ResultFileOptions options = Options();
  options.max_bytes = 20000;
  for (int round = 0; round < 10; ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto file = ResultFile::Open(options, [](const SequenceKey&, const StoredOutput&) {});
      if (!file.ok()) _exit(1);
      for (int32_t number = 0;; ++number) {
        (*file)->Append(KeyOf(number), OutputOf(number));
        // Some rounds die between the first records, some in or between compactions.
        if (number == 5 + round * 60) {
          (*file)->Flush();
          if (write(ready[1], "x", 1) != 1) _exit(1);
        }
      }
    }
    close(ready[1]);
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    close(ready[0]);
    Open(options);
    EXPECT_GE(loaded_.size(), 6u);
    std::filesystem::remove(path_);
  }
}

}  // namespace
}  // namespace pergola::scheduler
