// A hub of the Hugging Face layout:
//
//   GET <endpoint>/api/models/<id>/tree/<revision>?recursive=true   files, sizes, checksums
//   GET <endpoint>/<id>/resolve/<revision>/<path>                    a file, usually by a redirect
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hub/hub_config.h"
#include "hub/model_source.h"
#include "hub/registry.h"

namespace pergola::hub {

// Makes the source for one model. With a registry entry that has files these are fetched, and no
// listing is asked for; else List() asks the hub and selects. `registry_model` may be null; it and
// `config` must outlive the source.
std::unique_ptr<ModelSource> MakeHubSource(const HubConfig& config, ModelReference reference,
                                           std::string revision,
                                           const RegistryModel* registry_model);

// The files of a hub listing that Pergola needs: one GGUF file if `variant` names it or nothing
// else is there; otherwise safetensors weights (model.safetensors, or its shards) with the JSON,
// text and tokenizer files at the root and in module folders such as "1_Pooling".
//
// NOT_FOUND: no weights, or no GGUF file of that variant; INVALID_ARGUMENT: several fit, listed.
Result<SourceListing> SelectFiles(const std::vector<RemoteFile>& all, std::string_view variant);

// Reads one page of a tree listing. DATA_LOSS: not such JSON; INVALID_ARGUMENT: an unsafe file
// name.
Result<std::vector<RemoteFile>> ParseTree(std::string_view json);

}  // namespace pergola::hub
