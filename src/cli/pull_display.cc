#include "cli/pull_display.h"

#include <cstdio>

#include "hub/file_sink.h"

namespace pergola::cli {

PullDisplay::PullDisplay(std::string model, bool quiet)
    : bar_(stderr, std::move(model), ProgressUnit::kBytes), quiet_(quiet) {}

void PullDisplay::Line(const std::string& line) {
  bar_.Clear();
  std::fprintf(stderr, "%s\n", line.c_str());
}

void PullDisplay::OnWaiting(std::string_view model) {
  Line("waiting for another pull of " + std::string(model));
}

void PullDisplay::OnSource(std::string_view source, std::string_view model) {
  if (!quiet_) Line("pulling " + std::string(model) + " from source '" + std::string(source) + "'");
}

void PullDisplay::OnSourceFailed(std::string_view source, const Status& why) {
  Line("source '" + std::string(source) + "' failed: " + why.message());
}

void PullDisplay::OnProgress(int64_t done_bytes, int64_t total_bytes) {
  if (!quiet_) bar_.Update(done_bytes, total_bytes);
}

void PullDisplay::OnFile(std::string_view path, int64_t bytes, std::string_view sha256) {
  if (quiet_) return;
  Line("  " + std::string(path) + "  " + hub::HumanBytes(bytes) + "  sha256 " +
       std::string(sha256.substr(0, 12)) + "  ok");
}

}  // namespace pergola::cli
