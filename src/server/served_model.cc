#include "server/served_model.h"

#include <string>

namespace pergola::server {

Result<const ServedModel*> FindModel(const std::vector<ServedModel>& models,
                                     std::string_view name) {
  for (const ServedModel& model : models) {
    if (name.empty() || model.info.id == name) return &model;
  }
  return NotFoundError("model '" + std::string(name) + "' is not served here");
}

}  // namespace pergola::server
