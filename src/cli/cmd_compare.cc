#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/embed_input.h"
#include "cli/evaluated_model.h"
#include "cli/status_exit.h"
#include "core/json_text.h"
#include "eval/metrics.h"
#include "eval/neighbours.h"

namespace pergola::cli {
namespace {

struct CompareFlags {
  std::string first;
  std::string second;
  std::string first_weights = "auto";
  std::string second_weights = "auto";
  std::vector<std::string> files;
  std::string field;
  size_t neighbours = 10;
  double min_cosine = -1.0;
  bool offline = false;
  bool json = false;
};

Result<std::vector<std::string>> ReadTexts(const CompareFlags& flags) {
  PERGOLA_ASSIGN_OR_RETURN(const std::unique_ptr<EmbedInput> input,
                           OpenEmbedInput(flags.files, {.field = flags.field}));
  std::vector<std::string> texts;
  InputRecord record;
  for (;;) {
    PERGOLA_ASSIGN_OR_RETURN(const bool more, input->Next(&record));
    if (!more) break;
    if (!record.status.ok()) return record.status.WithContext(record.where);
    texts.push_back(std::move(record.text));
  }
  if (texts.size() < 2) return InvalidArgumentError("fewer than two texts to compare on");
  return texts;
}

struct Comparison {
  std::vector<double> cosines;  // per text; empty when the widths differ
  double agreement = 0.0;
};

Comparison Compare(const EvaluatedModel& a, const EvaluatedModel& b, size_t neighbours) {
  const eval::VectorSet first = eval::VectorSet::Make(a.width, a.values, eval::Encoding::kFloat);
  const eval::VectorSet second = eval::VectorSet::Make(b.width, b.values, eval::Encoding::kFloat);
  Comparison comparison;
  for (size_t row = 0; a.width == b.width && row < first.size(); ++row) {
    comparison.cosines.push_back(first.Similarity(row, second, row));
  }
  comparison.agreement = eval::Agreement(eval::NearestRows(first, first, neighbours, true),
                                         eval::NearestRows(second, second, neighbours, true));
  return comparison;
}

void PrintText(const CompareFlags& flags, const EvaluatedModel& a, const EvaluatedModel& b,
               const std::vector<std::string>& texts, const Comparison& comparison) {
  std::printf("%-24s %s\n%-24s %s\n", "A", a.description.c_str(), "B", b.description.c_str());
  std::printf("%-24s %zu\n", "texts", texts.size());
  std::printf("%-24s %.0f and %.0f tokens/s\n", "speed", a.tokens_per_second, b.tokens_per_second);
  if (comparison.cosines.empty()) {
    std::printf("%-24s other widths: %lld and %lld\n", "cosine", static_cast<long long>(a.width),
                static_cast<long long>(b.width));
  } else {
    std::printf("%-24s minimum %.7f, 1 %% below %.7f, median %.7f\n", "cosine of A and B",
                eval::Quantile(comparison.cosines, 0.0), eval::Quantile(comparison.cosines, 0.01),
                eval::Quantile(comparison.cosines, 0.5));
    const auto worst = std::min_element(comparison.cosines.begin(), comparison.cosines.end());
    const std::string& text = texts[static_cast<size_t>(worst - comparison.cosines.begin())];
    std::printf("%-24s %.60s\n", "furthest apart", text.c_str());
  }
  std::printf("%-24s %.2f %% of the %zu nearest texts are the same\n", "neighbours",
              100.0 * comparison.agreement, flags.neighbours);
}

void PrintJson(const CompareFlags& flags, const EvaluatedModel& a, const EvaluatedModel& b,
               const Comparison& comparison) {
  std::printf("{\"a\":%s,\"b\":%s,\"texts\":%zu,\"a_tokens_per_s\":%.1f,\"b_tokens_per_s\":%.1f",
              JsonString(a.description).c_str(), JsonString(b.description).c_str(), a.rows(),
              a.tokens_per_second, b.tokens_per_second);
  if (!comparison.cosines.empty()) {
    std::printf(",\"cosine_min\":%.9f,\"cosine_p01\":%.9f,\"cosine_median\":%.9f",
                eval::Quantile(comparison.cosines, 0.0), eval::Quantile(comparison.cosines, 0.01),
                eval::Quantile(comparison.cosines, 0.5));
  }
  std::printf(",\"neighbours\":%zu,\"neighbour_agreement\":%.6f}\n", flags.neighbours,
              comparison.agreement);
}

Result<int> RunCompare(const CompareFlags& flags) {
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<std::string> texts, ReadTexts(flags));
  EvaluatedModel models[2];
  const std::string* names[2] = {&flags.first, &flags.second};
  const std::string* weights[2] = {&flags.first_weights, &flags.second_weights};
  for (int which = 0; which < 2; ++which) {
    PERGOLA_ASSIGN_OR_RETURN(const Engine engine,
                             OpenForEvaluation(*names[which], flags.offline, *weights[which]));
    PERGOLA_ASSIGN_OR_RETURN(models[which], EmbedForEvaluation(engine, texts, ""));
    models[which].description = *names[which] + ": " + models[which].description;
  }
  const Comparison comparison = Compare(models[0], models[1], flags.neighbours);
  if (flags.json) {
    PrintJson(flags, models[0], models[1], comparison);
  } else {
    PrintText(flags, models[0], models[1], texts, comparison);
  }
  if (flags.min_cosine <= -1.0) return kExitOk;
  if (comparison.cosines.empty()) {
    return InvalidArgumentError("--min-cosine needs models of one width");
  }
  const double worst = eval::Quantile(comparison.cosines, 0.0);
  if (worst >= flags.min_cosine) return kExitOk;
  return InternalError("the smallest cosine is " + std::to_string(worst) + ", wanted at least " +
                       std::to_string(flags.min_cosine));
}

}  // namespace

void AddCompare(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("compare", "Two models side by side on the same texts");
  command->footer(
      "Embeds every text with both: how far their vectors are apart, and whether each text keeps\n"
      "its nearest neighbours. For formats, precisions or versions of one model; models of other\n"
      "widths are compared by neighbours alone.\n\n"
      "  pergola compare all-MiniLM-L6-v2 minilm-q8_0.gguf --texts texts.jsonl\n"
      "  pergola compare M M --weights-b int8 --texts t.jsonl\n"
      "  pergola compare a b --texts t.txt --min-cosine 0.999   # exit code 1 if one is below");
  auto flags = std::make_shared<CompareFlags>();
  command->add_option("a", flags->first, "A model: name, hub id, folder or .gguf file")->required();
  command->add_option("b", flags->second, "The other model")->required();
  const CLI::IsMember types({"auto", "as-is", "f32", "f16", "bf16", "int8", "int4"});
  command
      ->add_option("--weights-a", flags->first_weights,
                   "What the first one's matrices are computed in [auto: as they are]")
      ->check(types);
  command->add_option("--weights-b", flags->second_weights, "The same of the other model")
      ->check(types);
  command->add_option("--texts", flags->files, "Files of texts: lines or JSON lines; - is stdin")
      ->required();
  command->add_option("--field", flags->field, "Member of a JSON line that holds the text");
  command->add_option("--neighbours", flags->neighbours, "Nearest texts that are compared")
      ->check(CLI::Range(1, 1000));
  command->add_option("--min-cosine", flags->min_cosine, "Fail if a text's cosine is below")
      ->check(CLI::Range(-1.0, 1.0));
  command->add_flag("--offline", flags->offline, "Do not fetch a missing model");
  command->add_flag("--json", flags->json, "One JSON object instead of lines");
  command->callback([flags, run] {
    *run = [flags] {
      const Result<int> code = RunCompare(*flags);
      return code.ok() ? *code : Fail(code.status());
    };
  });
}

}  // namespace pergola::cli
