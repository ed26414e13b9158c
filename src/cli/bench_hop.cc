#include "cli/bench_hop.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "rpc/remote_service.h"

namespace pergola::cli {
namespace {

Status CallOnce(rpc::RemoteService& remote) {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Status> outcome;
  remote.Ping([&](Status status) {
    const std::lock_guard<std::mutex> lock(mutex);
    outcome = std::move(status);
    answered.notify_one();
  });
  std::unique_lock<std::mutex> lock(mutex);
  answered.wait(lock, [&] { return outcome.has_value(); });
  return *outcome;
}

}  // namespace

Result<HopTimes> BenchHop(const std::string& backend, int calls) {
  using Clock = std::chrono::steady_clock;
  constexpr int kWarmUp = 20;
  rpc::RemoteService remote(backend, {});
  PERGOLA_RETURN_IF_ERROR(remote.FetchModels(std::chrono::seconds(5)).status());
  std::vector<double> microseconds;
  for (int call = 0; call < kWarmUp + calls; ++call) {
    const Clock::time_point begin = Clock::now();
    PERGOLA_RETURN_IF_ERROR(CallOnce(remote));
    const std::chrono::duration<double, std::micro> length = Clock::now() - begin;
    if (call >= kWarmUp) microseconds.push_back(length.count());
  }
  std::sort(microseconds.begin(), microseconds.end());
  const auto at = [&](double share) {
    return microseconds[static_cast<size_t>(share * static_cast<double>(microseconds.size() - 1))];
  };
  return HopTimes{at(0.5), at(0.9), at(0.99)};
}

}  // namespace pergola::cli
