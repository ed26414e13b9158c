#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/evaluated_model.h"
#include "cli/status_exit.h"
#include "core/json_text.h"
#include "eval/dataset.h"
#include "eval/metrics.h"
#include "eval/neighbours.h"

namespace pergola::cli {
namespace {

struct EvalFlags {
  std::string model;
  std::string path;
  std::string split = "test";
  std::string query_prompt;
  std::string document_prompt;
  bool offline = false;
  bool json = false;
};

constexpr size_t kDepth = 10;  // of nDCG and MRR
constexpr size_t kRecallDepth = 100;

struct RetrievalScores {
  double ndcg = 0.0;
  double recall = 0.0;
  double reciprocal_rank = 0.0;
};

RetrievalScores Judge(const eval::RetrievalDataset& dataset,
                      const std::vector<std::vector<uint32_t>>& rankings) {
  RetrievalScores scores;
  const auto queries = static_cast<double>(rankings.size());
  for (size_t query = 0; query < rankings.size(); ++query) {
    const std::map<uint32_t, double>& relevant = dataset.relevant[query];
    std::vector<double> gains;
    for (const uint32_t document : rankings[query]) {
      const auto found = relevant.find(document);
      gains.push_back(found == relevant.end() ? 0.0 : found->second);
    }
    std::vector<double> all_gains;
    for (const auto& [document, gain] : relevant) all_gains.push_back(gain);
    scores.ndcg += eval::Ndcg(gains, all_gains, kDepth) / queries;
    scores.recall += eval::Recall(gains, relevant.size(), kRecallDepth) / queries;
    scores.reciprocal_rank += eval::ReciprocalRank(gains, kDepth) / queries;
  }
  return scores;
}

Status EvalRetrieval(const EvalFlags& flags) {
  PERGOLA_ASSIGN_OR_RETURN(const eval::RetrievalDataset dataset,
                           eval::ReadBeir(flags.path, flags.split));
  PERGOLA_ASSIGN_OR_RETURN(const Engine engine, OpenForEvaluation(flags.model, flags.offline));
  PERGOLA_ASSIGN_OR_RETURN(const EvaluatedModel documents,
                           EmbedForEvaluation(engine, dataset.documents, flags.document_prompt));
  PERGOLA_ASSIGN_OR_RETURN(const EvaluatedModel queries,
                           EmbedForEvaluation(engine, dataset.queries, flags.query_prompt));
  if (!flags.json) {
    std::printf("%s\n%zu documents, %zu queries, %.0f tokens/s\n\n%-8s %9s %12s %9s\n",
                documents.description.c_str(), dataset.documents.size(), dataset.queries.size(),
                documents.tokens_per_second, "vectors", "nDCG@10", "recall@100", "MRR@10");
  }
  for (const eval::Encoding encoding :
       {eval::Encoding::kFloat, eval::Encoding::kInt8, eval::Encoding::kBinary}) {
    if (encoding == eval::Encoding::kBinary && documents.width % 8 != 0) continue;
    const auto set = eval::VectorSet::Make(documents.width, documents.values, encoding);
    const auto asked = eval::VectorSet::Make(queries.width, queries.values, encoding);
    const RetrievalScores scores =
        Judge(dataset, eval::NearestRows(asked, set, kRecallDepth, /*skip_same_index=*/false));
    const std::string name(eval::EncodingName(encoding));
    if (flags.json) {
      std::printf(
          "{\"model\":%s,\"vectors\":\"%s\",\"documents\":%zu,\"queries\":%zu,"
          "\"ndcg_at_10\":%.6f,\"recall_at_100\":%.6f,\"mrr_at_10\":%.6f}\n",
          JsonString(flags.model).c_str(), name.c_str(), dataset.documents.size(),
          dataset.queries.size(), scores.ndcg, scores.recall, scores.reciprocal_rank);
    } else {
      std::printf("%-8s %9.4f %12.4f %9.4f\n", name.c_str(), scores.ndcg, scores.recall,
                  scores.reciprocal_rank);
    }
  }
  return OkStatus();
}

// By similarity of the two vectors, or by the model's own score of the pair.
Result<std::vector<double>> ScorePairs(const Engine& engine,
                                       const eval::SimilarityDataset& dataset) {
  std::vector<double> scores;
  if (engine.width() == 0) {
    for (size_t pair = 0; pair < dataset.grades.size(); ++pair) {
      PERGOLA_ASSIGN_OR_RETURN(
          const std::vector<float> score,
          engine.Score(dataset.first[pair], std::vector<std::string>{dataset.second[pair]}));
      scores.push_back(score[0]);
    }
    return scores;
  }
  PERGOLA_ASSIGN_OR_RETURN(const EvaluatedModel first,
                           EmbedForEvaluation(engine, dataset.first, ""));
  PERGOLA_ASSIGN_OR_RETURN(const EvaluatedModel second,
                           EmbedForEvaluation(engine, dataset.second, ""));
  const auto a = eval::VectorSet::Make(first.width, first.values, eval::Encoding::kFloat);
  const auto b = eval::VectorSet::Make(second.width, second.values, eval::Encoding::kFloat);
  for (size_t pair = 0; pair < dataset.grades.size(); ++pair) {
    scores.push_back(a.Similarity(pair, b, pair));
  }
  return scores;
}

Status EvalSimilarity(const EvalFlags& flags) {
  PERGOLA_ASSIGN_OR_RETURN(const eval::SimilarityDataset dataset,
                           eval::ReadSimilarityPairs(flags.path));
  PERGOLA_ASSIGN_OR_RETURN(const Engine engine, OpenForEvaluation(flags.model, flags.offline));
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<double> scores, ScorePairs(engine, dataset));
  const double spearman = eval::Spearman(scores, dataset.grades);
  const double pearson = eval::Pearson(scores, dataset.grades);
  if (flags.json) {
    std::printf("{\"model\":%s,\"pairs\":%zu,\"spearman\":%.6f,\"pearson\":%.6f}\n",
                JsonString(flags.model).c_str(), scores.size(), spearman, pearson);
  } else {
    std::printf("%s\n%-10s %zu\n%-10s %.4f\n%-10s %.4f\n", engine.Describe().c_str(), "pairs",
                scores.size(), "Spearman", spearman, "Pearson", pearson);
  }
  return OkStatus();
}

void AddCommon(CLI::App* command, const std::shared_ptr<EvalFlags>& flags) {
  command->add_option("-m,--model", flags->model, "Name, hub id, folder or .gguf file")->required();
  command->add_flag("--offline", flags->offline, "Do not fetch a missing model");
  command->add_flag("--json", flags->json, "JSON lines instead of a table");
}

void SetRun(CLI::App* command, Run* run, const std::shared_ptr<EvalFlags>& flags,
            Status (*evaluate)(const EvalFlags&)) {
  command->callback([flags, run, evaluate] {
    *run = [flags, evaluate] {
      const Status status = evaluate(*flags);
      return status.ok() ? static_cast<int>(kExitOk) : Fail(status);
    };
  });
}

}  // namespace

void AddEval(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("eval", "How well a model retrieves, on judged texts");
  command->require_subcommand(1);
  command->footer(
      "  pergola eval retrieval scifact -m all-MiniLM-L6-v2\n"
      "  pergola eval sts stsb-test.jsonl -m embeddinggemma --json");
  auto flags = std::make_shared<EvalFlags>();

  CLI::App* retrieval = command->add_subcommand(
      "retrieval", "nDCG@10, recall@100 and MRR@10 of a folder in BEIR's layout");
  retrieval->footer(
      "The folder holds corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv. Every document is looked\n"
      "at for every query. Also with vectors stored as int8 and as one bit per dimension.");
  retrieval->add_option("folder", flags->path, "The dataset")->required();
  retrieval->add_option("--split", flags->split, "Which qrels")->capture_default_str();
  retrieval->add_option("--query-prompt-name", flags->query_prompt, "Prompt before each query");
  retrieval->add_option("--document-prompt-name", flags->document_prompt,
                        "Prompt before each document");
  AddCommon(retrieval, flags);
  SetRun(retrieval, run, flags, EvalRetrieval);

  CLI::App* sts = command->add_subcommand(
      "sts", "Correlation with the grades of pairs: JSON lines or tab-separated");
  sts->footer(
      "Lines {\"sentence1\", \"sentence2\", \"score\"} or first, second, grade with tabs between.\n"
      "An embedder is judged by the cosine, a reranker by its score.");
  sts->add_option("file", flags->path, "The pairs")->required();
  AddCommon(sts, flags);
  SetRun(sts, run, flags, EvalSimilarity);
}

}  // namespace pergola::cli
