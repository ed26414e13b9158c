#include "kernels/machine_peaks.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "core/cpu_features.h"
#include "kernels/cpu/aligned_buffer.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/select.h"

namespace pergola::kernels {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;
constexpr int64_t kLoopRounds = 2000;  // some 20 us
constexpr int64_t kReadBytes = int64_t{1} << 20;

struct Kind {
  cpu::PeakKind kind;
  const char* name;
  const char* unit;
};
constexpr Kind kKinds[] = {
    {cpu::PeakKind::kF32, "f32_fma", "GFLOP/s"},
    {cpu::PeakKind::kI16, "i16_dot", "Gop/s"},
    {cpu::PeakKind::kI8, "i8_dot", "Gop/s"},
    {cpu::PeakKind::kBF16, "bf16_dot", "GFLOP/s"},
};

// Best sum, over rounds, of the rates at which `threads` threads do `work(thread)`, which returns
// how much it did; per nanosecond: 1e9 a second.
double BestRate(int threads, std::chrono::milliseconds round,
                const std::function<int64_t(int thread)>& work) {
  double best = 0;
  for (int attempt = 0; attempt < kRounds; ++attempt) {
    std::atomic<int> ready{0};
    std::vector<double> rates(static_cast<size_t>(threads));
    const auto run = [&](int thread) {
      ready.fetch_add(1);
      while (ready.load() < threads) std::this_thread::yield();
      const auto began = Clock::now();
      int64_t done = 0;
      std::chrono::duration<double, std::nano> elapsed{0};
      do {
        done += work(thread);
        elapsed = Clock::now() - began;
      } while (elapsed < round);
      rates[static_cast<size_t>(thread)] = static_cast<double>(done) / elapsed.count();
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
    run(0);
    for (std::thread& other : others) other.join();
    double sum = 0;
    for (double rate : rates) sum += rate;
    best = std::max(best, sum);
  }
  return best;
}

// Bytes per nanosecond through `read_bytes` over memory of every thread's own.
double ReadRate(const cpu::KernelTable& table, int threads, const MachinePeakOptions& options) {
  const int64_t size = std::max(kReadBytes, options.memory_bytes / kReadBytes * kReadBytes);
  std::vector<cpu::AlignedBuffer> memory(static_cast<size_t>(threads));
  std::vector<int64_t> places(static_cast<size_t>(threads));
  for (cpu::AlignedBuffer& buffer : memory) {
    std::fill_n(buffer.Reserve<std::byte>(size), size, std::byte{1});  // so that pages exist
  }
  std::atomic<int32_t> sink{0};
  return BestRate(threads, options.round, [&](int thread) {
    int64_t& at = places[static_cast<size_t>(thread)];
    sink.fetch_xor(table.read_bytes(memory[static_cast<size_t>(thread)].data() + at, kReadBytes),
                   std::memory_order_relaxed);
    at = (at + kReadBytes) % size;
    return kReadBytes;
  });
}

}  // namespace

Result<std::vector<MachinePeak>> MeasureMachinePeaks(const MachinePeakOptions& options) {
  const int threads = options.num_threads > 0 ? options.num_threads : UsableCores();
  std::vector<KernelSet> sets = ListKernelSets();
  const WantedKernelSet wanted = FindWantedKernelSet(options.isa);
  if (!wanted.name.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(const KernelSet* best,
                             PickKernelSet(sets, wanted.name, wanted.source));
    sets.erase(sets.begin(), sets.begin() + (best - sets.data()));
  }
  std::erase_if(sets, [](const KernelSet& set) { return !set.usable || set.table == nullptr; });
  if (sets.empty()) return InvalidArgumentError("the reference kernels have no peak");
  std::vector<MachinePeak> peaks;
  for (const Kind& kind : kKinds) {
    const auto index = static_cast<size_t>(kind.kind);
    const auto best = std::find_if(sets.begin(), sets.end(), [&](const KernelSet& set) {
      return set.table->peaks[index] != nullptr;
    });
    if (best == sets.end()) continue;
    const auto loop = [&](int) { return best->table->peaks[index](kLoopRounds); };
    peaks.push_back({kind.name, kind.unit, std::string(best->name),
                     BestRate(1, options.round, loop), BestRate(threads, options.round, loop)});
  }
  const KernelSet& set = sets.front();  // the scalar one at least
  peaks.push_back({"memory_read", "GB/s", std::string(set.name), ReadRate(*set.table, 1, options),
                   ReadRate(*set.table, threads, options)});
  return peaks;
}

}  // namespace pergola::kernels
