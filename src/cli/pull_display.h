// Shows a pull on stderr: a bar on a terminal, a line per file otherwise.
#pragma once

#include <string>

#include "cli/progress_bar.h"
#include "hub/pull_observer.h"

namespace pergola::cli {

class PullDisplay : public hub::PullObserver {
 public:
  // `quiet`: only failures of sources and the waiting for another process.
  PullDisplay(std::string model, bool quiet);

  void OnWaiting(std::string_view model) override;
  void OnSource(std::string_view source, std::string_view model) override;
  void OnSourceFailed(std::string_view source, const Status& why) override;
  void OnProgress(int64_t done_bytes, int64_t total_bytes) override;
  void OnFile(std::string_view path, int64_t bytes, std::string_view sha256) override;
  // Call when the pull has ended.
  void Finish() { bar_.Finish(); }

 private:
  void Line(const std::string& line);

  ProgressBar bar_;
  bool quiet_;
};

}  // namespace pergola::cli
