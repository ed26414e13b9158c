#include "gateway/grid_pages.h"

#include <utility>

#include "gateway/failure.h"
#include "gateway/route_check.h"

namespace pergola::gateway {
namespace {

// Static: what it shows it asks the router for, every second.
constexpr char kPage[] = R"page(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Pergola grid</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884; }
#missing { color: #c33; }
</style>
<h1>Grid</h1>
<p id="model">asking the router ...</p>
<p id="missing" role="status"></p>
<table><thead><tr><th>server<th>parts<th>layers<th>in flight<th>calls<th>failures<th>memory</tr></thead>
<tbody id="members"></tbody></table>
<script>
async function show() {
  try {
    const grid = await (await fetch("/v1/grid", {headers: {accept: "application/json"}})).json();
    document.getElementById("model").textContent =
        grid.model ? `${grid.model}, ${grid.num_layers} layers, ${grid.numeric_class}` : "";
    document.getElementById("missing").textContent = grid.complete ? "" : `missing: ${grid.missing}`;
    const rows = grid.members.map(member => {
      const row = document.createElement("tr");
      for (const text of [member.url, member.capabilities.join(" "), (member.layers || []).join("-"),
                          member.in_flight, member.calls, member.failures,
                          `${(member.load.memory_bytes / 1e6).toFixed(0)} MB`]) {
        row.appendChild(document.createElement("td")).textContent = text;
      }
      return row;
    });
    document.getElementById("members").replaceChildren(...rows);
  } catch (error) {
    document.getElementById("missing").textContent = "the router does not answer";
  }
  setTimeout(show, 1000);
}
show();
</script>
</html>
)page";

constexpr std::string_view kFramePath = "/v1/ffn";
constexpr int kWorkers = 4;  // each waits for a server of the grid

bool IsOwn(std::string_view path) {
  return path == "/healthz" || path == "/readyz" || path == "/v1/grid" || path == kFramePath;
}

}  // namespace

GridPages::GridPages(const service::GridRegistry& registry, GridPagesOptions options)
    : registry_(registry), options_(std::move(options)), pool_(kWorkers) {}

HttpHandler::RouteCheck GridPages::Check(std::string_view method, std::string_view path) const {
  if (!IsOwn(path)) return options_.model_routes->Check(method, path);
  constexpr std::string_view kPages[] = {"/healthz", "/readyz", "/v1/grid"};
  RouteCheck check = CheckPage(method, path, kPages);
  check.needs_auth = path == "/v1/grid" || path == kFramePath;
  if (path != kFramePath) return check;
  check.path_known = true;
  check.allow = "POST";
  check.method_allowed = check.takes_body = method == "POST";
  check.other_media_type = kFrameMediaType;
  check.route = path;
  return check;
}

HttpResponse GridPages::RenderError(std::string_view path, int status,
                                    std::string_view message) const {
  if (!IsOwn(path)) return options_.model_routes->RenderError(path, status, message);
  return ErrorResponse(Envelope::kSplit, status, message);
}

HttpResponse GridPages::Grid(const HttpRequest& request) const {
  HttpResponse response;
  const auto accept = request.header("accept");
  const bool page = accept && accept->find("text/html") != std::string_view::npos;
  if (page) response.content_type = "text/html; charset=utf-8";
  response.headers.push_back({"cache-control", "no-store"});
  response.headers.push_back({"vary", "Accept"});
  response.body = page ? std::string(kPage) : registry_.GridJson();
  return response;
}

HttpResponse GridPages::Unavailable(std::string_view path) const {
  return RenderError(path, 503, "no server has " + options_.missing());
}

void GridPages::AnswerFrame(HttpRequest request, HttpRespond respond) {
  pool_.Post([this, request = std::move(request), respond = std::move(respond)] {
    HttpResponse response;
    response.content_type = kFrameMediaType;
    const service::SplitCall call{request.deadline, request.cancel.get()};
    const Status status = request.header("content-type") == kFrameMediaType
                              ? options_.answer_frame(request.body, call, &response.body)
                              : InvalidArgumentError("the body must be a frame");
    if (!status.ok()) {
      const int code = HttpStatusOf({status, "", "", false}, Envelope::kSplit);
      response = RenderError(request.path, code, status.message());
    }
    respond(std::move(response));
  });
}

void GridPages::Handle(HttpRequest request, HttpRespond respond) {
  if (request.path == "/v1/grid") return respond(Grid(request));
  if (request.path == kFramePath) return AnswerFrame(std::move(request), std::move(respond));
  const bool whole = request.path == "/readyz" || request.path == "/v1/stats";
  if (whole && !options_.missing().empty()) return respond(Unavailable(request.path));
  if (!IsOwn(request.path)) {
    if (!options_.has_model()) return respond(Unavailable(request.path));
    return options_.model_routes->Handle(std::move(request), std::move(respond));
  }
  HttpResponse response;
  response.body = "{\"status\":\"ok\"}";
  respond(std::move(response));
}

}  // namespace pergola::gateway
