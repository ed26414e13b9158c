#include "eval/dataset.h"

#include <simdjson.h>

#include <charconv>
#include <fstream>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace pergola::eval {
namespace {

namespace dom = simdjson::dom;

// Calls `use` with each line that is not blank and its place, "file:17".
Status ForEachLine(
    const std::string& path,
    const std::function<Status(std::string_view line, const std::string& place)>& use) {
  std::ifstream file(path);
  if (!file) return NotFoundError("'" + path + "' cannot be opened");
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    PERGOLA_RETURN_IF_ERROR(use(line, path + ":" + std::to_string(number)));
  }
  return file.bad() ? DataLossError("'" + path + "' cannot be read") : OkStatus();
}

Result<dom::object> ParseObject(dom::parser& parser, std::string_view line,
                                const std::string& place) {
  dom::object object;
  if (parser.parse(simdjson::padded_string(line)).get(object)) {
    return InvalidArgumentError(place + ": not a JSON object");
  }
  return object;
}

Result<std::string> Member(const dom::object& object, std::string_view name,
                           const std::string& place) {
  std::string_view value;
  if (object.at_key(name).get(value)) {
    return InvalidArgumentError(place + ": no string '" + std::string(name) + "'");
  }
  return std::string(value);
}

std::vector<std::string_view> SplitTabs(std::string_view line) {
  std::vector<std::string_view> parts;
  for (size_t tab = line.find('\t'); tab != line.npos; tab = line.find('\t')) {
    parts.push_back(line.substr(0, tab));
    line.remove_prefix(tab + 1);
  }
  parts.push_back(line);
  return parts;
}

std::optional<double> ParseNumber(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

using Indices = std::unordered_map<std::string, uint32_t>;

// Texts of a JSONL file with "_id"; `indices` gets the place of each.
Status ReadTexts(const std::string& path, std::vector<std::string>* texts, Indices* indices) {
  dom::parser parser;
  return ForEachLine(path, [&](std::string_view line, const std::string& place) -> Status {
    PERGOLA_ASSIGN_OR_RETURN(const dom::object object, ParseObject(parser, line, place));
    PERGOLA_ASSIGN_OR_RETURN(std::string id, Member(object, "_id", place));
    PERGOLA_ASSIGN_OR_RETURN(std::string text, Member(object, "text", place));
    std::string_view title;
    if (!object.at_key("title").get(title) && !title.empty()) {
      text.insert(0, std::string(title) + " ");
    }
    if (!indices->emplace(std::move(id), static_cast<uint32_t>(texts->size())).second) {
      return InvalidArgumentError(place + ": the same _id twice");
    }
    texts->push_back(std::move(text));
    return OkStatus();
  });
}

}  // namespace

Result<RetrievalDataset> ReadBeir(const std::string& folder, const std::string& split) {
  RetrievalDataset dataset;
  Indices documents;
  Indices all_queries;
  std::vector<std::string> query_texts;
  PERGOLA_RETURN_IF_ERROR(ReadTexts(folder + "/corpus.jsonl", &dataset.documents, &documents));
  PERGOLA_RETURN_IF_ERROR(ReadTexts(folder + "/queries.jsonl", &query_texts, &all_queries));
  std::map<uint32_t, std::map<uint32_t, double>> relevant;
  bool first = true;
  PERGOLA_RETURN_IF_ERROR(ForEachLine(
      folder + "/qrels/" + split + ".tsv",
      [&](std::string_view line, const std::string& place) -> Status {
        const std::vector<std::string_view> parts = SplitTabs(line);
        const auto score = parts.size() == 3 ? ParseNumber(parts[2]) : std::nullopt;
        const bool header = std::exchange(first, false) && parts.size() == 3 && !score;
        if (header) return OkStatus();
        if (!score) {
          return InvalidArgumentError(place + ": not query id, document id and score");
        }
        const auto query = all_queries.find(std::string(parts[0]));
        const auto document = documents.find(std::string(parts[1]));
        if (query == all_queries.end()) {
          return InvalidArgumentError(place + ": no query '" + std::string(parts[0]) + "'");
        }
        if (document == documents.end()) {
          return InvalidArgumentError(place + ": no document '" + std::string(parts[1]) + "'");
        }
        if (*score > 0.0) relevant[query->second][document->second] = *score;
        return OkStatus();
      }));
  for (auto& [query, gains] : relevant) {
    dataset.queries.push_back(std::move(query_texts[query]));
    dataset.relevant.push_back(std::move(gains));
  }
  if (dataset.queries.empty()) {
    return InvalidArgumentError(folder + ": no query has a relevant document");
  }
  return dataset;
}

Result<SimilarityDataset> ReadSimilarityPairs(const std::string& path) {
  SimilarityDataset dataset;
  dom::parser parser;
  PERGOLA_RETURN_IF_ERROR(
      ForEachLine(path, [&](std::string_view line, const std::string& place) -> Status {
        if (line.front() == '{') {
          PERGOLA_ASSIGN_OR_RETURN(const dom::object object, ParseObject(parser, line, place));
          PERGOLA_ASSIGN_OR_RETURN(std::string first, Member(object, "sentence1", place));
          PERGOLA_ASSIGN_OR_RETURN(std::string second, Member(object, "sentence2", place));
          double grade = 0.0;
          if (object.at_key("score").get(grade)) {
            return InvalidArgumentError(place + ": no number 'score'");
          }
          dataset.first.push_back(std::move(first));
          dataset.second.push_back(std::move(second));
          dataset.grades.push_back(grade);
          return OkStatus();
        }
        const std::vector<std::string_view> parts = SplitTabs(line);
        const auto grade = parts.size() == 3 ? ParseNumber(parts[2]) : std::nullopt;
        if (!grade) return InvalidArgumentError(place + ": not two texts and a grade");
        dataset.first.emplace_back(parts[0]);
        dataset.second.emplace_back(parts[1]);
        dataset.grades.push_back(*grade);
        return OkStatus();
      }));
  if (dataset.grades.size() < 2) return InvalidArgumentError(path + ": fewer than two pairs");
  return dataset;
}

}  // namespace pergola::eval
