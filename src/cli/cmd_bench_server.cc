#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/text_side.h"
#include "cli/bench_plot.h"
#include "cli/bench_server.h"
#include "cli/command_line.h"
#include "cli/model_location.h"
#include "cli/pull_display.h"
#include "cli/status_exit.h"
#include "cli/whole_file.h"
#include "core/json_text.h"
#include "hub/hub_config.h"

namespace pergola::cli {
namespace {

const std::map<std::string, BenchCase> kCases = {{"online", BenchCase::kOnline},
                                                 {"scoring", BenchCase::kScoring},
                                                 {"bulk", BenchCase::kBulk},
                                                 {"concurrent", BenchCase::kConcurrent}};

struct ServerBenchFlags {
  std::string model = "all-MiniLM-L6-v2";
  bool offline = false;
  BenchedServer server{"http://127.0.0.1:42666", "", ""};
  BenchedServer against;
  std::string api_key_file;
  std::string mode;  // empty: lengths, batches, clients
  std::vector<int64_t> lengths = {8, 32, 128};
  std::vector<int64_t> batches = {1};
  std::vector<int> clients = {1, 8, 32};
  double rate = 0;
  bool ids = false;
  double seconds = 5;
  bool json = false;
  std::string plot;
};

std::vector<ServerLoad> Loads(const ServerBenchFlags& flags) {
  if (!flags.mode.empty()) return LoadsOf(kCases.at(flags.mode));
  std::vector<ServerLoad> loads;
  for (const int64_t length : flags.lengths) {
    for (const int64_t batch : flags.batches) {
      for (const int clients : flags.clients) {
        loads.push_back({length, batch, clients, flags.ids, flags.rate});
      }
    }
  }
  return loads;
}

Result<ServerBenchOptions> Options(const ServerBenchFlags& flags) {
  hub::HubConfig hub = hub::HubConfig::FromEnvironment();
  hub.offline |= flags.offline;
  PullDisplay display(flags.model, /*quiet=*/flags.json);
  const Result<ModelLocation> location = ResolveModel(flags.model, hub, display);
  display.Finish();
  if (!location.ok()) return location.status();
  PERGOLA_ASSIGN_OR_RETURN(const api::TextFiles files,
                           api::TextFiles::Open(location->path.string()));
  ServerBenchOptions options;
  PERGOLA_ASSIGN_OR_RETURN(options.text, files.MakeOwnText());
  options.servers.push_back(flags.server);
  if (!flags.api_key_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(options.servers[0].token, ReadKeyFile(flags.api_key_file));
  }
  if (!flags.against.url.empty()) options.servers.push_back(flags.against);
  for (BenchedServer& server : options.servers) {
    if (server.model.empty()) server.model = location->id;
  }
  options.loads = Loads(flags);
  options.seconds = std::chrono::duration<double>(flags.seconds);
  return options;
}

void PrintCell(const ServerBenchFlags& flags, const ServerBenchCell& cell) {
  const ServerLoad& load = cell.load;
  const auto length = static_cast<long long>(load.length);
  const auto batch = static_cast<long long>(load.batch);
  const auto requests = static_cast<long long>(cell.requests);
  const auto errors = static_cast<long long>(cell.errors);
  if (flags.json) {
    std::printf(
        "{\"url\":%s,\"mode\":%s,\"length\":%lld,\"batch\":%lld,\"clients\":%d,\"rate\":%.4g,"
        "\"ids\":%s,\"requests\":%lld,\"errors\":%lld,\"requests_per_s\":%.2f,"
        "\"tokens_per_s\":%.1f,\"ms_p50\":%.3f,\"ms_p90\":%.3f,\"ms_p99\":%.3f,\"ms_max\":%.3f,"
        "\"cosine\":%.7f}\n",
        JsonString(cell.url).c_str(), JsonString(flags.mode).c_str(), length, batch, load.clients,
        load.rate, load.ids ? "true" : "false", requests, errors, cell.requests_per_s,
        cell.tokens_per_s, cell.ms_p50, cell.ms_p90, cell.ms_p99, cell.ms_max, cell.least_cosine);
  } else {
    std::printf("%6lld %5lld %7d %8lld %6lld %10.1f %10.0f %9.2f %9.2f %9.2f %9.2f  %s\n", length,
                batch, load.clients, requests, errors, cell.requests_per_s, cell.tokens_per_s,
                cell.ms_p50, cell.ms_p90, cell.ms_p99, cell.ms_max, cell.url.c_str());
  }
  std::fflush(stdout);
}

// Throughput and latency of each cell, a line per server.
Status WritePlot(const std::string& path, size_t servers,
                 const std::vector<ServerBenchCell>& cells) {
  std::vector<std::string> places;
  PlotPanel throughput{"tokens/s (length x batch, clients)", {}};
  PlotPanel latency{"ms", {}};
  for (size_t i = 0; i < cells.size(); i += servers) {
    const ServerLoad& load = cells[i].load;
    places.push_back(std::to_string(load.length) + "x" + std::to_string(load.batch) + ", " +
                     std::to_string(load.clients));
  }
  for (size_t server = 0; server < servers && server < cells.size(); ++server) {
    const std::string& url = cells[server].url;
    PlotLine tokens{url, {}};
    PlotLine p50{"p50 " + url, {}};
    PlotLine p99{"p99 " + url, {}};
    for (size_t i = server; i < cells.size(); i += servers) {
      tokens.values.push_back(cells[i].tokens_per_s);
      p50.values.push_back(cells[i].ms_p50);
      p99.values.push_back(cells[i].ms_p99);
    }
    throughput.lines.push_back(std::move(tokens));
    latency.lines.push_back(std::move(p50));
    latency.lines.push_back(std::move(p99));
  }
  std::ofstream file(path, std::ios::binary);
  file << PlotSvg(places, {throughput, latency});
  file.close();
  return file.fail() ? InternalError("cannot write '" + path + "'") : OkStatus();
}

int RunBench(const ServerBenchFlags& flags) {
  const Result<ServerBenchOptions> options = Options(flags);
  if (!options.ok()) return Fail(options.status());
  if (!flags.json) {
    std::printf("%6s %5s %7s %8s %6s %10s %10s %9s %9s %9s %9s\n", "length", "batch", "clients",
                "requests", "errors", "requests/s", "tokens/s", "ms p50", "p90", "p99", "max");
  }
  std::vector<ServerBenchCell> cells;
  Status status = BenchServer(*options, [&](const ServerBenchCell& cell) {
    PrintCell(flags, cell);
    cells.push_back(cell);
  });
  if (status.ok() && !flags.plot.empty()) {
    status = WritePlot(flags.plot, options->servers.size(), cells);
  }
  return status.ok() ? static_cast<int>(kExitOk) : Fail(status);
}

void AddLoadFlags(CLI::App& command, ServerBenchFlags& flags) {
  std::vector<std::string> names;
  for (const auto& [name, bench_case] : kCases) names.push_back(name);
  command
      .add_option("--mode", flags.mode,
                  "In place of the next: a published case. online: one sequence of ids; scoring:\n"
                  "lists of 5, 25, 50; bulk: lists of 100 from four clients; concurrent: 1 to 16\n"
                  "clients")
      ->check(CLI::IsMember(names));
  command
      .add_option("--lengths", flags.lengths,
                  "Tokens of a text; what the model does not take is left out")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command.add_option("--batch", flags.batches, "Texts of a request")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536));
  command.add_option("--clients", flags.clients, "Clients at the same time")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--rate", flags.rate,
                  "Requests per second, answered or not (open loop; 0: each client waits for its\n"
                  "answer)")
      ->check(CLI::Range(0.0, 1e6));
  command.add_flag("--ids", flags.ids, "Send token ids in place of texts");
  command.add_option("--seconds", flags.seconds, "Time of a cell and server")
      ->check(CLI::Range(0.001, 3600.0));
}

}  // namespace

void AddBenchServer(CLI::App& bench, Run* run) {
  CLI::App* command =
      bench.add_subcommand("server", "Measure a running server over HTTP, alone or beside another");
  command->footer(
      "A line per cell, after its vectors have been compared. Any server with OpenAI's\n"
      "/v1/embeddings; --model is there for its tokenizer. Texts are distinct: no cache answers.\n"
      "  pergola bench server --url http://127.0.0.1:42666 --mode concurrent\n"
      "  pergola bench server --against http://127.0.0.1:8080 --lengths 128 --clients 1,32 --json");
  auto flags = std::make_shared<ServerBenchFlags>();
  command->add_option("-m,--model", flags->model, "Registry name, hub id, directory or .gguf file");
  command->add_option("--url", flags->server.url, "The server, without /v1")->capture_default_str();
  command->add_option("--name", flags->server.model, "What it calls the model (default: the same)");
  command->add_option("--api-key-file", flags->api_key_file, "File with the key that it wants");
  command->add_option("--against", flags->against.url, "Another server of the same model");
  command->add_option("--against-name", flags->against.model, "What that one calls the model");
  AddLoadFlags(*command, *flags);
  command->add_flag("--offline", flags->offline, "Fetch nothing");
  command->add_flag("--json", flags->json, "One JSON object per line");
  command->add_option("--plot", flags->plot, "Draw throughput and latency into this SVG file");
  command->callback([flags, run] { *run = [flags] { return RunBench(*flags); }; });
}

}  // namespace pergola::cli
