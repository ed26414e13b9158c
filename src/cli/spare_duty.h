// A server without a part: waits until the router says which one nobody serves, brings its slice
// here and loads it.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto duty, SpareDuty::Make(flags));
//   PERGOLA_ASSIGN_OR_RETURN(auto part, duty->AwaitPart());
//   ... join as its owner ...
//   duty.reset();                      // not before: until then nobody else is given the part
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "cli/serve_part.h"
#include "core/periodic.h"
#include "grid/part_service.h"
#include "pergola/status.h"
#include "rpc/grid_link.h"

namespace pergola::cli {

// Used by one thread at a time.
class SpareDuty {
 public:
  // INVALID_ARGUMENT: flags that a spare needs are missing; errors of the key files.
  static Result<std::unique_ptr<SpareDuty>> Make(const PartServerFlags& flags);
  // Tells the router that it is no spare any more.
  ~SpareDuty();

  // Blocks until there is a part and it is loaded; the assignment is kept until the duty ends. What
  // goes wrong is told on stderr and to the router, and it goes on waiting.
  Result<std::shared_ptr<grid::PartService>> AwaitPart();

 private:
  explicit SpareDuty(const PartServerFlags& flags);
  // To the router, with key and certificates as their files are now.
  Status Connect();
  Result<std::shared_ptr<grid::PartService>> TakeOver(const service::GridAssignment& assignment);

  const PartServerFlags flags_;
  std::string source_key_;
  std::string name_;
  std::unique_ptr<rpc::SpareLink> router_;
  std::unique_ptr<Periodic> keeper_;  // asks for the assignment while it lives
};

}  // namespace pergola::cli
