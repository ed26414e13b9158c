// How fast a server answers over HTTP, cell by cell: so many clients that send lists of so many
// texts of so many tokens. Alone, or beside another server in the same run.
//
//   PERGOLA_RETURN_IF_ERROR(BenchServer(options, [](const ServerBenchCell& cell) { ... }));
//
// Any server that answers OpenAI's POST /v1/embeddings. Texts are distinct from request to request,
// so that no cache answers. Before a cell's time counts the vectors are compared: with the other
// server's, or with those of the same texts sent one by one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pergola/status.h"
#include "text/text_model.h"

namespace pergola::cli {

struct BenchedServer {
  std::string url;    // "http://127.0.0.1:42666", without /v1/embeddings
  std::string model;  // as the server calls it
  std::string token;  // of Authorization: Bearer; empty: none
};

// What is sent how.
struct ServerLoad {
  int64_t length = 128;  // tokens of a text, special tokens included
  int64_t batch = 1;     // texts of a request
  int clients = 1;
  bool ids = false;  // sends token ids in place of texts
  // Requests per second, whether answered or not (open loop): latencies then count from when a
  // request was due, and `clients` is how many can be open. 0: each client sends its next one when
  // it has its answer.
  double rate = 0;
};

// The cases of published benchmarks of GPU servers.
enum class BenchCase { kOnline, kScoring, kBulk, kConcurrent };
std::vector<ServerLoad> LoadsOf(BenchCase bench_case);

struct ServerBenchOptions {
  std::vector<BenchedServer> servers;           // one or two
  std::shared_ptr<const text::TextModel> text;  // of their model. Second owner: the caller
  std::vector<ServerLoad> loads;
  std::chrono::duration<double> seconds{5};  // of a cell and server, after warming up
};

struct ServerBenchCell {
  std::string url;
  ServerLoad load;
  int64_t requests = 0;
  int64_t errors = 0;  // not among the rest
  double requests_per_s = 0;
  double tokens_per_s = 0;
  double ms_p50 = 0, ms_p90 = 0, ms_p99 = 0, ms_max = 0;
  double least_cosine = 0;  // of the comparison before
};

// Calls `report` for each load and server. Of two servers each is measured twice in turns, so that
// a machine that changes changes for both. Lengths that the model does not take are left out.
// Errors: UNAVAILABLE when a server does not answer, INTERNAL when vectors differ by more than
// 0.1 % cosine or an answer is not what was asked for, naming the cell.
Status BenchServer(const ServerBenchOptions& options,
                   const std::function<void(const ServerBenchCell& cell)>& report);

}  // namespace pergola::cli
