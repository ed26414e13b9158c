// Joining a grid over gRPC (proto/pergola/v1/grid.proto): the router's side, and a server's.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto listener, GridListener::Start({.port = 42670}, registry));
//
//   GridLink link("10.0.0.1:42670", {.facts = facts, .load = [&] { return Load(); }});
//
//   PERGOLA_ASSIGN_OR_RETURN(auto assignment, SpareLink("10.0.0.1:42670", {}).Ask(spare));
//
// Members and their health alone: rows travel as frames (grid/frame.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pergola/status.h"
#include "rpc/server_tls.h"
#include "service/grid_registry.h"

namespace pergola::rpc {

struct GridListenerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  // Whether an `authorization` value may join; empty: everybody may. Thread-safe.
  std::function<bool(std::string_view authorization)> admits = {};
  LinkTls tls = {};  // without `cert`: none
  // Streams of Join; more are refused with RESOURCE_EXHAUSTED.
  size_t max_joins = 4096;
  // A stream that says nothing for so long is ended with DEADLINE_EXCEEDED, announced or not. A
  // peer that is gone without a word is noticed by the pings of the connection within that, too.
  std::chrono::milliseconds silence = std::chrono::seconds(10);
};

// Thread-safe.
class GridListener {
 public:
  // `registry` must outlive it. UNAVAILABLE: the address is in use or wrong, or the TLS texts are.
  static Result<std::unique_ptr<GridListener>> Start(const GridListenerOptions& options,
                                                     service::GridRegistry& registry);
  // Ends all memberships.
  ~GridListener();

  int port() const;
  // As ServerTls::Renew; OK where there is no TLS.
  Status RenewTls(const LinkTls& tls);

 private:
  struct State;
  explicit GridListener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct GridLinkOptions {
  service::GridMemberFacts facts;
  std::string key;  // empty: none
  LinkTls tls = {};
  std::function<service::GridLoad()> load;  // asked at every beat
  std::chrono::milliseconds beat = std::chrono::seconds(1);
  // Told when it has joined (OK) or is no member (why not), once per change; called on the link's
  // thread. May be empty.
  std::function<void(const Status&)> changed;
};

// A membership that is kept up: joins, beats, and joins again when the router was away.
// Thread-safe.
class GridLink {
 public:
  // `target`: host:port of the router's GridListener, which need not be there yet.
  GridLink(const std::string& target, GridLinkOptions options);
  // Says that it leaves; waits at most a second for the router to hear it.
  ~GridLink();

  // For the next time that it joins; the membership that stands goes on. A text that is no PEM is
  // told by `changed`, as a router that cannot be reached.
  void RenewTls(const LinkTls& tls);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A spare's side. Thread-safe.
class SpareLink {
 public:
  // `key`: empty: none.
  SpareLink(const std::string& target, std::string key, const LinkTls& tls = {});
  ~SpareLink();

  // Waits at most 6 s. UNAVAILABLE: no router there; else what it says (grid.proto).
  Result<std::optional<service::GridAssignment>> Ask(const service::GridSpare& spare) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pergola::rpc
