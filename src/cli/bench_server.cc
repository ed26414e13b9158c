#include "cli/bench_server.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "cli/bench_texts.h"
#include "core/json_text.h"
#include "gateway/json_reader.h"
#include "hub/http_session.h"
#include "service/scores.h"

namespace pergola::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Rows = std::vector<std::vector<float>>;
using gateway::JsonKind;
using gateway::JsonValue;

constexpr double kLeastCosine = 0.999;
constexpr char kPath[] = "/v1/embeddings";
constexpr char kJson[] = "application/json";

std::string NameOf(const ServerLoad& load) {
  return "length " + std::to_string(load.length) + ", batch " + std::to_string(load.batch) +
         ", clients " + std::to_string(load.clients);
}

hub::HttpOptions HttpOptionsOf(const BenchedServer& server) {
  hub::HttpOptions options;
  options.token = server.token;
  options.stall_timeout = std::chrono::minutes(10);
  return options;
}

// Texts `first` and those that follow.
Result<std::string> MakeBody(const BenchedServer& server, const BenchTexts& texts,
                             const ServerLoad& load, uint64_t first) {
  std::string body = "{\"model\":" + JsonString(server.model) + ",\"input\":[";
  for (uint64_t index = first; index < first + static_cast<uint64_t>(load.batch); ++index) {
    if (index > first) body += ',';
    if (!load.ids) {
      body += JsonString(texts.Text(index, load.length));
      continue;
    }
    PERGOLA_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, texts.Ids(index, load.length));
    for (size_t i = 0; i < ids.size(); ++i) body += (i == 0 ? "[" : ",") + std::to_string(ids[i]);
    body += ']';
  }
  return body + "]}";
}

bool ReadNumbers(JsonValue list, std::vector<float>* numbers) {
  bool right = list.is(JsonKind::kArray);
  if (!right) return false;
  list.EachItem([&](size_t, JsonValue item) {
    right = item.is(JsonKind::kNumber) || item.is(JsonKind::kInteger);
    if (!right) return false;
    numbers->push_back(static_cast<float>(
        item.is(JsonKind::kNumber) ? item.number() : static_cast<double>(item.integer())));
    return true;
  });
  return right && !numbers->empty();
}

// An item of "data" into its place.
bool ReadItem(JsonValue item, Rows* rows) {
  if (!item.is(JsonKind::kObject)) return false;
  int64_t index = -1;
  std::vector<float> numbers;
  bool right = true;
  item.EachField([&](std::string_view key, JsonValue value) {
    if (key == "index" && value.is(JsonKind::kInteger)) index = value.integer();
    if (key == "embedding") right = ReadNumbers(value, &numbers);
    return true;
  });
  if (!right || index < 0 || index >= static_cast<int64_t>(rows->size())) return false;
  (*rows)[static_cast<size_t>(index)] = std::move(numbers);
  return true;
}

// The vectors of an answer. INTERNAL: it has not `count` of one width.
Result<Rows> ReadRows(std::string answer, int64_t count) {
  PERGOLA_ASSIGN_OR_RETURN(const auto document, gateway::JsonDocument::Parse(std::move(answer)));
  Rows rows(static_cast<size_t>(count));
  bool right = document->root().is(JsonKind::kObject);
  if (right) {
    document->root().EachField([&](std::string_view key, JsonValue value) {
      if (key != "data" || !value.is(JsonKind::kArray)) return true;
      value.EachItem(
          [&](size_t, JsonValue item) { return right = right && ReadItem(item, &rows); });
      return true;
    });
  }
  for (const std::vector<float>& row : rows) {
    right = right && !row.empty() && row.size() == rows[0].size();
  }
  if (!right) {
    return InternalError("the answer does not have " + std::to_string(count) + " embeddings");
  }
  return rows;
}

Result<Rows> Embed(hub::HttpSession& session, const BenchedServer& server, const BenchTexts& texts,
                   const ServerLoad& load, uint64_t first) {
  PERGOLA_ASSIGN_OR_RETURN(const std::string body, MakeBody(server, texts, load, first));
  PERGOLA_ASSIGN_OR_RETURN(const std::string_view answer, session.Post(kPath, kJson, body));
  return ReadRows(std::string(answer), load.batch);
}

// What one server did in one cell.
struct Measured {
  std::vector<double> seconds;  // of each answer
  int64_t errors = 0;
  Status last_error;
  double elapsed = 0;
};

// A server still knows the texts of an earlier run: each begins somewhere else.
uint64_t SomewhereElse() {
  std::random_device device;
  return uint64_t{device()} << 24;
}

class ServerBench {
 public:
  ServerBench(const ServerBenchOptions& options, BenchTexts texts)
      : options_(options), texts_(std::move(texts)) {}

  Result<double> Check(const ServerLoad& load);
  // For half of the options' time.
  Status Measure(const BenchedServer& server, const ServerLoad& load, Measured* measured);

 private:
  // Sends what is due until `end`.
  Status RunClient(const BenchedServer& server, const ServerLoad& load, Clock::time_point begin,
                   std::atomic<int64_t>* arrivals, Measured* measured);

  const ServerBenchOptions& options_;
  const BenchTexts texts_;
  std::atomic<uint64_t> next_text_ = SomewhereElse();  // each is sent once
};

Result<double> ServerBench::Check(const ServerLoad& load) {
  PERGOLA_RETURN_IF_ERROR(texts_.Check(load.length));
  const auto count = static_cast<uint64_t>(load.batch);
  const uint64_t first = next_text_.fetch_add(count);
  hub::HttpSession session(options_.servers[0].url, HttpOptionsOf(options_.servers[0]));
  PERGOLA_ASSIGN_OR_RETURN(const Rows rows,
                           Embed(session, options_.servers[0], texts_, load, first));
  Rows others;
  if (options_.servers.size() > 1) {
    hub::HttpSession other(options_.servers[1].url, HttpOptionsOf(options_.servers[1]));
    PERGOLA_ASSIGN_OR_RETURN(others, Embed(other, options_.servers[1], texts_, load, first));
  } else {
    ServerLoad alone = load;
    alone.batch = 1;
    for (uint64_t index = first; index < first + count; ++index) {
      PERGOLA_ASSIGN_OR_RETURN(Rows one, Embed(session, options_.servers[0], texts_, alone, index));
      others.push_back(std::move(one[0]));
    }
  }
  double least = 1;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() != others[i].size()) {
      return InternalError("vectors of " + std::to_string(rows[i].size()) + " and of " +
                           std::to_string(others[i].size()) + " numbers");
    }
    const double cosine = service::Cosine(rows[i], others[i]);
    if (!(cosine >= kLeastCosine)) {
      return InternalError("vectors of text " + std::to_string(i) + " differ, their cosine is " +
                           std::to_string(cosine));
    }
    least = std::min(least, cosine);
  }
  return least;
}

Status ServerBench::RunClient(const BenchedServer& server, const ServerLoad& load,
                              Clock::time_point begin, std::atomic<int64_t>* arrivals,
                              Measured* measured) {
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(options_.seconds / 2);
  hub::HttpSession session(server.url, HttpOptionsOf(server));
  bool first = true;
  while (true) {
    const uint64_t text = next_text_.fetch_add(static_cast<uint64_t>(load.batch));
    PERGOLA_ASSIGN_OR_RETURN(const std::string body, MakeBody(server, texts_, load, text));
    Clock::time_point due = Clock::now();
    if (load.rate > 0) {
      due = begin + std::chrono::duration_cast<Clock::duration>(
                        Seconds(static_cast<double>(arrivals->fetch_add(1)) / load.rate));
      if (due >= end) return OkStatus();
      std::this_thread::sleep_until(due);
    } else if (due >= end && !first) {
      return OkStatus();
    }
    first = false;
    const Result<std::string_view> answer = session.Post(kPath, kJson, body);
    if (answer.ok()) {
      measured->seconds.push_back(Seconds(Clock::now() - due).count());
    } else {
      ++measured->errors;
      measured->last_error = answer.status();
    }
  }
}

Status ServerBench::Measure(const BenchedServer& server, const ServerLoad& load,
                            Measured* measured) {
  std::vector<Measured> each(static_cast<size_t>(load.clients));
  std::vector<Status> statuses(each.size());
  std::vector<std::thread> clients;
  std::atomic<int64_t> arrivals = 0;
  const Clock::time_point begin = Clock::now();
  for (size_t client = 0; client < each.size(); ++client) {
    clients.emplace_back([&, client] {
      statuses[client] = RunClient(server, load, begin, &arrivals, &each[client]);
    });
  }
  for (std::thread& client : clients) client.join();
  measured->elapsed += Seconds(Clock::now() - begin).count();
  for (size_t client = 0; client < each.size(); ++client) {
    PERGOLA_RETURN_IF_ERROR(statuses[client]);
    measured->errors += each[client].errors;
    if (each[client].errors > 0) measured->last_error = each[client].last_error;
    measured->seconds.insert(measured->seconds.end(), each[client].seconds.begin(),
                             each[client].seconds.end());
  }
  return OkStatus();
}

ServerBenchCell CellOf(const BenchedServer& server, const ServerLoad& load, Measured measured) {
  ServerBenchCell cell;
  cell.url = server.url;
  cell.load = load;
  cell.requests = static_cast<int64_t>(measured.seconds.size());
  cell.errors = measured.errors;
  if (measured.seconds.empty()) return cell;
  cell.requests_per_s = static_cast<double>(cell.requests) / measured.elapsed;
  cell.tokens_per_s = cell.requests_per_s * static_cast<double>(load.length * load.batch);
  std::sort(measured.seconds.begin(), measured.seconds.end());
  const auto ms_at = [&](double share) {
    const auto rank = std::ceil(share * static_cast<double>(measured.seconds.size()));
    return measured.seconds[static_cast<size_t>(std::max(rank, 1.0)) - 1] * 1e3;
  };
  cell.ms_p50 = ms_at(0.5);
  cell.ms_p90 = ms_at(0.9);
  cell.ms_p99 = ms_at(0.99);
  cell.ms_max = ms_at(1);
  return cell;
}

}  // namespace

std::vector<ServerLoad> LoadsOf(BenchCase bench_case) {
  std::vector<ServerLoad> loads;
  switch (bench_case) {
    case BenchCase::kOnline:
      for (const int64_t length : {128, 512, 4096}) loads.push_back({length, 1, 1, true});
      break;
    case BenchCase::kScoring:
      for (const int64_t batch : {5, 25, 50}) loads.push_back({512, batch, 1});
      break;
    case BenchCase::kBulk:
      for (const int64_t length : {512, 1024, 4096}) loads.push_back({length, 100, 4});
      break;
    case BenchCase::kConcurrent:
      for (const int clients : {1, 2, 4, 8, 16}) loads.push_back({512, 1, clients});
      break;
  }
  return loads;
}

Status BenchServer(const ServerBenchOptions& options,
                   const std::function<void(const ServerBenchCell& cell)>& report) {
  PERGOLA_ASSIGN_OR_RETURN(BenchTexts texts, BenchTexts::Make(options.text));
  const int64_t shortest = texts.shortest();
  const int64_t longest = texts.longest();
  ServerBench bench(options, std::move(texts));
  for (const ServerLoad& load : options.loads) {
    if (load.length < shortest || load.length > longest) continue;
    const Result<double> cosine = bench.Check(load);
    if (!cosine.ok()) return cosine.status().WithContext(NameOf(load));
    std::vector<Measured> measured(options.servers.size());
    for (int round = 0; round < 2; ++round) {
      for (size_t server = 0; server < measured.size(); ++server) {
        PERGOLA_RETURN_IF_ERROR(bench.Measure(options.servers[server], load, &measured[server]));
      }
    }
    for (size_t server = 0; server < measured.size(); ++server) {
      // The last error says more than a row of zeros.
      if (measured[server].seconds.empty() && measured[server].errors > 0) {
        return measured[server].last_error;
      }
      ServerBenchCell cell = CellOf(options.servers[server], load, std::move(measured[server]));
      cell.least_cosine = *cosine;
      report(cell);
    }
  }
  return OkStatus();
}

}  // namespace pergola::cli
