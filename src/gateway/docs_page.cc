// The page is static: what it shows of the server (its model, its routes) it asks the server for.
#include "gateway/docs_page.h"

namespace pergola::gateway {
namespace {

constexpr char kPage[] = R"page(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Pergola</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #2a7d4f; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { margin: 0; font-size: 1.9rem; } h1 span { color: var(--accent); }
h2 { margin-top: 2.4rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; font-size: 1.2rem; }
code, pre, textarea, input, select { font: 14px/1.5 ui-monospace, monospace; }
pre { background: var(--soft); padding: .8rem 1rem; border-radius: .5rem; overflow: auto; max-height: 24rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
textarea { width: 100%; min-height: 9rem; box-sizing: border-box; padding: .6rem; border: 1px solid var(--line); border-radius: .5rem; background: transparent; color: inherit; }
select, input { padding: .35rem .5rem; border: 1px solid var(--line); border-radius: .4rem; background: transparent; color: inherit; }
option { color: #111; background: #fff; }
button { padding: .5rem 1.4rem; border: 0; border-radius: .4rem; background: var(--accent); color: #fff; font: inherit; cursor: pointer; }
.row { display: flex; gap: .8rem; flex-wrap: wrap; align-items: center; margin: .6rem 0; }
.dim { opacity: .7; }
</style>
<h1><span>Pergola</span></h1>
<p id="model" class="dim">asking the server ...</p>

<h2>Try it</h2>
<form id="form">
  <div class="row">
    <select id="route" aria-label="Route"></select>
    <input id="key" type="password" placeholder="API key, if the server wants one" aria-label="API key" autocomplete="off" size="30">
    <button>Send</button>
  </div>
  <textarea id="body" spellcheck="false" aria-label="Body of the request"></textarea>
</form>
<p id="result" class="dim" role="status"></p>
<pre id="answer" hidden></pre>

<h2>From the shell</h2>
<pre id="curl"></pre>

<h2>Routes</h2>
<table>
<tr><th>Clients<th>Routes
<tr><td>OpenAI, Jina, Voyage, Perplexity<td><code>POST /v1/embeddings</code> <code>POST /embeddings</code> <code>GET /v1/models</code> <code>GET /v1/models/{id}</code> <code>POST /v1/rerank</code> <code>POST /v1/contextualizedembeddings</code>
<tr><td>Ollama<td><code>POST /api/embed</code> <code>POST /api/embeddings</code> <code>GET /api/tags</code> <code>GET /api/ps</code> <code>POST /api/show</code> <code>GET /api/version</code>
<tr><td>Text Embeddings Inference<td><code>POST /embed</code> <code>POST /</code> <code>POST /embed_all</code> <code>POST /embed_sparse</code> <code>POST /similarity</code> <code>POST /rerank</code> <code>POST /predict</code> <code>POST /tokenize</code> <code>POST /decode</code> <code>GET /info</code> <code>GET /health</code>
<tr><td>Cohere<td><code>POST /v2/embed</code> <code>POST /v2/rerank</code> <code>POST /v1/embed</code>
<tr><td>vLLM<td><code>POST /score</code>
<tr><td>Service<td><code>GET /</code> <code>GET /healthz</code> <code>GET /readyz</code> <code>GET /metrics</code> <code>GET /docs</code> <code>GET /openapi.json</code>
</table>
<p>All bodies, answers and errors are described in <a href="/openapi.json">/openapi.json</a>.</p>

<script>
const samples = {
  "/v1/embeddings": { model: "MODEL", input: ["first text", "second text"], dimensions: null, encoding_format: "float" },
  "/api/embed": { model: "MODEL", input: "why is the sky blue?" },
  "/embed": { inputs: ["first text", "second text"], normalize: true },
  "/v2/embed": { model: "MODEL", texts: ["first text"], input_type: "search_document", embedding_types: ["float", "int8"] },
  "/similarity": { inputs: { source_sentence: "What is deep learning?", sentences: ["A kind of machine learning.", "Apple pie."] } },
  "/score": { model: "MODEL", text_1: "What is deep learning?", text_2: ["A kind of machine learning.", "Apple pie."] },
  "/tokenize": { inputs: "Hello world" },
  "/decode": { ids: [[1, 2, 3]] },
};
const $ = id => document.getElementById(id);
let model = "default";
const key = () => $("key").value ? { Authorization: "Bearer " + $("key").value } : {};
function show() {
  const text = JSON.stringify(samples[$("route").value], null, 2).replaceAll("MODEL", model);
  $("body").value = text;
  curl();
}
function curl() {
  const quoted = $("body").value.replace(/\s*\n\s*/g, " ").replaceAll("'", "'\\''");
  $("curl").textContent = "curl " + location.origin + $("route").value + " \\\n  -H 'Content-Type: application/json' \\\n  -d '" + quoted + "'";
}
for (const path in samples) $("route").add(new Option("POST " + path, path));
$("route").onchange = show;
$("body").oninput = curl;
$("form").onsubmit = async event => {
  event.preventDefault();
  const started = performance.now();
  $("result").textContent = "waiting ...";
  try {
    const response = await fetch($("route").value, { method: "POST", body: $("body").value, headers: { "Content-Type": "application/json", ...key() } });
    const text = await response.text();
    $("result").textContent = response.status + " " + response.statusText + ", " + text.length + " bytes, " + (performance.now() - started).toFixed(1) + " ms";
    $("answer").textContent = text.length > 20000 ? text.slice(0, 20000) + " ..." : text;
    $("answer").hidden = false;
  } catch (problem) {
    $("result").textContent = String(problem);
  }
};
async function about() {
  const response = await fetch("/info", { headers: key() });
  if (!response.ok) { $("model").textContent = "The server wants an API key."; return; }
  const info = await response.json();
  model = info.model_id;
  $("model").textContent = `${info.model_id} (${info.architecture}, ${info.dimensions} dimensions, ${info.max_input_length} tokens), version ${info.version}`;
  show();
}
$("key").onchange = about;
show();
about();
</script>
</html>
)page";

}  // namespace

std::string DocsPage() { return kPage; }

}  // namespace pergola::gateway
