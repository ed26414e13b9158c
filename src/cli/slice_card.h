// The README of a published slice: what it is a part of, and how to serve it.
#pragma once

#include <string>

#include "formats/slice.h"
#include "hub/slice_store.h"

namespace pergola::cli {

// `base`: the model on the hub, "google/gemma-3-270m"; empty: as the slice calls it. Markdown with
// a YAML head, as hubs read it.
std::string SliceCard(const formats::SliceFacts& facts, const hub::SliceIndex& index,
                      const std::string& base);

// "gemma-3-270m-ffn-0-8": of the folder that a slice is published in.
std::string PublishedName(const formats::SliceFacts& facts);

}  // namespace pergola::cli
