#!/usr/bin/env python3
"""Traces of a gateway and a server, as a collector of OTLP/HTTP gets them, and the access log.

Usage: trace_test.py PERGOLA MODEL [unittest options]
"""

import http.server
import json
import pathlib
import re
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fault"))
import tier  # noqa: E402

PERGOLA = MODEL = None
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "Rumpelstiltskin"


class Collector:
    """Takes POST /v1/traces and keeps the spans."""

    def __init__(self):
        self.lock, self.spans, self.wrong = threading.Lock(), [], []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with collector.lock:
                    if (self.path, self.headers["Content-Type"]) != ("/v1/traces", "application/json"):
                        collector.wrong.append((self.path, self.headers["Content-Type"]))
                    collector.take(json.loads(body))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, document):
        for resource in document["resourceSpans"]:
            service = resource["resource"]["attributes"][0]["value"]["stringValue"]
            for scope in resource["scopeSpans"]:
                self.spans += [{**span, "service": service} for span in scope["spans"]]

    def of(self, trace):
        with self.lock:
            return [span for span in self.spans if span["traceId"] == trace]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class TraceTest(unittest.TestCase):
    def setUp(self):
        self.collector = Collector()
        self.addCleanup(self.collector.close)

    def start(self):
        started = tier.Tier(PERGOLA, MODEL, 1, server=("--otlp-endpoint", self.collector.url),
                            gateway=("--otlp-endpoint", self.collector.url, "--access-log"))
        self.addCleanup(started.close)
        return started

    def ask(self, url, **headers):
        connection = tier.connect(url)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/embeddings", json.dumps({"model": "m", "input": SECRET}),
                           {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        answer.read()
        self.assertEqual(answer.status, 200)

    def test_spans_of_both_tiers_hang_together(self):
        tested = self.start()
        self.ask(tested.gateway.url, traceparent=f"00-{TRACE}-{SPAN}-01", tracestate="rojo=1,congo=t61")
        wanted = {("pergola-gateway", name) for name in
                  ("POST /v1/embeddings", "tokenise", "queue", "compute", "render")}
        wanted |= {("pergola-server", name) for name in
                   ("pergola.v1.EmbeddingService/Infer", "queue", "compute")}
        tier.wait_until(lambda: {(span["service"], span["name"]) for span in self.collector.of(TRACE)} >= wanted,
                        "the spans")
        spans = {(span["service"], span["name"]): span for span in self.collector.of(TRACE)}
        request = spans["pergola-gateway", "POST /v1/embeddings"]
        self.assertEqual(request["parentSpanId"], SPAN)
        self.assertEqual({span.get("traceState") for span in spans.values()}, {"rojo=1,congo=t61"})
        for (service, name), span in spans.items():
            begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
            self.assertLessEqual(begin, end)
            if span is request:
                continue
            if name != "pergola.v1.EmbeddingService/Infer" and service == "pergola-server":
                self.assertEqual(span["parentSpanId"], spans[service, "pergola.v1.EmbeddingService/Infer"]["spanId"])
            else:
                self.assertEqual(span["parentSpanId"], request["spanId"])
        self.assertEqual(len({span["spanId"] for span in spans.values()}), len(spans))
        numbers = {each["key"]: each["value"].get("intValue") for each in request["attributes"]}
        self.assertEqual(numbers["http.response.status_code"], "200")
        self.assertGreater(int(numbers["pergola.tokens"]), 2)
        self.assertNotIn(SECRET, json.dumps(list(spans.values())))
        self.assertEqual(self.collector.wrong, [])

    def test_what_is_not_sampled_is_not_sent_and_the_log_has_its_times(self):
        tested = self.start()
        self.ask(tested.gateway.url, traceparent=f"00-{TRACE}-{SPAN}-00")
        other = TRACE[::-1]
        self.ask(tested.gateway.url, traceparent=f"00-{other}-{SPAN}-01")
        tier.wait_until(lambda: self.collector.of(other), "the spans of the other request")
        self.assertEqual(self.collector.of(TRACE), [])
        tier.wait_until(lambda: TRACE in tested.gateway.said, "the log line")
        line = json.loads(re.search(rf"^.*{TRACE}.*$", tested.gateway.said, re.M).group(0))
        for stage in ("tokenise_ms", "compute_ms", "render_ms"):
            self.assertGreater(line[stage], 0)
        self.assertGreater(line["tokens"], 2)
        self.assertEqual(line["status"], 200)
        self.assertNotIn(SECRET, tested.gateway.said)

    def test_a_collector_that_is_gone_costs_no_request(self):
        tested = self.start()
        self.collector.close()
        for _ in range(20):
            self.ask(tested.gateway.url)
        tier.wait_until(lambda: tested.metrics("pergola_spans_dropped_total")[None] > 0, "dropped spans")
        self.assertEqual(tested.gateway.stop(), 0)


if __name__ == "__main__":
    PERGOLA, MODEL = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
