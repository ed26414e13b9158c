// The one list of what this server answers: routing, 405, authentication, error bodies,
// /openapi.json and the start page are all made from it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "gateway/dialect.h"
#include "gateway/failure.h"

namespace pergola::gateway {

// What answers a route that is no embedding route.
enum class Action {
  kEmbed,  // `parse` of the route
  kCohereV1Embed,
  kTokenize,
  kDecode,
  kRoot,
  kHealthz,
  kReadyz,
  kMetrics,
  kDocs,
  kOpenApi,
  kModelList,
  kModel,
  kTags,
  kRunning,
  kShow,
  kVersion,
  kInfo,
};

using ParseEmbed = MaybeFailure (*)(const JsonValue&, const ParseLimits&, EmbedCall*);

struct Route {
  std::string_view method;  // "GET" (HEAD too) or "POST"
  std::string_view path;    // ends in "/{id}" for a path with a rest of any form
  Action action;
  Envelope envelope;
  ParseEmbed parse = nullptr;  // kEmbed only
  // For /openapi.json: names of schemas, and a sentence.
  std::string_view tag;
  std::string_view summary;
  std::string_view request_schema = "";
  std::string_view response_schema = "";

  bool takes_body() const { return method == "POST"; }
};

std::span<const Route> RouteTable();

// nullptr: no such route. `path_known`, when not null, tells whether another method has it.
const Route* FindRoute(std::string_view method, std::string_view path);

// "GET, HEAD, POST" of a path; empty for an unknown one.
std::string AllowedMethods(std::string_view path);

// The error body of a path, known or not.
Envelope EnvelopeOf(std::string_view path);

// The pattern of the path for metrics and logs; "(unknown)" when there is none.
std::string_view PatternOf(std::string_view path);

}  // namespace pergola::gateway
