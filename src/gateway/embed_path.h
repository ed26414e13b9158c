// The one path of every embedding route: which model, which prompt, how many dimensions and tokens,
// in which type. All rules of docs/http.md that are about the request live here, none in a dialect.
//
//   PreparedEmbed prepared;
//   if (MaybeFailure failure = PrepareEmbed(options, std::move(call), given_up, &prepared)) ...
//   prepared.model->service->Submit(std::move(prepared.request), ...);
#pragma once

#include <memory>
#include <string_view>

#include "gateway/dialect.h"
#include "gateway/routes.h"

namespace pergola::gateway {

// The served model that a request names (rule 11). NOT_FOUND with code "model_not_found".
// `exact`: the name must be one that is served, whatever the options (GET /v1/models/{id}).
MaybeFailure ResolveModel(const RoutesOptions& options, std::string_view name, bool exact,
                          const ServedModel** model);

// Rule 13: what `model` is asked for and cannot do; names what it can.
Failure LacksAbility(const ServedModel& model, std::string_view ability);

struct PreparedEmbed {
  const ServedModel* model = nullptr;
  service::InferenceRequest request;    // sequences only; deadline and cancel are the caller's
  std::shared_ptr<EmbedAnswer> answer;  // all but rows and times
};

// Checks and tokenises: takes as long as tokenising the texts up to the model's limit. `given_up`
// is asked before each of them: a long prompt before many texts is work out of proportion to the
// body.
MaybeFailure PrepareEmbed(const RoutesOptions& options, EmbedCall call, const GivenUp& given_up,
                          PreparedEmbed* prepared);

// A new EmbedAnswer::id. Thread-safe.
std::string MakeAnswerId();

// Puts the rows into the answer. INTERNAL when the service broke its promise or a number is not
// finite.
Status TakeRows(service::InferenceOutput output, EmbedAnswer* answer);

}  // namespace pergola::gateway
