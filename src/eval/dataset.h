// Files that say what is relevant to what: BEIR's layout for retrieval, pairs with a grade for
// similarity. Read whole into memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pergola/status.h"

namespace pergola::eval {

struct RetrievalDataset {
  std::vector<std::string> documents;  // title and text, joined by a space where there is a title
  std::vector<std::string> queries;    // only those with a judgement
  // Of each query: document -> gain above 0.
  std::vector<std::map<uint32_t, double>> relevant;
};

// A folder with corpus.jsonl ({"_id","title","text"}), queries.jsonl ({"_id","text"}) and
// qrels/`split`.tsv (query-id, corpus-id, score; a header line). NOT_FOUND naming a file;
// INVALID_ARGUMENT naming file and line. Judgements of documents that are not there are an error.
Result<RetrievalDataset> ReadBeir(const std::string& folder, const std::string& split);

struct SimilarityDataset {
  std::vector<std::string> first;
  std::vector<std::string> second;
  std::vector<double> grades;
};

// JSON lines with "sentence1", "sentence2" and "score", or tab-separated: first, second, grade.
Result<SimilarityDataset> ReadSimilarityPairs(const std::string& path);

}  // namespace pergola::eval
