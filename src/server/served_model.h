// What a server offers of one model.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "pergola/status.h"
#include "service/inference_service.h"
#include "text/text_model.h"

namespace pergola::server {

struct ServedModel {
  // Second owner: whoever started it and shuts it down.
  std::shared_ptr<service::InferenceService> service;
  service::ModelInfo info;
  // For interfaces that take texts; second owner: as above. Null: ids only.
  std::shared_ptr<const text::TextModel> text;
};

// The model called `name`, the first for an empty name. NOT_FOUND.
Result<const ServedModel*> FindModel(const std::vector<ServedModel>& models, std::string_view name);

}  // namespace pergola::server
