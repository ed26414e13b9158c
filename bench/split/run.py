#!/usr/bin/env python3
"""Speed, memory and traffic of a split language model, on one machine.

run.py [--build DIR] [--model M] [--tokens N] [--rtt MS,MS] [--clients N,N] [--only PART,PART] [--json FILE]

Parts: `rows` (embedding rows, frames, JSON), `hop` (a framed call less a TCP echo in the same run), `logits` (share of
the read bandwidth, and 8 rows against one), `decode` (split against whole, in turns), `memory` (resident and
proportional size of every process; what the client has mapped), `wire` (bytes per row and the error of each payload
type), `rtt` (emulated round trips through a relay). Every answer is checked before its time counts: the benchmarks
check themselves, and split tokens must be those of the whole model. Prints a table.

The processes are servers on 127.0.0.1 from slices in a temporary folder; all end with the script.
"""

import argparse
import asyncio
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "split"))
from part_process import PartProcess, port_of  # noqa: E402

PROMPT = "The capital of France is"
PARTS = ("rows", "hop", "logits", "decode", "memory", "wire", "rtt")


class Table:
    def __init__(self):
        self.rows = []

    def add(self, part, what, value, unit="", wanted=""):
        self.rows.append({"part": part, "what": what, "value": value, "unit": unit, "wanted": wanted})
        print(f"| {part} | {what} | {value} {unit} | {wanted} |", flush=True)


def benchmark(binary, pattern, seconds):
    """The counters of google-benchmark's cases by name; a case that failed its own check ends the run."""
    done = subprocess.run([binary, f"--benchmark_filter={pattern}", f"--benchmark_min_time={seconds}",
                           "--benchmark_format=json"], capture_output=True, text=True, check=True)
    cases = {}
    for case in json.loads(done.stdout)["benchmarks"]:
        if case.get("error_occurred"):
            sys.exit(f"{case['name']}: {case['error_message']}")
        cases[case["name"]] = case
    return cases


def measure_rows(build, table):
    for name, case in benchmark(build / "grid_benchmark", "BM_(EmbedRows|IdsFrame|RowFrame)", 0.2).items():
        wanted = {"BM_EmbedRows/1": "< 2 us",
                  "BM_EmbedRowsShared/rows:512/threads:2/manual_time": "< 300 us"}.get(name, "")
        clock = "real_time" if name.endswith("manual_time") else "cpu_time"
        label = f"{name} {case.get('label', '')}".strip()
        size = f", {case['bytes']:.0f} bytes" if "bytes" in case else ""
        table.add("rows", label + size, f"{case[clock] / 1000:.3f}", "us", wanted)
    for name, case in benchmark(build / "gateway_benchmark", "BM_JsonRows", 0.2).items():
        table.add("rows", name, f"{case['bytes_per_second'] / 1e9:.2f}", "GB/s of text", "> 1 GB/s")


def measure_hop(build, table):
    for name, case in benchmark(build / "grid_benchmark", "BM_Hop", 0.5).items():
        table.add("hop", f"{name} p50 {case['hop_us']:.1f} us, echo {case['echo_us']:.1f} us",
                  f"{case['beyond_us']:.1f}", "us beyond", "< 30 us")


def measure_logits(build, table):
    times = {}
    for name, case in benchmark(build / "kernels_benchmark", "BM_LinearInPlace/.*", 0.1).items():
        kind, dtype, shape, kernels, threads = name.split("/")[:5]
        rows = int(shape.split("x")[0])
        times[dtype, kernels, threads, rows] = case["real_time"]
        if rows == 1:
            table.add("logits", f"{dtype} {shape} {kernels} {threads}", f"{case['read']:.2f}",
                      "of the read bandwidth", ">= 0.85")
        else:
            ratio = case["real_time"] / times[dtype, kernels, threads, 1]
            table.add("logits", f"{dtype} {rows} rows against one, {kernels} {threads}", f"{ratio:.2f}", "x", "< 1.6")


def memory_mb(pid):
    """Resident and proportional size."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return [int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M).group(1)) / 1024 for name in ("Rss", "Pss")]


class Split:
    """A model cut into slices, served by an embed part and two servers of layers."""

    def __init__(self, pergola, model, folder):
        self.pergola, self.model, self.folder = pergola, model, folder
        self.slice("embed", "embed")
        self.slice("client", "client")
        facts = json.loads((folder / "client" / "index.json").read_text())
        self.layers, self.width = facts["num_layers"], facts["hidden_size"]
        half = self.layers // 2
        self.slice("ffn", "low", "--layers", f"0-{half - 1}")
        self.slice("ffn", "high", "--layers", f"{half}-{self.layers - 1}")
        self.servers = [PartProcess(pergola, "--role", "embed", "--port", 0, "--model", folder / "embed"),
                        PartProcess(pergola, "--role", "ffn", "--model", folder / "low"),
                        PartProcess(pergola, "--role", "ffn", "--model", folder / "high")]

    def slice(self, part, name, *args):
        subprocess.run([self.pergola, "slice", self.model, "--part", part, "-o", self.folder / name, *args],
                       check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        for server in self.servers:
            server.stop()

    def whole(self, tokens):
        return ["--model", self.model, *self.ask(tokens)]

    def split(self, tokens, *args, urls=None):
        embed, low, high = urls or [server.url for server in self.servers]
        return ["--model", self.folder / "client", "--attention-only", "--embed", embed, "--ffn", f"{low},{high}",
                *self.ask(tokens), *args]

    def ask(self, tokens):
        return ["--prompt", PROMPT, "--max-tokens", str(tokens), "--ignore-end", "--json", "--profile", "--offline"]

    def predict(self, args):
        return self.predict_at_once(args, 1)[0]

    def predict_at_once(self, args, count):
        """The answers of `count` clients that run at the same time."""
        clients = [subprocess.Popen([self.pergola, "predict", *map(str, args)], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True) for _ in range(count)]
        said = [client.communicate() for client in clients]
        for client, (_, errors) in zip(clients, said):
            if client.returncode != 0:
                sys.exit(errors)
        return [json.loads(out) for out, _ in said]


def measure_decode(split, tokens, table):
    kinds = {"whole": split.whole(tokens), "split": split.split(tokens)}
    speeds = {kind: [] for kind in kinds}
    profile = {}
    for _ in range(5):  # in turns: a slower moment meets both
        answers = {kind: split.predict(args) for kind, args in kinds.items()}
        if answers["split"]["generated"] != answers["whole"]["generated"]:
            sys.exit("split tokens are not those of the whole model")
        for kind, answer in answers.items():
            speeds[kind].append(answer["profile"]["tokens_per_second"])
            profile[kind] = answer["profile"]["per_token"]
    best = {kind: max(values) for kind, values in speeds.items()}
    for kind, values in speeds.items():
        parts = ", ".join(f"{name[:-3]} {value:.2f}" for name, value in profile[kind].items())
        table.add("decode", f"{kind}, best of {len(values)}; ms per token: {parts}", f"{max(values):.1f}", "tokens/s")
    table.add("decode", "split against whole", f"{best['split'] / best['whole']:.2f}", "", ">= 0.70")


def mapped_files(pid):
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    return {line.split(None, 5)[5] for line in maps.splitlines() if len(line.split(None, 5)) == 6}


def watch(process):
    """The largest resident and proportional size of a process, and the files that it had mapped."""
    rss = pss = 0
    files = set()
    while process.poll() is None:
        try:
            now = memory_mb(process.pid)
            files |= mapped_files(process.pid)
        except (FileNotFoundError, ProcessLookupError, AttributeError, PermissionError):
            break
        rss, pss = max(rss, now[0]), max(pss, now[1])
        time.sleep(0.02)
    process.wait()
    return rss, pss, files


def measure_memory(split, table):
    names = ("embed", "ffn low", "ffn high")
    for name, server in zip(names, split.servers):
        table.add("memory", f"{name}: ready after {server.ready_ms:.0f} ms, resident when idle",
                  f"{memory_mb(server.process.pid)[0]:.1f}", "MB")
    peaks = {}
    for kind, args in (("whole", split.whole(64)), ("client", split.split(64))):
        process = subprocess.Popen([split.pergola, "predict", *map(str, args)], stdout=subprocess.DEVNULL)
        peaks[kind] = watch(process)
        table.add("memory", f"{kind}: largest resident, proportional {peaks[kind][1]:.0f} MB", f"{peaks[kind][0]:.0f}",
                  "MB")
    table.add("memory", "client against whole", f"{peaks['client'][0] / peaks['whole'][0]:.2f}", "", "< 0.30")
    models = sorted(file for file in peaks["client"][2] if file.endswith((".gguf", ".safetensors", ".bin")))
    strangers = [file for file in models if not file.startswith(str(split.folder / "client"))]
    if strangers or not models:
        sys.exit(f"the client has mapped {models}")
    table.add("memory", "model files mapped by the client: all of its slice", str(len(models)), "files", "its slice")
    for name, server in zip(names, split.servers):
        rss, pss = memory_mb(server.process.pid)
        table.add("memory", f"{name}: resident after answering, proportional {pss:.0f} MB", f"{rss:.0f}", "MB")


def measure_wire(split, tokens, table):
    answer = split.predict(split.split(tokens, "--verify", split.model))
    expected = {"f32": 4 * split.width, "bf16": 2 * split.width, "i8": split.width + 4 * ((split.width + 31) // 32)}
    for row in answer["verify"]:
        if row["bytes_per_row"] != expected[row["payload"]]:
            sys.exit(f"{row} has not {expected[row['payload']]} bytes a row")
        same = "same tokens" if row["same_tokens"] else f"differs at token {row['first_difference']}"
        table.add("wire", f"{row['payload']} (and 64 of header); logits off by {row['largest_error']:.3g} at most, "
                  f"{row['rms_error']:.3g} rms; {same}", f"{row['bytes_per_row']:.0f}", "bytes a row")


class Relay:
    """Passes bytes to 127.0.0.1:port and back, half the round trip later each way; threads of its own."""

    def __init__(self, ports, rtt_ms):
        self.delay = rtt_ms / 2000
        self.loop = asyncio.new_event_loop()
        self.urls = []
        ready = threading.Event()

        async def start():
            for port in ports:
                server = await asyncio.start_server(lambda r, w, to=port: self.serve(r, w, to), "127.0.0.1", 0)
                self.urls.append(f"pergola://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            ready.set()

        self.loop.create_task(start())
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        ready.wait()

    async def serve(self, reader, writer, port):
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(self.copy(reader, there_writer), self.copy(there_reader, writer))

    async def copy(self, reader, writer):
        while data := await reader.read(1 << 18):
            self.loop.call_later(self.delay, writer.write, data)
        self.loop.call_later(self.delay + 0.01, writer.close)

    def stop(self):
        async def end():  # of the connections, which the client has closed
            if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(tasks, timeout=5)
        asyncio.run_coroutine_threadsafe(end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)


def measure_rtt(split, rtts, counts, table):
    tokens = 16
    whole = split.predict(split.whole(tokens))["generated"]
    for rtt in rtts:
        relay = Relay([port_of(server.url) for server in split.servers], rtt)
        answers = {count: split.predict_at_once(split.split(tokens, "--threads", "1", urls=relay.urls), count)
                   for count in (1, *counts)}
        relay.stop()
        if any(answer["generated"] != whole for each in answers.values() for answer in each):
            sys.exit("tokens through the relay are not those of the whole model")
        answer = answers[1][0]
        # A token waits for every layer, for its row and for its logits.
        least = (split.layers + 2) * rtt
        per_token = answer["profile"]["decode_ms"] / answer["profile"]["decoded_tokens"]
        table.add("rtt", f"{rtt:g} ms emulated: {1000 / per_token:.1f} tokens/s; layers + 2 round trips are "
                  f"{least:.0f} ms", f"{per_token:.1f}", "ms a token")
        # Servers answer the rows of all who wait for a layer together.
        for count in counts:
            profiles = [each["profile"] for each in answers[count]]
            speed = 1000 * sum(each["decoded_tokens"] for each in profiles) / max(each["decode_ms"] for each in profiles)
            table.add("rtt", f"{rtt:g} ms emulated, {count} clients at once: {speed * per_token / 1000:.2f} times the "
                      "tokens of one", f"{speed:.1f}", "tokens/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--model", default="gemma-3-270m")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rtt", default="0.2,5,20")
    parser.add_argument("--clients", default="2,4,8", help="how many ask at once over a round trip")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"unknown parts {', '.join(sorted(unknown))}; known are {', '.join(PARTS)}")
    table = Table()
    print("| part | what | measured | wanted |\n|---|---|---|---|")
    for part, measure in (("rows", measure_rows), ("hop", measure_hop), ("logits", measure_logits)):
        if part in wanted:
            measure(options.build, table)
    if set(wanted) & {"decode", "memory", "wire", "rtt"}:
        with tempfile.TemporaryDirectory() as temp:
            split = Split(options.build / "pergola", options.model, pathlib.Path(temp))
            try:
                if "memory" in wanted:  # first: nothing has been asked yet
                    measure_memory(split, table)
                if "decode" in wanted:
                    measure_decode(split, options.tokens, table)
                if "wire" in wanted:
                    measure_wire(split, options.tokens, table)
                if "rtt" in wanted:
                    measure_rtt(split, [float(rtt) for rtt in options.rtt.split(",")],
                                [int(count) for count in options.clients.split(",")], table)
            finally:
                split.stop()
    if options.json:
        options.json.write_text(json.dumps(table.rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
