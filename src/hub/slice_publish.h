// Puts slices into a folder of repositories, as a hub or any web server can offer them:
//
//   OUT/slices.json               the list (slice_store.h), so that spares can fetch from a URL
//   OUT/<name>/README.md          the card
//   OUT/<name>/index.json, ...    the slice
//
//   PERGOLA_ASSIGN_OR_RETURN(PublishOutcome done, PublishSlice("slices/low", index, "out", card));
//   PERGOLA_RETURN_IF_ERROR(WriteSliceList("out"));
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "hub/slice_store.h"
#include "pergola/status.h"

namespace pergola::hub {

struct PublishOutcome {
  int64_t copied_bytes = 0;
  int64_t unchanged_bytes = 0;  // were there with the right SHA-256
};

// Copies the slice in `from`, whose index is `index`, to OUT/<index.slice.name>. Each file appears
// when its checksum is right, index.json last; what is there and right is left alone, so that a run
// that was interrupted is continued by another one. DATA_LOSS naming a file of `from` that is
// damaged, before anything is changed; FAILED_PRECONDITION: another model's slice is there;
// RESOURCE_EXHAUSTED: disk full.
Result<PublishOutcome> PublishSlice(const std::filesystem::path& from, const SliceIndex& index,
                                    const std::filesystem::path& out, const std::string& card);

// slices.json of what is in `out` now.
Status WriteSliceList(const std::filesystem::path& out);

}  // namespace pergola::hub
