#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/embed_input.h"
#include "cli/evaluated_model.h"
#include "cli/model_location.h"
#include "cli/pull_display.h"
#include "cli/quantise_search.h"
#include "cli/status_exit.h"
#include "core/json_text.h"
#include "engine/quantiser.h"
#include "eval/metrics.h"
#include "eval/neighbours.h"
#include "formats/byte_sink.h"
#include "hub/file_sink.h"
#include "hub/hub_config.h"

namespace pergola::cli {
namespace {

namespace fs = std::filesystem;
using engine::QuantisationPlan;

constexpr size_t kNeighbours = 10;
constexpr size_t kMinTexts = 4;

struct QuantizeFlags {
  std::string model;
  std::string type;
  std::string output;
  std::vector<std::string> calibration;
  std::string field;
  std::string report;
  std::optional<double> min_cosine;
  bool dry_run = false;
  bool offline = false;
};

// int8 and int4 are what `--weights int8|int4` computes in (int8: without VNNI). Nothing: as-is.
std::optional<DType> TypeOf(const std::string& name) {
  if (name == "q4_0" || name == "int4") return DType::kQ4_0;
  if (name == "q8_0" || name == "int8") return DType::kQ8_0;
  if (name == "f16") return DType::kF16;
  if (name == "bf16") return DType::kBF16;
  return std::nullopt;
}

QuantisationPlan UniformPlan(const engine::Quantiser& quantiser, const std::string& type) {
  const std::optional<DType> wanted = TypeOf(type);
  return wanted ? quantiser.Uniform(*wanted) : QuantisationPlan();
}

// Every second text is looked at while choosing types, the others are held out for the report.
struct Texts {
  std::vector<std::string> choosing, held_out;
};

Result<Texts> ReadTexts(const QuantizeFlags& flags) {
  Texts texts;
  if (flags.calibration.empty()) return texts;
  PERGOLA_ASSIGN_OR_RETURN(const std::unique_ptr<EmbedInput> input,
                           OpenEmbedInput(flags.calibration, {.field = flags.field}));
  InputRecord record;
  for (size_t count = 0;; ++count) {
    PERGOLA_ASSIGN_OR_RETURN(const bool more, input->Next(&record));
    if (!more) break;
    if (!record.status.ok()) return record.status.WithContext(record.where);
    (count % 2 == 0 ? texts.choosing : texts.held_out).push_back(std::move(record.text));
  }
  if (texts.choosing.size() + texts.held_out.size() < kMinTexts) {
    return InvalidArgumentError("--calibration: fewer than " + std::to_string(kMinTexts) +
                                " texts to measure on");
  }
  return texts;
}

Result<EvaluatedModel> EmbedFile(const std::string& path, const std::vector<std::string>& texts) {
  PERGOLA_ASSIGN_OR_RETURN(const Engine engine, OpenForEvaluation(path, /*offline=*/true));
  return EmbedForEvaluation(engine, texts, "");
}

struct Quality {
  size_t texts = 0;
  Closeness closeness;
  double agreement = 0.0;
};

Quality QualityOf(const EvaluatedModel& original, const EvaluatedModel& model) {
  const auto a = eval::VectorSet::Make(original.width, original.values, eval::Encoding::kFloat);
  const auto b = eval::VectorSet::Make(model.width, model.values, eval::Encoding::kFloat);
  Quality quality{.texts = a.size(), .closeness = {}, .agreement = 0.0};
  double sum = 0;
  for (size_t row = 0; row < a.size(); ++row) {
    const double cosine = a.Similarity(row, b, row);
    quality.closeness.min = std::min(quality.closeness.min, cosine);
    sum += cosine;
  }
  quality.closeness.mean = sum / static_cast<double>(a.size());
  quality.agreement = eval::Agreement(eval::NearestRows(a, a, kNeighbours, true),
                                      eval::NearestRows(b, b, kNeighbours, true));
  return quality;
}

// The plan for --min-cosine: each candidate is written beside the output and computed.
Result<QuantisationPlan> SearchPlan(const QuantizeFlags& flags, const engine::Quantiser& quantiser,
                                    const std::string& source, const std::string& output,
                                    const std::vector<std::string>& texts) {
  PERGOLA_ASSIGN_OR_RETURN(const EvaluatedModel original, EmbedFile(source, texts));
  const std::string trial = output + ".trial.gguf";
  QuantiseSearch search;
  search.start = UniformPlan(quantiser, flags.type);
  if (TypeOf(flags.type) == DType::kQ4_0) search.larger.push_back(DType::kQ8_0);
  search.larger.push_back(DType::kF16);
  search.min_cosine = *flags.min_cosine;
  search.measure = [&](const QuantisationPlan& plan) -> Result<Closeness> {
    PERGOLA_RETURN_IF_ERROR(quantiser.Write(plan, trial));
    PERGOLA_ASSIGN_OR_RETURN(const EvaluatedModel model, EmbedFile(trial, texts));
    return QualityOf(original, model).closeness;
  };
  Result<QuantisationPlan> plan = ChooseTypes(search);
  std::error_code error;
  fs::remove(trial, error);
  return plan;
}

int64_t Sum(const std::vector<engine::PlannedTensor>& tensors,
            int64_t engine::PlannedTensor::*bytes) {
  return std::accumulate(
      tensors.begin(), tensors.end(), int64_t{0},
      [&](int64_t sum, const engine::PlannedTensor& tensor) { return sum + tensor.*bytes; });
}

void PrintSizes(const std::vector<engine::PlannedTensor>& tensors) {
  const int64_t before = Sum(tensors, &engine::PlannedTensor::bytes_before);
  const int64_t after = Sum(tensors, &engine::PlannedTensor::bytes_after);
  std::printf(
      "%-12s %s to %s, %.1f %%\n", "tensors", hub::HumanBytes(before).c_str(),
      hub::HumanBytes(after).c_str(),
      100.0 * static_cast<double>(after) / static_cast<double>(std::max<int64_t>(1, before)));
}

void PrintTypes(const QuantisationPlan& plan) {
  std::map<std::string, std::string> by_type;
  for (const auto& [unit, type] : plan) by_type[std::string(DTypeName(type))] += " " + unit;
  for (const auto& [type, units] : by_type) std::printf("%-12s%s\n", type.c_str(), units.c_str());
}

void PrintQuality(const Quality& quality) {
  std::printf("%-12s minimum %.7f, mean %.7f over %zu texts held out\n", "cosine",
              quality.closeness.min, quality.closeness.mean, quality.texts);
  std::printf("%-12s %.2f %% of the %zu nearest texts are the same\n", "neighbours",
              100.0 * quality.agreement, kNeighbours);
}

std::string TypeName(const std::string& type) {
  const std::optional<DType> wanted = TypeOf(type);
  return wanted ? std::string(DTypeName(*wanted)) : type;
}

Status WriteReport(const QuantizeFlags& flags, const std::string& output,
                   const std::vector<engine::PlannedTensor>& tensors,
                   const std::optional<Quality>& quality) {
  std::string json =
      "{\"model\":" + JsonString(flags.model) + ",\"output\":" + JsonString(output) +
      ",\"type\":" + JsonString(TypeName(flags.type)) +
      ",\"bytes_before\":" + std::to_string(Sum(tensors, &engine::PlannedTensor::bytes_before)) +
      ",\"bytes_after\":" + std::to_string(Sum(tensors, &engine::PlannedTensor::bytes_after));
  if (quality) {
    char text[192];
    std::snprintf(text, sizeof(text),
                  ",\"texts\":%zu,\"cosine_min\":%.9f,\"cosine_mean\":%.9f,\"neighbours\":%zu,"
                  "\"neighbour_agreement\":%.6f",
                  quality->texts, quality->closeness.min, quality->closeness.mean, kNeighbours,
                  quality->agreement);
    json += text;
  }
  json += ",\"tensors\":[";
  for (const engine::PlannedTensor& tensor : tensors) {
    json += json.ends_with('[') ? "\n" : ",\n";
    json += "{\"name\":" + JsonString(tensor.name) +
            ",\"before\":" + JsonString(std::string(DTypeName(tensor.before))) +
            ",\"after\":" + JsonString(std::string(DTypeName(tensor.after))) +
            ",\"bytes\":" + std::to_string(tensor.bytes_after) + "}";
  }
  json += "\n]}\n";
  return formats::WriteFileWhole(flags.report,
                                 [&](const formats::ByteSink& sink) { return sink(json); });
}

std::string OutputOf(const QuantizeFlags& flags, const std::string& source) {
  if (!flags.output.empty()) return flags.output;
  std::string name = fs::path(source).lexically_normal().filename().string();
  if (name.empty()) name = fs::absolute(source).parent_path().filename().string();  // "folder/"
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name + "-" + TypeName(flags.type) + ".gguf";
}

Result<std::string> FindModel(const QuantizeFlags& flags) {
  hub::HubConfig hub = hub::HubConfig::FromEnvironment();
  hub.offline |= flags.offline;
  PullDisplay display(flags.model, /*quiet=*/false);
  const Result<ModelLocation> location = ResolveModel(flags.model, hub, display);
  display.Finish();
  if (!location.ok()) return location.status();
  return location->path.string();
}

Status RunQuantize(const QuantizeFlags& flags) {
  PERGOLA_ASSIGN_OR_RETURN(const Texts texts, ReadTexts(flags));
  PERGOLA_ASSIGN_OR_RETURN(const std::string source, FindModel(flags));
  PERGOLA_ASSIGN_OR_RETURN(const auto quantiser, engine::Quantiser::Open(source));
  const std::string output = OutputOf(flags, source);
  std::error_code error;
  if (fs::equivalent(source, output, error)) {
    return InvalidArgumentError("'" + output + "' is the model itself: choose another --output");
  }
  QuantisationPlan plan = UniformPlan(*quantiser, flags.type);
  if (flags.min_cosine) {
    PERGOLA_ASSIGN_OR_RETURN(plan, SearchPlan(flags, *quantiser, source, output, texts.choosing));
  }
  const std::vector<engine::PlannedTensor> tensors = quantiser->Describe(plan);
  PrintTypes(plan);
  PrintSizes(tensors);
  if (flags.dry_run) return OkStatus();
  PERGOLA_RETURN_IF_ERROR(quantiser->Write(plan, output));
  std::printf("%-12s %s\n", "written", output.c_str());
  std::optional<Quality> quality;
  if (!texts.held_out.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(const EvaluatedModel original, EmbedFile(source, texts.held_out));
    PERGOLA_ASSIGN_OR_RETURN(const EvaluatedModel model, EmbedFile(output, texts.held_out));
    quality = QualityOf(original, model);
    PrintQuality(*quality);
  }
  return flags.report.empty() ? OkStatus() : WriteReport(flags, output, tensors, quality);
}

}  // namespace

void AddQuantize(CLI::App& app, Run* run) {
  CLI::App* command =
      app.add_subcommand("quantize", "Write a model as GGUF, with smaller matrices");
  command->footer(
      "Reads a GGUF file or a folder with safetensors and writes a GGUF file, which Pergola and\n"
      "llama.cpp load. With texts it says how far the vectors move; with --min-cosine the layers\n"
      "that cost most keep larger types.\n"
      "Every second text chooses, the others are held out for the figures that are printed.\n\n"
      "  pergola quantize all-MiniLM-L6-v2 --type q8_0 -o model-Q8_0.gguf\n"
      "  pergola quantize model-F32.gguf --type q4_0 --calibration texts.txt --min-cosine 0.98");
  auto flags = std::make_shared<QuantizeFlags>();
  command
      ->add_option("model", flags->model, "A .gguf file, a folder, or a name that stands for one")
      ->required();
  command
      ->add_option("--type", flags->type,
                   "Of matrices: q8_0 (= int8), q4_0 (= int4), f16, bf16, as-is")
      ->required()
      ->check(CLI::IsMember({"q8_0", "q4_0", "int8", "int4", "f16", "bf16", "as-is"}));
  command->add_option("-o,--output", flags->output, "File to write (MODEL-TYPE.gguf here)");
  CLI::Option* calibration = command->add_option("--calibration", flags->calibration,
                                                 "Files of texts: lines or JSON lines; - is stdin");
  command->add_option("--field", flags->field, "Member of a JSON line that holds the text");
  command
      ->add_option("--min-cosine", flags->min_cosine,
                   "What no text's cosine with the original may be below")
      ->check(CLI::Range(-1.0, 1.0))
      ->needs(calibration);
  command->add_option("--report", flags->report, "File for the figures and types, JSON");
  command->add_flag("--dry-run", flags->dry_run, "Only print types and sizes");
  command->add_flag("--offline", flags->offline, "Do not fetch a missing model");
  command->callback([flags, run] {
    *run = [flags] {
      const Status status = RunQuantize(*flags);
      return status.ok() ? static_cast<int>(kExitOk) : Fail(status);
    };
  });
}

}  // namespace pergola::cli
