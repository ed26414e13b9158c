// A cache before an InferenceService: outputs by exact sequence (result_cache.h), and equal
// sequences under way are asked for once.
//
//   auto cached = std::make_shared<CachedService>(replicas, CachedService::Options{});
//   cached->SetIdentity(info.rows_identity);   // from now on it keeps what it sees
//   cached->Submit(std::move(request), ...);
//
// For whoever does not compute itself: the scheduler has both within, and its single flight is
// another job. There work still lies in the queue, so joining it can change its priority and its
// end; here a request has left for another process, and the most that joining can do is wait, or
// ask again. What a request lacks goes on as one request. A sequence that somebody else has asked
// for already is waited for: unless that request goes behind (bulk before online), and if it fails
// for reasons of its own (cancelled, expired, refused) the sequence is asked for again. What nobody
// waits for any more is cancelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "service/inference_service.h"
#include "service/metric_sample.h"

namespace pergola::scheduler {

// Thread-safe.
class CachedService : public service::InferenceService {
 public:
  struct Options {
    size_t cache_bytes = size_t{64} << 20;
    bool single_flight = true;
    // Keeps outputs over restarts in this file (result_file.h), as long as the identity is known;
    // empty: none. A file that cannot be opened is told of and done without.
    std::string cache_file = {};
    int64_t cache_file_bytes = int64_t{1} << 30;
    // Told what a log should hold about the file, on any thread.
    std::function<void(const std::string&)> tell = [](const std::string&) {};
  };

  // For the first of the service's models; requests for others are passed on. `service`, second
  // owner: whoever made it.
  CachedService(std::shared_ptr<service::InferenceService> service, const Options& options);
  // Cancels what is open and waits until it is called back.
  ~CachedService() override;

  // ModelInfo::rows_identity of the outputs that are kept: what somebody of another one computed is
  // passed on, but not kept. Another one than before forgets all; empty (at first): nothing is
  // kept. Reads the cache file, if there is to be one, and so may take a while. From one thread at
  // a time.
  void SetIdentity(const std::string& identity);

  void Submit(service::InferenceRequest request, service::InferenceCallback done) override;
  std::vector<service::ModelInfo> Models() const override;

  std::vector<service::MetricSample> Metrics() const;

 private:
  class State;
  std::shared_ptr<State> state_;  // second owners: callbacks of the service
};

}  // namespace pergola::scheduler
