// `pergola serve --role ...`: one part of a language model, answering frames, and an embed
// part HTTP too. With --join it is a member of a grid, with --spare one that waits for its part.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/grid_tls.h"
#include "gateway/http_server.h"
#include "grid/part_service.h"

namespace pergola::cli {

struct PartFlags {
  std::string role;           // "embed" or "ffn"; empty: the whole model over HTTP
  std::string layers;         // of ffn, "first-last"; empty: all in the files
  int frame_port = 42667;     // 0: any free one
  std::string join;           // host:port of a router; empty: none
  std::string join_key_file;  // its first line is the key; empty: none
  std::string announce;       // host of the URL that the router is told; empty: the one listened on
  bool verify = false;        // read every byte of a slice first and compare its checksums
  std::string join_ca;        // authorities of the router's certificate; empty: no TLS
  std::string client_ca;      // authorities of who asks for frames; empty: no certificate needed
  std::string share;          // folder of slices that others may fetch over HTTP; empty: none
  // No model: waits for the router to say which part nobody serves, fetches and serves it.
  bool spare = false;
  std::string store;                 // folder that a spare keeps slices in
  std::vector<std::string> sources;  // folders or URLs of slices, before those of the members
  std::string source_ca;             // authorities of https sources; empty: the system's
  std::string source_key_file;       // its first line is the key of the sources; empty: none
};

struct PartServerFlags {
  PartFlags part;
  std::string model;
  gateway::HttpServerOptions http;  // of an embed part; the first of its hosts is the frames' too
  bool offline = false;
  int threads = 0;
  bool reference = false;  // quantised weights are widened
  double drain_timeout_s = 30;
};

// Certificates of the flags: --tls-cert and --tls-key are the frames' and those to join with, too.
Result<GridTls> ReadPartTls(const PartServerFlags& flags);

// The part that the flags name. `display` of a pull on stderr.
Result<std::shared_ptr<grid::PartService>> LoadPart(const PartServerFlags& flags);

// Serves until a stop signal; an exit code. SIGHUP rereads the HTTP routes' keys. Prints what it
// holds and its address on stderr.
int ServePart(const PartServerFlags& flags);

}  // namespace pergola::cli
