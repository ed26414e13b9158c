// Who may ask a process for frames: who shows a key of its --api-key-file, as over HTTP, or the one
// of its --join-key-file, which is how a router does that it has joined.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto keys, FrameKeys::Read(api_key_file, join_key_file));
//   FrameServer::Start({.admits = keys->Admission([] { ++refused; })}, handler);
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/auth.h"
#include "pergola/status.h"

namespace pergola::cli {

// Thread-safe.
class FrameKeys {
 public:
  // Each of the files may be empty: none; without both everybody may ask. Errors as
  // gateway::ApiKeys::Load and ReadKeyFile.
  static Result<std::unique_ptr<FrameKeys>> Read(const std::string& api_key_file,
                                                 const std::string& join_key_file);

  bool any() const { return api_ != nullptr || join_ != nullptr; }
  // For grid::FrameServerOptions::admits; empty when everybody may ask. `refused` is called each
  // time that somebody may not, from any thread. This object must outlive it.
  std::function<bool(std::string_view key)> Admission(std::function<void()> refused) const;
  // Reads the --api-key-file again, for connections to come; the key that was joined with stays.
  // On an error all stays as it was.
  Status Reload();

 private:
  FrameKeys() = default;

  std::unique_ptr<gateway::ApiKeys> api_;
  std::unique_ptr<gateway::ApiKeys> join_;
};

}  // namespace pergola::cli
