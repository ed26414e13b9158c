#include "cli/progress_bar.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "hub/file_sink.h"

namespace pergola::cli {
namespace {

constexpr std::chrono::milliseconds kDrawInterval{100};
constexpr int kBarCells = 10;  // all fits into 80 columns
// The shown rate follows the last seconds: time constant of the smoothing.
constexpr double kSmoothingSeconds = 3.0;

int Columns(FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string Amount(ProgressUnit unit, double value) {
  if (unit == ProgressUnit::kBytes) return hub::HumanBytes(static_cast<int64_t>(value));
  char text[32];
  std::snprintf(text, sizeof text, value < 9.995 ? "%.2f" : "%.0f", value);
  return text;
}

std::string Duration(std::chrono::seconds duration) {
  const auto seconds = duration.count();
  char text[48];
  if (seconds >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", static_cast<long long>(seconds / 3600),
                  static_cast<long long>(seconds / 60 % 60), static_cast<long long>(seconds % 60));
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", static_cast<long long>(seconds / 60),
                  static_cast<long long>(seconds % 60));
  }
  return text;
}

}  // namespace

std::string RenderProgress(const ProgressView& view, int columns) {
  std::string line = view.label;
  if (view.fraction >= 0) {
    const double fraction = std::min(view.fraction, 1.0);
    const int filled = static_cast<int>(fraction * kBarCells);
    char percent[16];
    std::snprintf(percent, sizeof percent, "  %d %%", static_cast<int>(fraction * 100));
    line += "  [" + std::string(filled, '#') + std::string(kBarCells - filled, '.') + "]" + percent;
  }
  const bool texts = view.unit == ProgressUnit::kTexts;
  line += "  " + (texts ? std::to_string(view.done) : hub::HumanBytes(view.done));
  if (view.total > 0) {
    line += " of " + (texts ? std::to_string(view.total) : hub::HumanBytes(view.total));
  }
  line += texts ? " texts" : "";
  if (view.rate > 0) line += "  " + Amount(view.unit, view.rate) + (texts ? " texts/s" : "/s");
  if (view.eta.count() >= 0) line += "  ETA " + Duration(view.eta);
  return line.substr(0, static_cast<size_t>(std::max(columns, 1)));
}

ProgressBar::ProgressBar(FILE* stream, std::string label, ProgressUnit unit)
    : stream_(stream), is_terminal_(isatty(fileno(stream)) == 1) {
  view_.label = std::move(label);
  view_.unit = unit;
}

void ProgressBar::Update(int64_t done, int64_t total) {
  Update(done, total, total > 0 ? static_cast<double>(done) / static_cast<double>(total) : -1);
}

void ProgressBar::Update(int64_t done, int64_t total, double fraction) {
  if (!is_terminal_) return;
  view_.done = done;
  view_.total = total;
  view_.fraction = fraction;
  const Clock::time_point now = Clock::now();
  if (!started_) {
    started_ = true;
    start_ = rate_time_ = now;
    start_fraction_ = std::max(fraction, 0.0);
    rate_done_ = done;
  }
  if (drawn_ && now - last_draw_ < kDrawInterval) return;
  last_draw_ = now;
  const double seconds = std::chrono::duration<double>(now - rate_time_).count();
  if (seconds > 0) {
    const double current = std::max(0.0, static_cast<double>(done - rate_done_) / seconds);
    const double weight = view_.rate == 0 ? 1 : 1 - std::exp(-seconds / kSmoothingSeconds);
    view_.rate += weight * (current - view_.rate);
    rate_time_ = now;
    rate_done_ = done;
  }
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double made = fraction - start_fraction_;
  view_.eta = std::chrono::seconds(-1);
  if (made > 0.002 && elapsed > 1) {
    view_.eta = std::chrono::seconds(std::llround(elapsed * std::max(0.0, 1 - fraction) / made));
  }
  Draw();
}

void ProgressBar::Draw() {
  std::fprintf(stream_, "\r\033[K%s", RenderProgress(view_, Columns(stream_) - 1).c_str());
  std::fflush(stream_);
  drawn_ = true;
}

void ProgressBar::Clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stream_);
  std::fflush(stream_);
  drawn_ = false;
}

void ProgressBar::Finish() {
  if (!drawn_) return;
  view_.eta = std::chrono::seconds(-1);
  Draw();
  std::fputc('\n', stream_);
  drawn_ = false;
}

}  // namespace pergola::cli
