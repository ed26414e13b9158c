#include "cli/frame_keys.h"

#include <utility>

#include "cli/whole_file.h"

namespace pergola::cli {

Result<std::unique_ptr<FrameKeys>> FrameKeys::Read(const std::string& api_key_file,
                                                   const std::string& join_key_file) {
  std::unique_ptr<FrameKeys> keys(new FrameKeys);
  if (!api_key_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(keys->api_, gateway::ApiKeys::Load(api_key_file));
  }
  if (!join_key_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(const std::string key, ReadKeyFile(join_key_file));
    keys->join_ = gateway::ApiKeys::Of(key);
  }
  return keys;
}

std::function<bool(std::string_view)> FrameKeys::Admission(std::function<void()> refused) const {
  if (!any()) return {};
  return [this, refused = std::move(refused)](std::string_view key) {
    const bool has = (api_ != nullptr && api_->Has(key)) || (join_ != nullptr && join_->Has(key));
    if (!has) refused();
    return has;
  };
}

Status FrameKeys::Reload() { return api_ == nullptr ? OkStatus() : api_->Reload(); }

}  // namespace pergola::cli
