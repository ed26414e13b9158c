#include "gateway/describe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "gateway/json_writer.h"
#include "gateway/route_table.h"

namespace pergola::gateway {
namespace {

// The Ollama release whose API the /api routes follow; clients compare it with what they need.
constexpr std::string_view kOllamaVersion = "0.12.0";

void Key(std::string_view name, std::string* out) {
  if (out->back() != '{' && out->back() != '[') out->push_back(',');
  AppendJsonString(name, out);
  out->push_back(':');
}

void Text(std::string_view name, std::string_view value, std::string* out) {
  Key(name, out);
  AppendJsonString(value, out);
}

void Number(std::string_view name, int64_t value, std::string* out) {
  Key(name, out);
  AppendJsonInteger(value, out);
}

// 2026-01-31T12:00:00Z
std::string Timestamp(int64_t unix_seconds) {
  constexpr int64_t kYear9999 = 253402300799;
  const std::time_t time =
      static_cast<std::time_t>(std::clamp<int64_t>(unix_seconds, 0, kYear9999));
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> buffer{};
  const size_t size = std::strftime(buffer.data(), buffer.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {buffer.data(), size};
}

// On the clock of people; far off for what stays.
std::string ExpiryTimestamp(service::Clock::time_point expires, service::Clock::time_point now) {
  if (expires == service::Clock::time_point::max()) return "9999-12-31T23:59:59Z";
  const auto left = std::chrono::duration_cast<std::chrono::system_clock::duration>(expires - now);
  return Timestamp(std::chrono::duration_cast<std::chrono::seconds>(
                       (std::chrono::system_clock::now() + left).time_since_epoch())
                       .count());
}

// "22.7M", "1.2B"
std::string ParameterSize(int64_t parameters) {
  std::string out;
  if (parameters >= 1'000'000'000) {
    AppendJsonFixed(static_cast<double>(parameters) / 1e9, 1, &out);
    return out + "B";
  }
  AppendJsonFixed(static_cast<double>(parameters) / 1e6, 1, &out);
  return out + "M";
}

void Details(const service::ModelInfo& info, std::string* out) {
  Key("details", out);
  out->push_back('{');
  Text("parent_model", "", out);
  Text("format", "", out);  // ModelInfo does not say
  Text("family", info.architecture, out);
  Key("families", out);
  out->push_back('[');
  AppendJsonString(info.architecture, out);
  out->push_back(']');
  Text("parameter_size", ParameterSize(info.parameters), out);
  Text("quantization_level", info.quantisation, out);
  out->push_back('}');
}

void OllamaModel(const service::ModelInfo& info, int64_t size, std::string* out) {
  Text("name", info.id, out);
  Text("model", info.id, out);
  Number("size", std::max<int64_t>(size, 1), out);
  Text("digest", info.file_sha256, out);
  Details(info, out);
}

// In the words of Ollama where it has them.
std::vector<std::string_view> Abilities(const service::ModelInfo& info) {
  std::vector<std::string_view> abilities;
  if (info.has(OutputKind::kEmbedding)) abilities.push_back("embedding");
  if (info.has(OutputKind::kSparse)) abilities.push_back("sparse");
  if (info.has(OutputKind::kMultiVector)) abilities.push_back("multi-vector");
  if (info.width(OutputKind::kLogits) == 1) abilities.push_back("rerank");
  if (info.width(OutputKind::kLogits) > 1) abilities.push_back("classification");
  return abilities;
}

// TEI's model_type: {"embedding":{...}}, {"reranker":{...}} or {"classifier":{...}}.
void ModelType(const service::ModelInfo& info, std::string* out) {
  Key("model_type", out);
  if (!info.has(OutputKind::kLogits)) {
    out->append("{\"embedding\":{");
    if (!info.pooling.empty()) Text("pooling", info.pooling, out);
    out->append("}}");
    return;
  }
  out->append(info.width(OutputKind::kLogits) == 1 ? "{\"reranker\":{" : "{\"classifier\":{");
  Key("id2label", out);
  out->push_back('{');
  for (size_t i = 0; i < info.labels.size(); ++i) Text(std::to_string(i), info.labels[i], out);
  out->push_back('}');
  Key("label2id", out);
  out->push_back('{');
  for (size_t i = 0; i < info.labels.size(); ++i) {
    Number(info.labels[i], static_cast<int64_t>(i), out);
  }
  out->append("}}}");
}

}  // namespace

std::string DescribeRoot(const RoutesOptions& options) {
  std::string out = "{";
  Text("status", "ok", &out);
  Text("name", "pergola", &out);
  Text("version", options.version, &out);
  Text("docs", "/docs", &out);
  Text("openapi", "/openapi.json", &out);
  Text("health", "/healthz", &out);
  Key("routes", &out);
  out.push_back('[');
  for (const Route& route : RouteTable()) {
    if (out.back() != '[') out.push_back(',');
    AppendJsonString(std::string(route.method) + " " + std::string(route.path), &out);
  }
  out.append("]}");
  return out;
}

std::string DescribeModelList(const RoutesOptions& options) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (const ServedModel& model : options.models) {
    if (out.back() != '[') out.push_back(',');
    out.append(DescribeModel(model));
  }
  out.append("]}");
  return out;
}

std::string DescribeModel(const ServedModel& model) {
  std::string out = "{";
  Text("id", model.info.id, &out);
  Text("object", "model", &out);
  Number("created", model.info.modified_unix_seconds, &out);
  Text("owned_by", "pergola", &out);
  out.push_back('}');
  return out;
}

std::string DescribeTags(const RoutesOptions& options) {
  std::string out = "{\"models\":[";
  for (const ServedModel& model : options.models) {
    out.append(out.back() == '[' ? "{" : ",{");
    OllamaModel(model.info, model.info.weight_bytes, &out);
    Text("modified_at", Timestamp(model.info.modified_unix_seconds), &out);
    out.push_back('}');
  }
  out.append("]}");
  return out;
}

std::string DescribeRunning(const RoutesOptions& options) {
  const service::Clock::time_point now = service::Clock::now();
  std::string out = "{\"models\":[";
  for (const ServedModel& model : options.models) {
    const service::Residence residence = model.service->residence();
    if (!residence.loaded) continue;
    out.append(out.back() == '[' ? "{" : ",{");
    OllamaModel(model.info, residence.bytes > 0 ? residence.bytes : model.info.weight_bytes, &out);
    Text("expires_at", ExpiryTimestamp(residence.expires, now), &out);
    Number("size_vram", 0, &out);
    Number("context_length", model.info.max_tokens, &out);
    out.push_back('}');
  }
  out.append("]}");
  return out;
}

std::string DescribeShow(const ServedModel& model) {
  const service::ModelInfo& info = model.info;
  std::string out = "{";
  Text("modelfile", "", &out);
  Text("parameters", "", &out);
  Text("template", "", &out);
  Text("modified_at", Timestamp(info.modified_unix_seconds), &out);
  Details(info, &out);
  Key("model_info", &out);
  out.push_back('{');
  Text("general.architecture", info.architecture, &out);
  Text("general.basename", info.id, &out);
  Number("general.parameter_count", info.parameters, &out);
  Number(info.architecture + ".context_length", info.max_tokens, &out);
  if (info.has(OutputKind::kEmbedding)) {
    Number(info.architecture + ".embedding_length", info.width(OutputKind::kEmbedding), &out);
  }
  Number(info.architecture + ".vocab_size", info.vocab_size, &out);
  out.push_back('}');
  out.append(",\"capabilities\":[");
  for (const std::string_view ability : Abilities(info)) {
    if (out.back() != '[') out.push_back(',');
    AppendJsonString(ability, &out);
  }
  out.append("]}");
  return out;
}

std::string DescribeOllamaVersion() {
  std::string out = "{";
  Text("version", kOllamaVersion, &out);
  out.push_back('}');
  return out;
}

std::string DescribeInfo(const RoutesOptions& options) {
  const ServedModel& model = options.models.front();
  std::string out = "{";
  Text("model_id", model.info.id, &out);
  Key("model_sha", &out);
  out.append("null");
  Text("model_dtype", model.info.quantisation, &out);
  ModelType(model.info, &out);
  Number("max_input_length", model.info.max_tokens, &out);
  Number("max_client_batch_size", options.max_batch_inputs, &out);
  Number("max_body_bytes", options.max_body_bytes, &out);
  Key("auto_truncate", &out);
  out.append("true");
  Number("tokenization_workers", options.num_workers, &out);
  Text("version", options.version, &out);
  Text("architecture", model.info.architecture, &out);
  Text("numeric_class", model.info.numeric_class, &out);
  Number("dimensions", model.info.width(OutputKind::kEmbedding), &out);
  Key("matryoshka_dimensions", &out);
  out.push_back('[');
  for (const int64_t width : model.info.matryoshka_widths) {
    if (out.back() != '[') out.push_back(',');
    AppendJsonInteger(width, &out);
  }
  out.push_back(']');
  Number("vocab_size", model.info.vocab_size, &out);
  Key("prompts", &out);
  out.push_back('{');
  for (const auto& [name, prompt] : model.text->config().prompts) Text(name, prompt, &out);
  out.push_back('}');
  Text("default_prompt_name", model.text->config().default_prompt_name, &out);
  Key("models", &out);
  out.push_back('[');
  for (const ServedModel& served : options.models) {
    if (out.back() != '[') out.push_back(',');
    AppendJsonString(served.info.id, &out);
  }
  out.append("]}");
  return out;
}

}  // namespace pergola::gateway
