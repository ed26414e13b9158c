// The bar that a long command draws on a terminal:
//
//   all-MiniLM-L6-v2  [#####.....]  56 %  51.1 MB of 91.3 MB  12.4 MB/s  ETA 0:03
//
//   ProgressBar bar(stderr, "all-MiniLM-L6-v2", ProgressUnit::kBytes);
//   bar.Update(done, total);   // as often as you like: drawn at most ten times a second
//   bar.Finish();
//
// Draws nothing at all when the stream is not a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace pergola::cli {

enum class ProgressUnit { kBytes, kTexts };

struct ProgressView {
  std::string label;
  ProgressUnit unit = ProgressUnit::kBytes;
  int64_t done = 0;              // in units
  int64_t total = 0;             // in units; 0: unknown
  double fraction = -1;          // of the work; negative: unknown, no bar and no ETA
  double rate = 0;               // units per second
  std::chrono::seconds eta{-1};  // negative: unknown
};

// One line of at most `columns` characters, without a line break; ASCII.
std::string RenderProgress(const ProgressView& view, int columns);

// Thread-confined.
class ProgressBar {
 public:
  ProgressBar(FILE* stream, std::string label, ProgressUnit unit);
  ~ProgressBar() { Clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  bool is_terminal() const { return is_terminal_; }
  // `total` 0: unknown.
  void Update(int64_t done, int64_t total);
  // With a fraction of the work that is measured otherwise than in units (bytes of input read).
  void Update(int64_t done, int64_t total, double fraction);
  // Removes the bar from the terminal, so that a message can be printed; the next Update draws it
  // again.
  void Clear();
  // Draws the last state and goes to the next line.
  void Finish();

 private:
  using Clock = std::chrono::steady_clock;
  void Draw();

  FILE* stream_;
  bool is_terminal_;
  ProgressView view_;
  bool drawn_ = false;
  bool started_ = false;
  Clock::time_point start_{};
  Clock::time_point last_draw_{};
  double start_fraction_ = 0;  // what an earlier run had done does not count for the ETA
  Clock::time_point rate_time_{};
  int64_t rate_done_ = 0;
};

}  // namespace pergola::cli
