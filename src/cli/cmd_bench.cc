#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench_engine.h"
#include "cli/bench_hop.h"
#include "cli/command_line.h"
#include "cli/model_location.h"
#include "cli/pull_display.h"
#include "cli/status_exit.h"
#include "core/cpu_features.h"
#include "core/json_text.h"
#include "hub/hub_config.h"
#include "kernels/machine_peaks.h"

namespace pergola::cli {
namespace {

struct HardwareFlags {
  int threads = 0;
  bool json = false;
};

struct HopFlags {
  std::string backend = "127.0.0.1:42668";
  int calls = 1000;
  bool json = false;
};

struct EngineFlags {
  std::string model = "all-MiniLM-L6-v2";
  EngineBenchOptions bench;
  double seconds = 3;
  std::string activations = "auto";
  std::string weights = "auto";
  bool vectors = false;
  bool offline = false;
  bool json = false;
};

std::string Number(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

int BenchHardware(const HardwareFlags& flags) {
  const int threads = flags.threads > 0 ? flags.threads : UsableCores();
  const auto measured = kernels::MeasureMachinePeaks({.num_threads = threads});
  if (!measured.ok()) return Fail(measured.status());
  const std::vector<kernels::MachinePeak>& peaks = *measured;
  if (!flags.json) {
    std::printf("%s, %d threads\n%-12s %12s %12s\n", CpuModelName().c_str(), threads, "",
                "one thread", "all threads");
    for (const kernels::MachinePeak& peak : peaks) {
      std::printf("%-12s %12.1f %12.1f %s (%s)\n", peak.name.c_str(), peak.one_thread,
                  peak.all_threads, peak.unit.c_str(), peak.kernel_set.c_str());
    }
    return kExitOk;
  }
  std::string json = "{\"cpu\":" + JsonString(CpuModelName()) +
                     ",\"threads\":" + std::to_string(threads) + ",\"peaks\":[";
  for (const kernels::MachinePeak& peak : peaks) {
    json += (json.back() == '[' ? "{\"name\":" : ",{\"name\":") + JsonString(peak.name) +
            ",\"unit\":" + JsonString(peak.unit) +
            ",\"kernel_set\":" + JsonString(peak.kernel_set) +
            ",\"one_thread\":" + Number("%.1f", peak.one_thread) +
            ",\"all_threads\":" + Number("%.1f", peak.all_threads) + "}";
  }
  std::printf("%s]}\n", json.c_str());
  return kExitOk;
}

void AppendText(const std::vector<int32_t>& ids, const std::vector<float>& vector,
                std::string* json) {
  *json += "{\"ids\":[";
  for (size_t i = 0; i < ids.size(); ++i) *json += (i > 0 ? "," : "") + std::to_string(ids[i]);
  *json += "],\"vector\":[";
  for (size_t i = 0; i < vector.size(); ++i) {
    if (i > 0) *json += ',';
    AppendJsonFloat(vector[i], json);
  }
  *json += "]}";
}

void PrintCell(const EngineFlags& flags, const std::string& model, const EngineBenchCell& cell) {
  if (!flags.json) {
    std::printf("%8lld %8lld %8d %12.0f %12.3f %10s\n", static_cast<long long>(cell.length),
                static_cast<long long>(cell.batch), cell.threads, cell.tokens_per_s, cell.ms_p50,
                cell.cosine ? Number("%.6f", *cell.cosine).c_str() : "-");
    std::fflush(stdout);
    return;
  }
  std::string json =
      "{\"model\":" + JsonString(model) + ",\"length\":" + std::to_string(cell.length) +
      ",\"batch\":" + std::to_string(cell.batch) + ",\"threads\":" + std::to_string(cell.threads) +
      ",\"tokens_per_s\":" + Number("%.1f", cell.tokens_per_s) +
      ",\"ms_p50\":" + Number("%.4f", cell.ms_p50) + ",\"ms_p99\":" + Number("%.4f", cell.ms_p99) +
      ",\"cosine\":" + (cell.cosine ? Number("%.7f", *cell.cosine) : "null") +
      ",\"numeric_class\":" + JsonString(cell.numeric_class);
  if (flags.vectors) {
    json += ",\"texts\":[";
    for (size_t text = 0; text < cell.ids.size(); ++text) {
      if (text > 0) json += ',';
      AppendText(cell.ids[text], cell.vectors[text], &json);
    }
    json += ']';
  }
  std::printf("%s}\n", json.c_str());
  std::fflush(stdout);
}

int BenchModel(EngineFlags flags) {
  hub::HubConfig hub = hub::HubConfig::FromEnvironment();
  hub.offline |= flags.offline;
  PullDisplay display(flags.model, /*quiet=*/flags.json);
  const Result<ModelLocation> location = ResolveModel(flags.model, hub, display);
  display.Finish();
  if (!location.ok()) return Fail(location.status());
  flags.bench.path = location->path.string();
  flags.bench.seconds = std::chrono::duration<double>(flags.seconds);
  flags.bench.weights = *kernels::ParseWeightType(flags.weights);  // checked by the flag
  if (flags.activations == "f32") flags.bench.activations = kernels::ActivationPrecision::kF32;
  if (!flags.json) {
    std::printf("%8s %8s %8s %12s %12s %10s\n", "length", "batch", "threads", "tokens/s", "ms p50",
                "cosine");
  }
  const Status status = BenchEngine(
      flags.bench, [&](const EngineBenchCell& cell) { PrintCell(flags, location->id, cell); });
  return status.ok() ? static_cast<int>(kExitOk) : Fail(status);
}

int MeasureHop(const HopFlags& flags) {
  const Result<HopTimes> times = BenchHop(flags.backend, flags.calls);
  if (!times.ok()) return Fail(times.status());
  const char* const format = flags.json ? "{\"us_p50\":%.1f,\"us_p90\":%.1f,\"us_p99\":%.1f}\n"
                                        : "p50 %.1f us, p90 %.1f us, p99 %.1f us\n";
  std::printf(format, times->p50, times->p90, times->p99);
  return kExitOk;
}

void AddHop(CLI::App& bench, Run* run) {
  CLI::App* command =
      bench.add_subcommand("hop", "Measure calls to a `pergola server` that compute nothing");
  command->footer(
      "What gRPC and the network between a gateway and its server cost, one call at a time.\n"
      "  pergola bench hop --backend 10.0.0.7:42668");
  auto flags = std::make_shared<HopFlags>();
  command->add_option("--backend", flags->backend, "The server, host:port")->capture_default_str();
  command->add_option("--calls", flags->calls, "Calls to measure")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "One JSON object");
  command->callback([flags, run] { *run = [flags] { return MeasureHop(*flags); }; });
}

void AddHardware(CLI::App& bench, Run* run) {
  CLI::App* command = bench.add_subcommand(
      "hw", "Measure what this machine can multiply, add and read, on one thread and on all");
  auto flags = std::make_shared<HardwareFlags>();
  command->add_option("--threads", flags->threads, "Threads (0: one per usable core)")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--json", flags->json, "One JSON object");
  command->callback([flags, run] { *run = [flags] { return BenchHardware(*flags); }; });
}

void AddEngine(CLI::App& bench, Run* run) {
  CLI::App* command =
      bench.add_subcommand("engine", "Measure a model's forward passes, without server and cache");
  command->footer(
      "A line per cell, after its vectors have been checked against the reference kernels.\n"
      "  pergola bench engine --model all-MiniLM-L6-v2 --lengths 8,128 --batch 1,32 --threads 1,2");
  auto flags = std::make_shared<EngineFlags>();
  EngineBenchOptions& options = flags->bench;
  command->add_option("-m,--model", flags->model, "Registry name, hub id, directory or .gguf file");
  command
      ->add_option("--lengths", options.lengths,
                   "Tokens of a text; what the model does not take is left out")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_option("--batch", options.batches, "Texts of a call")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536));
  command->add_option("--threads", options.threads, "Compute threads")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  command->add_option("--seconds", flags->seconds, "Time of a cell")
      ->check(CLI::Range(0.001, 3600.0));
  command
      ->add_option("--activations", flags->activations,
                   "f32: quantised weights are widened, the reference mode")
      ->check(CLI::IsMember({"auto", "f32"}));
  command->add_option("--weights", flags->weights, "What matrices are computed in")
      ->check(CLI::IsMember({"auto", "as-is", "f32", "f16", "bf16", "int8", "int4"}));
  command->add_flag(
      "!--unchecked", options.checked,
      "Compute nothing by the reference kernels: for a script that compares vectors itself");
  command->add_flag("--vectors", flags->vectors,
                    "With --json: ids and vectors of each cell's texts too");
  command->add_flag("--offline", flags->offline, "Fetch nothing");
  command->add_flag("--json", flags->json, "One JSON object per line");
  command->callback([flags, run] { *run = [flags] { return BenchModel(*flags); }; });
}

}  // namespace

void AddBench(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("bench", "Measure this machine, a model or a server");
  command->require_subcommand(1);
  AddHardware(*command, run);
  AddEngine(*command, run);
  AddHop(*command, run);
  AddBenchServer(*command, run);
}

}  // namespace pergola::cli
