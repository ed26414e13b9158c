// Text tables of bytes: \r \n \t \\ and \xNN.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace pergola::gateway::testing {

inline std::string Unescaped(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      bytes.push_back(text[at]);
      continue;
    }
    const char kind = text[++at];
    if (kind == 'x' && at + 2 < text.size()) {
      bytes.push_back(
          static_cast<char>(std::stoi(std::string(text.substr(at + 1, 2)), nullptr, 16)));
      at += 2;
    } else {
      bytes.push_back(kind == 'r' ? '\r' : kind == 'n' ? '\n' : kind == 't' ? '\t' : kind);
    }
  }
  return bytes;
}

// Rows of tab-separated fields; lines that begin with '#' are comments. Empty if there is no such
// file.
inline std::vector<std::vector<std::string>> ReadTable(const std::string& path) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::vector<std::string> row;
    size_t begin = 0;
    for (size_t tab; (tab = line.find('\t', begin)) != std::string::npos; begin = tab + 1) {
      row.push_back(line.substr(begin, tab - begin));
    }
    row.push_back(line.substr(begin));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace pergola::gateway::testing
