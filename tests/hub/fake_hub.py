#!/usr/bin/env python3
"""A hub of the Hugging Face layout on 127.0.0.1 that misbehaves on demand.

The organisation/name of the model says how it behaves (see BEHAVIOURS). Prints one JSON line
{"hub": port, "cdn": port} when it listens. The second port plays the storage host to which a hub
redirects. GET /_log gives all requests so far; GET /_release lets held transfers go on.
"""

import hashlib
import http.server
import json
import random
import re
import threading

WEIGHT_BYTES = 1_000_000
SECRET = "hf_secret"

BEHAVIOURS = {
    "test/plain": "everything as it should be",
    "test/redirect": "files are on the storage host, as with the real hub",
    "test/cut": "the first answer for a file ends at half, with the connection",
    "test/cut-norange": "the same, and Range is ignored afterwards",
    "test/wrong-hash": "the weights are not what the listing says",
    "test/private": "401 without the token",
    "test/traversal": "the listing names a file outside the folder",
    "test/held": "the first answer for the weights stops at half until /_release",
    "test/flaky": "503 on the first two requests for a file",
    "test/gguf": "two GGUF files",
    "test/pages": "a listing in two pages",
    "test/too-long": "the weights go on after their stated size",
}


def make_files():
    weights = random.Random(7).randbytes(WEIGHT_BYTES)
    return {
        "config.json": b'{"model_type": "bert"}\n',
        "modules.json": b"[]\n",
        "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}\n',
        "model.safetensors": weights,
        "README.md": b"not needed\n",
        "onnx/model.onnx": b"not needed either\n",
    }


FILES = make_files()
GGUF_FILES = {"x-Q8_0.gguf": b"GGUF eight bits", "x-Q4_0.gguf": b"GGUF four bits"}


def files_of(model):
    return GGUF_FILES if model == "test/gguf" else FILES


def listing(model):
    entries = [{"type": "directory", "path": "onnx", "size": 0, "oid": "0" * 40}]
    for path, content in files_of(model).items():
        git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        entry = {"type": "file", "path": path, "size": len(content), "oid": git}
        if path.endswith((".safetensors", ".gguf", ".onnx")):
            sha256 = hashlib.sha256(content).hexdigest()
            if model == "test/wrong-hash":
                sha256 = hashlib.sha256(b"other").hexdigest()
            entry["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 134}
        entries.append(entry)
    if model == "test/traversal":
        entries.append({"type": "file", "path": "1_x/../../../evil.json", "size": 1, "oid": "0" * 40})
    return entries


class State:
    def __init__(self):
        self.lock = threading.Lock()
        self.log = []
        self.counts = {}
        self.release = threading.Event()
        self.cdn_port = 0


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients are killed and cut off here: no news


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state = None
    is_cdn = False

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/_log":
            with self.state.lock:
                body = json.dumps(self.state.log).encode()
            return self.answer(200, body)
        if self.path == "/_release":
            self.state.release.set()
            return self.answer(200)
        with self.state.lock:
            self.state.log.append({
                "path": self.path,
                "cdn": self.is_cdn,
                "range": self.headers.get("Range"),
                "authorization": self.headers.get("Authorization"),
            })
        tree = re.fullmatch(r"/api/models/(test/[^/]+)/tree/main\?recursive=true(&page=2)?", self.path)
        if tree and not self.is_cdn:
            return self.tree(tree[1], second_page=tree[2] is not None)
        resolve = re.fullmatch(r"/(test/[^/]+)/resolve/main/(.+)", self.path)
        if resolve and resolve[2] in files_of(resolve[1]):
            return self.resolve(resolve[1], resolve[2])
        return self.answer(404, b"no such thing")

    def refused(self, model):
        wanted = model == "test/private"
        return wanted and self.headers.get("Authorization") != f"Bearer {SECRET}"

    def tree(self, model, second_page):
        if model not in BEHAVIOURS:
            return self.answer(404, b"{}")
        if self.refused(model):
            return self.answer(401, b"{}")
        entries = listing(model)
        headers = []
        if model == "test/pages":
            link = f"http://{self.headers['Host']}{self.path}&page=2"
            headers = [] if second_page else [("Link", f'<{link}>; rel="next"')]
            entries = entries[3:] if second_page else entries[:3]
        return self.answer(200, json.dumps(entries).encode(), headers)

    def resolve(self, model, path):
        if self.refused(model):
            return self.answer(401)
        if model == "test/redirect" and not self.is_cdn:
            target = f"http://127.0.0.1:{self.state.cdn_port}{self.path}"
            return self.answer(302, b"x" * 2000, [("Location", target)])
        with self.state.lock:
            key = (model, path)
            count = self.state.counts[key] = self.state.counts.get(key, 0) + 1
        if model == "test/flaky" and count <= 2:
            return self.answer(503, b"busy" * 1000)
        return self.send_file(model, path, count)

    def send_file(self, model, path, count):
        content = files_of(model)[path]
        start = 0
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if wanted and model != "test/cut-norange":
            start = int(wanted[1])
            if start >= len(content):
                return self.answer(416, b"", [("Content-Range", f"bytes */{len(content)}")])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        body = content[start:]
        if model == "test/too-long" and path == "model.safetensors":
            body += b"more"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        half = len(body) // 2
        if model in ("test/cut", "test/cut-norange") and count == 1:
            self.wfile.write(body[:half])
            self.close_connection = True
            return None
        if model == "test/held" and path == "model.safetensors" and count == 1:
            self.wfile.write(body[:half])
            self.wfile.flush()
            with self.state.lock:
                self.state.log.append({"held": half})
            self.state.release.wait()
            body = body[half:]
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True
        return None


def main():
    state = State()
    servers = []
    for is_cdn in (False, True):
        handler = type("BoundHandler", (Handler,), {"state": state, "is_cdn": is_cdn})
        servers.append(Server(("127.0.0.1", 0), handler))
    state.cdn_port = servers[1].server_address[1]
    threading.Thread(target=servers[1].serve_forever, daemon=True).start()
    print(json.dumps({"hub": servers[0].server_address[1], "cdn": state.cdn_port}), flush=True)
    servers[0].serve_forever()


if __name__ == "__main__":
    main()
