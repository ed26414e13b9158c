#!/usr/bin/env python3
"""`pergola serve` and its peers over HTTP on the same cores: every length with every number of clients.

http_servers.py [--pergola P] [--only SUBSTRING] [--lengths ...] [--clients ...] [--seconds S] [--results FILE]

Peers: llama.cpp's own server where --llama-server names it, else the one of llama-cpp-python; sentence-transformers
behind FastAPI (st_server.py). All stay loaded; `pergola bench server --against` takes turns between Pergola and one
peer, compares their vectors first and gives each --seconds twice. The tables say how many times the peer's tokens/s
Pergola reaches. Cells are kept in --results as they come: what is there already is not measured again. With the default
flags MiniLM takes some 5 minutes and EmbeddingGemma, of which long texts are left to few clients, as long.
Run by `bench/peers/run.sh --http`.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from arguments import integers, parser_of

HERE = pathlib.Path(__file__).resolve().parent
MINILM, GEMMA = "all-MiniLM-L6-v2", "embeddinggemma-300m"
# Tokens that wait at once: beyond, one cell takes minutes.
MOST_TOKENS = {MINILM: 1 << 20, GEMMA: 4096}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Server:
    def __init__(self, name, command, port, variables=None):
        self.name, self.url = name, f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(list(map(str, command)), env={**os.environ, **(variables or {})},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def await_ready(self):
        body = json.dumps({"input": "ready?", "model": "m"}).encode()
        until = time.monotonic() + 300
        while time.monotonic() < until and self.process.poll() is None:
            try:
                request = urllib.request.Request(self.url + "/v1/embeddings", body, {"Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=60):
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.3)
        sys.exit(f"{self.name} does not answer")

    def stop(self):
        self.process.kill()
        self.process.wait()


def start_servers(args, model):
    """Pergola first."""
    folder, gguf = args.models / model, args.home / "gguf" / f"{model}-dense-F32.gguf"
    if not gguf.exists():  # the model has no layers after pooling
        gguf = args.home / "gguf" / f"{model}-F32.gguf"
    threads = os.cpu_count()
    ports = [free_port() for _ in range(3)]
    servers = [Server("pergola", [args.pergola, "serve", "--model", folder, "--port", ports[0], "--cache-mib", 0],
                      ports[0], {"PERGOLA_OFFLINE": "1"})]
    common = ["--host", "127.0.0.1", "--port", ports[1]]
    if args.llama_server:
        servers.append(Server("llama-server", [args.llama_server, "-m", gguf, "--embedding", "-t", threads, "-c",
                                               32 * 2048, "-np", 32, "-b", 2048, "-ub", 2048, *common], ports[1]))
    else:
        toolchain = args.home / "gguf" / "toolchain"
        servers.append(Server(
            "llama-cpp-python", [sys.executable, "-m", "llama_cpp.server", "--model", gguf, "--embedding", "true",
                                 "--n_ctx", 2048, "--n_batch", 2048, "--n_ubatch", 2048, "--n_threads", threads,
                                 "--n_threads_batch", threads, *common], ports[1],
            {"LLAMA_CPP_LIB_PATH": str(toolchain / "lib"), "PYTHONPATH": str(toolchain / "source")}))
    servers.append(Server("sentence-transformers", [sys.executable, HERE / "st_server.py", folder, ports[2], threads],
                          ports[2]))
    return servers


def measure(args, folder, servers, peer, length, clients):
    """[of Pergola, of the peer], or None: the model does not take that length."""
    command = [args.pergola, "bench", "server", "--model", folder, "--offline", "--url", servers[0].url, "--against",
               peer.url, "--lengths", length, "--clients", clients, "--seconds", args.seconds, "--json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{peer.name}, {length} tokens, {clients} clients: {done.stderr.strip()}")
    cells = [json.loads(line) for line in done.stdout.splitlines()]
    if cells and any(cell["errors"] or not cell["requests"] for cell in cells):
        sys.exit(f"{peer.name}, {length} tokens, {clients} clients: {cells}")
    return cells or None


def print_table(model, peers, results):
    print(f"\n### {model}: tokens/s of pergola (times that of " + ", ".join(peers) + ")\n")
    keys = sorted({key[2:] for key in results if key[0] == model})
    clients = sorted({key[1] for key in keys})
    print("| tokens | " + " | ".join(f"{each} clients" for each in clients) + " |\n|" + "---|" * (len(clients) + 1))
    behind = 0
    for length in sorted({key[0] for key in keys}):
        row = []
        for each in clients:
            cells = [results[model, peer, length, each] for peer in peers if (model, peer, length, each) in results]
            ratios = [cell["ours"] / cell["theirs"] for cell in cells]
            behind += sum(ratio < 1 for ratio in ratios)
            shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            row.append(f"{max(cell['ours'] for cell in cells):.0f} ({shown})" if cells else "-")
        print(f"| {length} | " + " | ".join(row) + " |")
    print(f"\nCells in which a peer is ahead: {behind}")


def main():
    parser = parser_of(__doc__, "models whose name", [8, 32, 128, 256, 512, 2048], "of a cell and server, twice")
    parser.add_argument("--models", type=pathlib.Path, help="folder of scripts/real_models.sh")
    parser.add_argument("--llama-server", help="llama.cpp's server, if it is there")
    parser.add_argument("--clients", type=integers, default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--results", type=pathlib.Path, help="JSON lines; cells that are there are kept")
    args = parser.parse_args()
    results = {}
    if args.results and args.results.exists():
        for line in args.results.read_text().splitlines():
            cell = json.loads(line)
            results[cell["model"], cell["peer"], cell["length"], cell["clients"]] = cell
    for model in (MINILM, GEMMA):
        if args.only not in model:
            continue
        servers = start_servers(args, model)
        try:
            for server in servers:
                server.await_ready()
            for length in args.lengths:
                for clients in args.clients:
                    if length * clients > MOST_TOKENS[model]:
                        continue
                    for peer in servers[1:]:
                        key = (model, peer.name, length, clients)
                        if key in results:
                            continue
                        cells = measure(args, args.models / model, servers, peer, length, clients)
                        if cells is None:
                            continue
                        results[key] = dict(zip(("model", "peer", "length", "clients"), key),
                                            ours=cells[0]["tokens_per_s"], theirs=cells[1]["tokens_per_s"],
                                            our_ms_p50=cells[0]["ms_p50"], their_ms_p50=cells[1]["ms_p50"],
                                            cosine=cells[0]["cosine"])
                        if args.results:
                            with open(args.results, "a", encoding="utf-8") as file:
                                file.write(json.dumps(results[key]) + "\n")
        finally:
            for server in servers:
                server.stop()
        print_table(model, [server.name for server in servers[1:]], results)


if __name__ == "__main__":
    main()
