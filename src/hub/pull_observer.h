// What a pull tells while it runs. The library prints nothing: the command line draws a bar from
// this.
#pragma once

#include <cstdint>
#include <string_view>

#include "pergola/status.h"

namespace pergola::hub {

// Calls come from several threads but never overlap; keep them short. Every method may be left out.
class PullObserver {
 public:
  virtual ~PullObserver() = default;
  // Another process pulls the same model: this one waits for it.
  virtual void OnWaiting(std::string_view /*model*/) {}
  // A source is tried. `source` is "hub" or "packages".
  virtual void OnSource(std::string_view /*source*/, std::string_view /*model*/) {}
  // It failed and, if there is one, the next is tried.
  virtual void OnSourceFailed(std::string_view /*source*/, const Status& /*why*/) {}
  // Bytes transferred so far, those of an earlier attempt included; `total_bytes` 0 when unknown.
  // May go down when damaged data is thrown away.
  virtual void OnProgress(int64_t /*done_bytes*/, int64_t /*total_bytes*/) {}
  // A file is complete and its checksum right.
  virtual void OnFile(std::string_view /*path*/, int64_t /*bytes*/, std::string_view /*sha256*/) {}
};

}  // namespace pergola::hub
