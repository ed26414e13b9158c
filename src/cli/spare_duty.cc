#include "cli/spare_duty.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cli/whole_file.h"
#include "hub/slice_store.h"

namespace pergola::cli {
namespace {

constexpr std::chrono::milliseconds kAskPeriod{500};

// A slice that holds some of what is missing, and the layers of it that are.
struct Candidate {
  hub::OfferedSlice slice;
  models::LayerRange layers = {0, -1};
};

// The one that covers the assignment from its beginning on, or the most of it.
std::optional<Candidate> Choose(const std::vector<hub::OfferedSlice>& offered,
                                const service::GridAssignment& wanted) {
  std::optional<Candidate> best;
  for (const hub::OfferedSlice& slice : offered) {
    if (slice.identity != wanted.identity || slice.part != (wanted.embed ? "embed" : "ffn")) {
      continue;
    }
    if (wanted.embed) return Candidate{slice};
    const Candidate each{slice,
                         {std::max(slice.first_layer, wanted.first_layer),
                          std::min(slice.last_layer, wanted.last_layer)}};
    if (each.layers.size() <= 0) continue;
    const bool better =
        !best || each.layers.first < best->layers.first ||
        (each.layers.first == best->layers.first && each.layers.last > best->layers.last);
    if (better) best = each;
  }
  return best;
}

std::string LayersText(const models::LayerRange& layers) {
  return std::to_string(layers.first) + "-" + std::to_string(layers.last);
}

std::string PartText(const service::GridAssignment& assignment) {
  if (assignment.embed) return "the embedding table";
  return "the feed-forward layers " + LayersText({assignment.first_layer, assignment.last_layer});
}

// Differs between any two spares.
std::string MakeName() {
  std::random_device random;
  char text[64];
  std::snprintf(text, sizeof text, "%d-%08x%08x", static_cast<int>(getpid()), random(), random());
  return text;
}

}  // namespace

SpareDuty::SpareDuty(const PartServerFlags& flags) : flags_(flags), name_(MakeName()) {}

Result<std::unique_ptr<SpareDuty>> SpareDuty::Make(const PartServerFlags& flags) {
  if (flags.part.join.empty() || flags.part.store.empty()) {
    return InvalidArgumentError("--spare needs --join and --store");
  }
  std::unique_ptr<SpareDuty> duty(new SpareDuty(flags));
  if (!flags.part.source_key_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(duty->source_key_, ReadKeyFile(flags.part.source_key_file));
  }
  PERGOLA_RETURN_IF_ERROR(duty->Connect());
  return duty;
}

Status SpareDuty::Connect() {
  std::string key;
  if (!flags_.part.join_key_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(key, ReadKeyFile(flags_.part.join_key_file));
  }
  PERGOLA_ASSIGN_OR_RETURN(const GridTls tls, ReadPartTls(flags_));
  router_ = std::make_unique<rpc::SpareLink>(flags_.part.join, std::move(key), tls.client_link);
  return OkStatus();
}

SpareDuty::~SpareDuty() {
  keeper_.reset();
  if (router_ != nullptr) (void)router_->Ask({name_, "", true}).ok();
}

Result<std::shared_ptr<grid::PartService>> SpareDuty::TakeOver(
    const service::GridAssignment& assignment) {
  std::vector<std::string> bases = flags_.part.sources;
  const size_t named = bases.size();  // by the operator: the others are what members announce
  bases.insert(bases.end(), assignment.sources.begin(), assignment.sources.end());
  std::string failed;
  for (size_t index = 0; index < bases.size(); ++index) {
    const std::string& base = bases[index];
    if (index >= named && !hub::IsHttpUrl(base)) {
      failed += "; " + base + ": a member announces it, and it is no http:// or https:// URL";
      continue;
    }
    const hub::SliceSource source(base, {.token = index < named ? source_key_ : std::string(),
                                         .ca_file = flags_.part.source_ca});
    const auto offered = source.List();
    const auto candidate = offered.ok() ? Choose(*offered, assignment) : std::optional<Candidate>();
    if (!candidate) {
      failed += "; " + base + ": " + (offered.ok() ? "it has none" : offered.status().message());
      continue;
    }
    std::fprintf(stderr, "fetching %s from %s\n", candidate->slice.name.c_str(), base.c_str());
    const auto folder = source.Fetch(candidate->slice, flags_.part.store);
    if (!folder.ok()) {
      failed += "; " + base + ": " + folder.status().message();
      continue;
    }
    PartServerFlags flags = flags_;
    flags.model = folder->string();
    flags.part.role = assignment.embed ? "embed" : "ffn";
    flags.part.layers = assignment.embed ? "" : LayersText(candidate->layers);
    auto part = LoadPart(flags);
    if (part.ok() && (*part)->facts().numeric_class == assignment.numeric_class) return part;
    failed += "; " + base + ": " +
              (!part.ok() ? part.status().message()
                          : "its numeric class here is '" + (*part)->facts().numeric_class +
                                "', this grid's is '" + assignment.numeric_class + "'");
  }
  return NotFoundError("no source has a slice of it that serves" + failed);
}

Result<std::shared_ptr<grid::PartService>> SpareDuty::AwaitPart() {
  std::fprintf(stderr, "spare of the grid of %s, waiting for a part\n", flags_.part.join.c_str());
  std::string failed;  // not told to the router yet
  std::string told;    // the last complaint: it is not made again and again
  const auto tell = [&](const std::string& complaint) {
    if (std::exchange(told, complaint) == complaint) return;
    std::fprintf(stderr, "pergola: %s\n", complaint.c_str());
  };
  for (;; std::this_thread::sleep_for(kAskPeriod)) {
    const auto asked = router_->Ask({name_, std::exchange(failed, ""), false});
    if (!asked.ok()) {
      tell("the router does not answer: " + asked.status().message());
      if (const Status status = Connect(); !status.ok()) tell(status.message());
    }
    if (!asked.ok() || !*asked) continue;
    // Keeps the assignment.
    keeper_ = std::make_unique<Periodic>(kAskPeriod, [this] {
      (void)router_->Ask({name_, "", false}).ok();
    });
    auto part = TakeOver(**asked);
    if (part.ok()) return part;
    keeper_.reset();
    failed = part.status().message();
    tell("cannot take over " + PartText(**asked) + ": " + failed);
  }
}

}  // namespace pergola::cli
