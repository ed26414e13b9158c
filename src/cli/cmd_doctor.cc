#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/served_model.h"
#include "cli/command_line.h"
#include "cli/model_location.h"
#include "cli/pull_display.h"
#include "cli/self_test_vectors.h"
#include "cli/status_exit.h"
#include "core/cpu_features.h"
#include "core/json_text.h"
#include "core/process_memory.h"
#include "engine/local_runner.h"
#include "engine/step_speed.h"
#include "hub/hub_config.h"
#include "kernels/select.h"
#include "service/embedding_format.h"

namespace pergola::cli {
namespace {

struct DoctorFlags {
  std::string model;
  bool offline = false;
  bool json = false;
  int threads = 0;
};

// One line of the report: a value for people and the same for machines.
struct Fact {
  std::string key;
  std::string text;
  std::string json;
};

Fact TextFact(std::string key, const std::string& value) {
  return {std::move(key), value, JsonString(value)};
}
Fact NumberFact(std::string key, int64_t value) {
  return {std::move(key), std::to_string(value), std::to_string(value)};
}
Fact BytesFact(std::string key, int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return {std::move(key), text, std::to_string(bytes)};
}

std::string Features() {
  std::string list;
  for (const std::string_view feature : KnownCpuFeatures()) {
    if (!CpuHas(feature)) continue;
    if (!list.empty()) list += ' ';
    list += feature;
  }
  return list;
}

Fact KernelSets(const std::string& chosen) {
  Fact fact{"kernel_sets", "", "["};
  for (const kernels::KernelSet& set : kernels::ListKernelSets()) {
    const bool is_chosen = set.name == chosen;
    fact.text += (fact.text.empty() ? "" : ", ") + std::string(set.name);
    if (!set.verified) fact.text += " (unverified)";
    fact.text += is_chosen ? " (chosen)" : set.usable ? "" : " (declined: " + set.declined + ")";
    fact.json += (fact.json.size() > 1 ? ",{\"name\":" : "{\"name\":") + JsonString(set.name) +
                 ",\"usable\":" + (set.usable ? "true" : "false") +
                 ",\"verified\":" + (set.verified ? "true" : "false") +
                 ",\"chosen\":" + (is_chosen ? "true" : "false") +
                 ",\"declined\":" + JsonString(set.declined) + "}";
  }
  fact.json += "]";
  return fact;
}

void AddModelFacts(const api::ServedModel& served, std::vector<Fact>* facts) {
  const service::ModelInfo& info = served.info();
  const engine::ModelFacts& model = served.model().facts();
  facts->push_back(TextFact("model", info.id));
  facts->push_back(TextFact("architecture", info.architecture));
  facts->push_back(TextFact("format", model.format));
  facts->push_back(TextFact("quantisation", info.quantisation));
  facts->push_back(TextFact("numeric_class", info.numeric_class));
  facts->push_back(NumberFact("parameters", info.parameters));
  facts->push_back(NumberFact("embedding_width", info.width(OutputKind::kEmbedding)));
  facts->push_back(NumberFact("max_tokens", info.max_tokens));
  facts->push_back(NumberFact("vocabulary", info.vocab_size));
  facts->push_back(TextFact("tokenizer", std::string(served.model().tokenizer()->kind())));
  facts->push_back(BytesFact("mapped_weights", model.weight_bytes));
  facts->push_back(BytesFact("repacked_weights", model.owned_bytes));
}

// Runs the sentence alone and in a batch: the bits of all that the model gives must be equal, and
// for a known model its vector near the reference library's.
Status SelfTest(const api::ServedModel& served, std::vector<Fact>* facts) {
  PERGOLA_ASSIGN_OR_RETURN(const text::PreparedText sentence,
                           served.text()->Prepare(kSelfTestSentence, {}));
  PERGOLA_ASSIGN_OR_RETURN(const text::PreparedText other,
                           served.text()->Prepare("Something else, to share the batch.", {}));
  const service::ModelInfo& info = served.info();
  OutputSet outputs;
  for (const OutputKind kind : kOutputKinds) {
    if (info.has(kind)) outputs.Add(kind);
  }
  service::InferenceRequest alone;
  alone.outputs = outputs;
  alone.sequences = {sentence.sequence};
  service::InferenceRequest shared;
  shared.outputs = outputs;
  shared.sequences = {other.sequence, sentence.sequence, other.sequence};
  PERGOLA_ASSIGN_OR_RETURN(const auto lone_rows, served.scheduler().RunBlocking(std::move(alone)));
  PERGOLA_ASSIGN_OR_RETURN(const auto shared_rows,
                           served.scheduler().RunBlocking(std::move(shared)));
  for (const OutputKind kind : kOutputKinds) {
    if ((*lone_rows.sequences[0])[kind].values != (*shared_rows.sequences[1])[kind].values) {
      return InternalError("self-test: " + std::string(OutputKindName(kind)) +
                           " of a text depends on its batch");
    }
  }
  const std::vector<float>& lone = (*lone_rows.sequences[0])[OutputKind::kEmbedding].values;
  const std::span<const float> expected = SelfTestVector(info.id);
  const auto width = static_cast<size_t>(info.width(OutputKind::kEmbedding));
  if (width == 0 || expected.size() != width) {
    facts->push_back(TextFact("self_test", "bits independent of the batch; no reference vector"));
    return OkStatus();
  }
  std::vector<float> row(width);
  service::FormatFloats(lone, /*normalise=*/true, row);
  double cosine = 0;
  for (size_t col = 0; col < width; ++col) {
    cosine += static_cast<double>(row[col]) * static_cast<double>(expected[col]);
  }
  // f32 weights agree to 1e-5 (docs/numerics.md); a registry name stands for such weights.
  if (!(cosine >= 0.99999)) {
    return InternalError("self-test: cosine to the reference vector is " + std::to_string(cosine) +
                         ", expected at least 0.99999");
  }
  char text[64];
  std::snprintf(text, sizeof text, "passed, cosine to the reference %.7f", cosine);
  facts->push_back(TextFact("self_test", text));
  return OkStatus();
}

// The budget of a scheduler's step, and how fast batches of other sizes are.
Status MeasureStepFacts(const api::ServedModel& served, std::vector<Fact>* facts) {
  engine::LocalRunner runner(served.model());
  const service::ModelInfo& info = served.info();
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<engine::StepSpeed> speeds,
                           engine::MeasureSteps(runner, info.vocab_size, info.max_tokens));
  facts->push_back(NumberFact("step_tokens", runner.step_tokens()));
  facts->push_back(NumberFact("step_tokens_95", engine::SmallestStep(speeds)));
  Fact fact{"step_speeds", "", "["};
  for (const engine::StepSpeed& speed : speeds) {
    const std::string tokens = std::to_string(speed.tokens);
    const std::string per_second = std::to_string(static_cast<int64_t>(speed.tokens_per_s));
    fact.text +=
        (fact.text.empty() ? "tokens/s of batches of " : ", ") + tokens + ": " + per_second;
    fact.json += (fact.json.size() > 1 ? ",{\"tokens\":" : "{\"tokens\":") + tokens +
                 ",\"tokens_per_s\":" + per_second + "}";
  }
  fact.json += "]";
  facts->push_back(fact);
  return OkStatus();
}

Status ExamineModel(const DoctorFlags& flags, std::vector<Fact>* facts) {
  hub::HubConfig hub = hub::HubConfig::FromEnvironment();
  hub.offline |= flags.offline;
  PullDisplay display(flags.model, /*quiet=*/flags.json);
  Result<ModelLocation> location = ResolveModel(flags.model, hub, display);
  display.Finish();
  if (!location.ok()) return location.status();
  api::ServedModelOptions options;
  options.model.ops.num_threads = flags.threads;
  options.scheduler.cache_bytes = 0;
  PERGOLA_ASSIGN_OR_RETURN(const std::unique_ptr<api::ServedModel> served,
                           api::ServedModel::Open(location->id, location->path.string(), options));
  AddModelFacts(*served, facts);
  Status status = SelfTest(*served, facts);
  facts->push_back(BytesFact("peak_resident", ReadMemoryUse().peak_resident_bytes));
  if (status.ok() && served->info().has(OutputKind::kEmbedding)) {
    status = MeasureStepFacts(*served, facts);
  }
  return status;
}

void Print(const std::vector<Fact>& facts, bool json) {
  if (!json) {
    for (const Fact& fact : facts) std::printf("%-18s %s\n", fact.key.c_str(), fact.text.c_str());
    return;
  }
  std::string text = "{";
  for (const Fact& fact : facts) {
    text += (text.size() > 1 ? "," : "") + JsonString(fact.key) + ":" + fact.json;
  }
  std::printf("%s}\n", text.c_str());
}

int RunDoctor(const DoctorFlags& flags) {
  std::vector<Fact> facts = {TextFact("version", PERGOLA_VERSION), TextFact("cpu", CpuModelName()),
                             TextFact("cpu_features", Features()),
                             NumberFact("usable_cores", UsableCores())};
  const MemoryUse memory = ReadMemoryUse();
  facts.push_back(BytesFact("memory", memory.machine_bytes));
  facts.push_back(BytesFact("memory_available", memory.available_bytes));
  const auto ops = kernels::MakeOps({.num_threads = 1});
  facts.push_back(KernelSets(ops.ok() ? std::string((*ops)->name()) : ""));
  Status status = ops.ok() ? OkStatus() : ops.status();
  if (status.ok() && !flags.model.empty()) status = ExamineModel(flags, &facts);
  Print(facts, flags.json);
  return status.ok() ? static_cast<int>(kExitOk) : Fail(status);
}

}  // namespace

void AddDoctor(CLI::App& app, Run* run) {
  CLI::App* command =
      app.add_subcommand("doctor", "Tell what this machine and a model can do, and test them");
  command->footer(
      "With --model: facts of the model, memory, a self-test that compares a vector with the\n"
      "reference library's, and the speed of batches: step_tokens is what a server fills a batch "
      "up\n"
      "to (--step-tokens), step_tokens_95 the fewest that reach 95 % of the best speed here. Exits "
      "1\n"
      "if the self-test fails.\n"
      "  pergola doctor --model all-MiniLM-L6-v2");
  auto flags = std::make_shared<DoctorFlags>();
  command->add_option("-m,--model", flags->model, "Registry name, hub id, directory or .gguf file");
  command->add_option("--threads", flags->threads, "Compute threads (0: one per usable core)")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--offline", flags->offline, "Fetch nothing");
  command->add_flag("--json", flags->json, "One JSON object");
  command->callback([flags, run] { *run = [flags] { return RunDoctor(*flags); }; });
}

}  // namespace pergola::cli
