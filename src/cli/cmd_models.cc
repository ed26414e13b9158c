#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/status_exit.h"
#include "core/json_text.h"
#include "hub/file_lock.h"
#include "hub/file_sink.h"
#include "hub/hub_config.h"
#include "hub/model_cache.h"
#include "hub/registry.h"

namespace pergola::cli {
namespace {

// A line of the list: a model of the registry, of the cache, or both.
struct Row {
  std::string name;
  std::string id;
  std::string licence;
  std::string description;
  int64_t bytes = 0;  // 0: not known before it is pulled
  std::string path;   // empty: not pulled
};

std::vector<Row> Rows(const hub::ModelCache& cache) {
  std::vector<Row> rows;
  for (const hub::RegistryModel& known : hub::RegistryModels()) {
    Row row{std::string(known.name),    known.reference().ToString(),
            std::string(known.licence), std::string(known.description),
            known.total_bytes(),        ""};
    rows.push_back(std::move(row));
  }
  for (const hub::CachedModel& model : cache.List()) {
    const std::string id = model.reference.ToString();
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.id == id; });
    if (row == rows.end()) row = rows.insert(rows.end(), Row{id, id, "", "", 0, ""});
    row->bytes = model.total_bytes();
    row->path = model.OpenPath().string();
  }
  return rows;
}

void PrintJson(const std::vector<Row>& rows) {
  std::string json = "[";
  for (const Row& row : rows) {
    json += (json.size() == 1 ? "\n" : ",\n") + ("  {\"name\":" + JsonString(row.name)) +
            ",\"id\":" + JsonString(row.id) + ",\"licence\":" + JsonString(row.licence) +
            ",\"description\":" + JsonString(row.description) +
            ",\"bytes\":" + (row.bytes == 0 ? "null" : std::to_string(row.bytes)) +
            ",\"pulled\":" + (row.path.empty() ? "false" : "true") +
            ",\"path\":" + (row.path.empty() ? "null" : JsonString(row.path)) + "}";
  }
  std::printf("%s\n]\n", json.c_str());
}

int ListModels(bool json) {
  const hub::ModelCache cache(hub::HubConfig::FromEnvironment().home);
  const std::vector<Row> rows = Rows(cache);
  if (json) {
    PrintJson(rows);
    return kExitOk;
  }
  size_t width = 5;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  const int columns = static_cast<int>(width);
  std::printf("%-*s  %9s  %-6s  %-11s  %s\n", columns, "MODEL", "SIZE", "PULLED", "LICENCE", "");
  for (const Row& row : rows) {
    std::printf("%-*s  %9s  %-6s  %-11s  %s\n", columns, row.name.c_str(),
                row.bytes == 0 ? "?" : hub::HumanBytes(row.bytes).c_str(),
                row.path.empty() ? "no" : "yes", row.licence.c_str(), row.description.c_str());
  }
  return kExitOk;
}

int RemoveModel(const std::string& name) {
  const hub::RegistryModel* known = hub::FindRegistryModel(name);
  const Result<hub::ModelReference> reference =
      known != nullptr ? known->reference() : hub::ParseModelReference(name);
  if (!reference.ok()) return Fail(reference.status());
  const hub::ModelCache cache(hub::HubConfig::FromEnvironment().home);
  const Result<hub::FileLock> lock = hub::FileLock::Acquire(cache.LockPath(*reference), [&] {
    std::fprintf(stderr, "waiting for a pull of %s\n", name.c_str());
  });
  if (!lock.ok()) return Fail(lock.status());
  const Status status = cache.Remove(*reference);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddModels(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("models", "List known and pulled models; remove one");
  command->require_subcommand(0, 1);
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "A JSON array instead of a table");
  command->callback([json, run, command] {
    if (command->get_subcommands().empty()) *run = [json] { return ListModels(*json); };
  });
  CLI::App* remove = command->add_subcommand("rm", "Delete a model from the cache");
  auto name = std::make_shared<std::string>();
  remove->add_option("model", *name, "Registry name or organisation/name[:variant]")->required();
  remove->callback([name, run] { *run = [name] { return RemoveModel(*name); }; });
}

}  // namespace pergola::cli
