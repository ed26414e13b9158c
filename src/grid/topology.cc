#include "grid/topology.h"

#include <algorithm>
#include <utility>

#include "core/json_text.h"
#include "grid/frame_connection.h"
#include "grid/mismatch.h"

namespace pergola::grid {
namespace {

using service::GridMemberFacts;

constexpr int64_t kMostLayers = 65536;
constexpr int64_t kMostWidth = int64_t{1} << 20;
constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr size_t kMostText = 1000;

bool IsIdentity(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Status CheckFacts(const GridMemberFacts& facts) {
  if (!IsIdentity(facts.identity)) {
    return InvalidArgumentError("an identity has 64 hexadecimal digits");
  }
  if (facts.url.empty() || std::max({facts.url.size(), facts.model.size(), facts.slices_url.size(),
                                     facts.numeric_class.size(), facts.key.size()}) > kMostText) {
    return InvalidArgumentError("a member has a URL, and no text over " +
                                std::to_string(kMostText) + " bytes");
  }
  if (!facts.slices_url.empty() && !facts.slices_url.starts_with("http://") &&
      !facts.slices_url.starts_with("https://")) {
    return InvalidArgumentError(facts.url + " shares slices at '" + facts.slices_url +
                                "', which is no http:// or https:// URL");
  }
  if (!facts.embed && !facts.head && !facts.ffn) {
    return InvalidArgumentError(facts.url + " states no capability: embed, head or ffn");
  }
  if (facts.num_layers < 1 || facts.num_layers > kMostLayers || facts.hidden_size < 1 ||
      facts.hidden_size > kMostWidth || facts.vocab_size < 1 || facts.vocab_size > kMostTokens) {
    return InvalidArgumentError(facts.url + " states " + std::to_string(facts.num_layers) +
                                " layers of width " + std::to_string(facts.hidden_size) +
                                " and a vocabulary of " + std::to_string(facts.vocab_size));
  }
  const bool range = facts.first_layer >= 0 && facts.first_layer <= facts.last_layer &&
                     facts.last_layer < facts.num_layers;
  if (!facts.ffn || range) return OkStatus();
  return InvalidArgumentError(facts.url + " states layers " + std::to_string(facts.first_layer) +
                              "-" + std::to_string(facts.last_layer) + " of " +
                              std::to_string(facts.num_layers));
}

bool Answers(const GridMemberFacts& facts, FrameKind kind, int64_t layer) {
  switch (kind) {
    case FrameKind::kEmbed:
    case FrameKind::kEncode:
    case FrameKind::kDecode:
      return facts.embed;
    case FrameKind::kLogits:
    case FrameKind::kTop:
      return facts.head;
    case FrameKind::kFfn:
      return facts.ffn && facts.first_layer <= layer && layer <= facts.last_layer;
    default:
      return false;
  }
}

bool Any(const MemberList& members, FrameKind kind, int64_t layer) {
  return std::any_of(members.begin(), members.end(),
                     [&](const MemberPtr& member) { return Answers(member->facts, kind, layer); });
}

// `model`: null when nobody has joined yet.
std::string MissingOf(const MemberList& members, const GridMemberFacts* model) {
  if (model == nullptr) return "all: no server has joined";
  std::string missing;
  const auto add = [&](const std::string& what) {
    missing += (missing.empty() ? "" : ", ") + what;
  };
  if (!Any(members, FrameKind::kEmbed, 0)) add("the embedding table");
  if (!Any(members, FrameKind::kTop, 0)) add("the projection");
  bool first = true;
  for (int64_t layer = 0; layer < model->num_layers; ++layer) {
    if (Any(members, FrameKind::kFfn, layer)) continue;
    add((first ? "feed-forward layers " : "") + std::to_string(layer));
    first = false;
  }
  return missing;
}

// What spares could take, the table first.
std::vector<Gap> GapsOf(const MemberList& members, const GridMemberFacts& model) {
  std::vector<Gap> gaps;
  if (!Any(members, FrameKind::kEmbed, 0) || !Any(members, FrameKind::kTop, 0)) {
    gaps.push_back({.embed = true});
  }
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    if (Any(members, FrameKind::kFfn, layer)) continue;
    if (gaps.empty() || gaps.back().embed || gaps.back().last + 1 != layer) {
      gaps.push_back({.first = layer, .last = layer});
    }
    gaps.back().last = layer;
  }
  return gaps;
}

// Spreads successive numbers over all bits (splitmix64).
uint64_t Scatter(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

std::string MemberJson(Member& member) {
  const GridMemberFacts& facts = member.facts;
  std::string capabilities;
  const auto add = [&](bool has, const char* name) {
    if (has) capabilities += (capabilities.empty() ? "\"" : ",\"") + std::string(name) + "\"";
  };
  add(facts.embed, "embed");
  add(facts.head, "head");
  add(facts.ffn, "ffn");
  std::string out = "{\"id\":" + std::to_string(member.id) + ",\"url\":" + JsonString(facts.url) +
                    ",\"capabilities\":[" + capabilities + "]";
  if (facts.ffn) {
    out += ",\"layers\":[" + std::to_string(facts.first_layer) + "," +
           std::to_string(facts.last_layer) + "]";
  }
  out += ",\"in_flight\":" + std::to_string(member.in_flight.load()) +
         ",\"calls\":" + std::to_string(member.calls.load()) +
         ",\"failures\":" + std::to_string(member.failures.load());
  const std::lock_guard lock(member.mutex);
  return out + ",\"load\":{\"in_flight\":" + std::to_string(member.load.in_flight) +
         ",\"requests\":" + std::to_string(member.load.requests) +
         ",\"memory_bytes\":" + std::to_string(member.load.memory_bytes) + "}}";
}

}  // namespace

// Under the mutex.
Status Topology::CheckSame(const GridMemberFacts& facts) const {
  if (model_ == nullptr) return OkStatus();
  const GridMemberFacts& ours = *model_;
  if (facts.identity != ours.identity) {
    return MismatchError(facts.url, "identity", facts.identity, "this grid's", ours.identity);
  }
  if (facts.numeric_class != ours.numeric_class) {
    return MismatchError(facts.url, "numeric class", facts.numeric_class, "this grid's",
                         ours.numeric_class);
  }
  if (facts.num_layers == ours.num_layers && facts.hidden_size == ours.hidden_size &&
      facts.vocab_size == ours.vocab_size) {
    return OkStatus();
  }
  return InvalidArgumentError(facts.url + ": its sizes are not those of its identity");
}

Result<uint64_t> Topology::Add(const GridMemberFacts& facts) {
  PERGOLA_RETURN_IF_ERROR(CheckFacts(facts));
  if (options_.needs_tls && !facts.url.starts_with(kTlsScheme)) {
    return InvalidArgumentError(facts.url +
                                " is without TLS, which the router's --member-ca wants");
  }
  const std::lock_guard lock(mutex_);
  PERGOLA_RETURN_IF_ERROR(CheckSame(facts));
  auto members = std::make_shared<MemberList>(*members_);
  std::erase_if(*members, [&](const MemberPtr& each) { return each->facts.url == facts.url; });
  if (members->size() >= options_.max_members) {
    return ResourceExhaustedError("the grid has " + std::to_string(members->size()) +
                                  " members, which is its limit");
  }
  auto member = std::make_shared<Member>(next_id_++, facts);
  member->load.memory_bytes = facts.memory_bytes;
  member->last_beat = std::chrono::steady_clock::now();
  members->push_back(member);
  members_ = std::move(members);
  if (model_ == nullptr) model_ = std::make_shared<const GridMemberFacts>(facts);
  return member->id;
}

Status Topology::Beat(uint64_t id, const service::GridLoad& load) {
  const std::shared_ptr<const MemberList> all = members();
  for (const MemberPtr& member : *all) {
    if (member->id != id) continue;
    const std::lock_guard lock(member->mutex);
    member->load = load;
    member->last_beat = std::chrono::steady_clock::now();
    return OkStatus();
  }
  return NotFoundError("member " + std::to_string(id) + " was evicted or replaced");
}

void Topology::Remove(uint64_t id) {
  const std::lock_guard lock(mutex_);
  auto members = std::make_shared<MemberList>(*members_);
  std::erase_if(*members, [&](const MemberPtr& each) { return each->id == id; });
  members_ = std::move(members);
}

size_t Topology::Evict(SteadyTime now) {
  const std::lock_guard lock(mutex_);
  auto members = std::make_shared<MemberList>(*members_);
  const size_t evicted = std::erase_if(*members, [&](const MemberPtr& each) {
    const std::lock_guard member_lock(each->mutex);
    return now - each->last_beat > options_.silence;
  });
  if (evicted > 0) members_ = std::move(members);
  return evicted;
}

std::shared_ptr<const MemberList> Topology::members() const {
  const std::lock_guard lock(mutex_);
  return members_;
}

std::shared_ptr<const GridMemberFacts> Topology::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

MemberPtr Topology::Pick(FrameKind kind, int64_t layer, std::span<const MemberPtr> tried,
                         size_t* others) const {
  const std::shared_ptr<const MemberList> all = members();
  const SteadyTime now = std::chrono::steady_clock::now();
  std::vector<const MemberPtr*> able, shunned;
  for (const MemberPtr& member : *all) {
    const bool new_one = std::find(tried.begin(), tried.end(), member) == tried.end();
    if (!new_one || !Answers(member->facts, kind, layer)) continue;
    (now < member->shunned_until.load() ? shunned : able).push_back(&member);
  }
  if (others != nullptr) *others = std::max<size_t>(1, able.size() + shunned.size()) - 1;
  if (able.empty()) able.swap(shunned);
  if (able.empty()) return nullptr;
  const uint64_t draw = Scatter(draws_.fetch_add(1, std::memory_order_relaxed));
  const MemberPtr& a = *able[draw % able.size()];
  const MemberPtr& b = *able[(draw >> 32) % able.size()];
  return b->in_flight < a->in_flight ? b : a;
}

Result<std::optional<service::GridAssignment>> Topology::Assign(const service::GridSpare& spare) {
  if (spare.name.empty() || spare.name.size() > kMostText) {
    return InvalidArgumentError("a spare has a name of at most " + std::to_string(kMostText) +
                                " bytes");
  }
  const std::lock_guard lock(mutex_);
  const SteadyTime now = std::chrono::steady_clock::now();
  if (spare.leaving) leases_.Remove(spare.name);
  if (spare.leaving) return std::optional<service::GridAssignment>();
  if (!spare.failed.empty()) leases_.Fail(spare.name, now);
  const std::vector<Gap> gaps = model_ == nullptr ? std::vector<Gap>() : GapsOf(*members_, *model_);
  PERGOLA_ASSIGN_OR_RETURN(const std::optional<Gap> gap, leases_.Take(spare.name, gaps, now));
  if (!gap) return std::optional<service::GridAssignment>();
  service::GridAssignment assignment;
  assignment.model = model_->model;
  assignment.identity = model_->identity;
  assignment.numeric_class = model_->numeric_class;
  assignment.embed = gap->embed;
  assignment.first_layer = gap->first;
  assignment.last_layer = gap->last;
  for (const MemberPtr& member : *members_) {
    if (!member->facts.slices_url.empty()) assignment.sources.push_back(member->facts.slices_url);
  }
  return std::optional(std::move(assignment));
}

std::string Topology::Missing() const { return MissingOf(*members(), model().get()); }

std::string Topology::GridJson() const {
  const std::shared_ptr<const MemberList> all = members();
  const std::shared_ptr<const GridMemberFacts> model = this->model();
  const std::string missing = MissingOf(*all, model.get());
  size_t spares = 0;
  {
    const std::lock_guard lock(mutex_);
    spares = leases_.size(std::chrono::steady_clock::now());
  }
  std::string out = "{";
  if (model != nullptr) {
    const GridMemberFacts& facts = *model;
    out += "\"model\":" + JsonString(facts.model) + ",\"identity\":" + JsonString(facts.identity) +
           ",\"numeric_class\":" + JsonString(facts.numeric_class) +
           ",\"num_layers\":" + std::to_string(facts.num_layers) + ",";
  }
  out += std::string("\"complete\":") + (missing.empty() ? "true" : "false") +
         ",\"missing\":" + JsonString(missing) + ",\"spares\":" + std::to_string(spares) +
         ",\"frames_refused\":" + std::to_string(refused_.load()) + ",\"members\":[";
  for (const MemberPtr& member : *all) {
    if (out.back() != '[') out += ',';
    out += MemberJson(*member);
  }
  return out + "]}";
}

}  // namespace pergola::grid
