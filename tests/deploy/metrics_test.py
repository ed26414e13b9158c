#!/usr/bin/env python3
"""Every metric and label that deploy/ names is one that a gateway, a server or serve really prints.

Usage: metrics_test.py PERGOLA MODEL
"""

import http.server
import json
import pathlib
import re
import sys
import tempfile
import threading
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "fault"))
import tier  # noqa: E402

PERGOLA = MODEL = None
# Prometheus adds these to what it scrapes.
ADDED_LABELS = {"instance", "job", "le"}


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes every trace, so that metrics of the export exist."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def names_in(text):
    return set(re.findall(r"\bpergola_[a-z0-9_]*[a-z0-9]", text))


def labels_in(expression):
    """Labels of by (...) and of {...}."""
    grouped = ",".join(re.findall(r"\bby \(([^)]*)\)", expression))
    matched = ",".join(re.findall(r"(\w+)\s*[=!]~?\s*\"", expression))
    return {label.strip() for label in f"{grouped},{matched}".split(",") if label.strip()}


def dashboard_expressions():
    dashboard = json.loads((ROOT / "deploy/grafana/pergola.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def read(url):
    with urllib.request.urlopen(url + "/metrics", timeout=tier.WAIT) as answer:
        return answer.read().decode()


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        cls.addClassCleanup(collector.server_close)
        cls.addClassCleanup(collector.shutdown)
        otlp = ("--otlp-endpoint", f"http://127.0.0.1:{collector.server_port}")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name) / "keys"
        keys.write_text("a-key-of-this-test requests_per_minute=1\n")
        group = tier.Tier(PERGOLA, MODEL, 1,
                          server=("--status-port", "0", "--cache-file", f"{folder.name}/results", *otlp),
                          gateway=("--api-key-file", str(keys), "--open-metrics", "--hedge-after-ms", "1000", *otlp))
        cls.addClassCleanup(group.close)
        for _ in range(2):  # the second is over the key's limit
            connection = tier.connect(group.gateway.url)
            connection.request("POST", "/v1/embeddings", json.dumps({"model": "m", "input": "a"}),
                               {"Content-Type": "application/json", "Authorization": "Bearer a-key-of-this-test"})
            connection.getresponse().read()
            connection.close()
        status, = set(re.findall(r"http://127\.0\.0\.1:\d+", group.servers[0].said)) or {None}
        cls.printed = {"gateway": read(group.gateway.url), "server": read(status)}
        # serve alone loads and unloads models.
        serve = tier.Process(PERGOLA, "serve", "--model", MODEL, "--keep-alive", "1h")
        cls.addClassCleanup(serve.stop)
        cls.series = {}
        for text in [*cls.printed.values(), read(serve.url)]:
            for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.M):
                cls.series.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))

    def check(self, expression):
        names = names_in(expression)
        self.assertTrue(names, expression)
        for name in names:
            self.assertIn(name, self.series, expression)
        known = ADDED_LABELS.union(*(self.series[name] for name in names))
        self.assertLessEqual(labels_in(expression), known, expression)

    def test_dashboard(self):
        expressions = dashboard_expressions()
        self.assertGreater(len(expressions), 20)
        for expression in expressions:
            self.check(expression)

    def test_alerts(self):
        text = (ROOT / "deploy/prometheus/alerts.yaml").read_text()
        rules = re.split(r"^ *- alert: ", text, flags=re.M)[1:]
        self.assertGreater(len(rules), 10)
        for rule in rules:
            expression = re.search(r"expr: (.*?)\n *(?:for|labels):", rule, re.S).group(1)
            self.check(expression)
            # Labels that the words use survive the expression.
            used = set(re.findall(r"\$labels\.(\w+)", rule))
            known = ADDED_LABELS.union(*(self.series[name] for name in names_in(expression)))
            kept = re.findall(r"\bby \(([^)]*)\)", expression)
            if kept:
                known = {label.strip() for label in kept[0].split(",")}
            self.assertLessEqual(used, known, rule)

    def test_scaling(self):
        text = (ROOT / "deploy/kubernetes/availability.yaml").read_text()
        for name in re.findall(r"metric: \{name: (\w+)\}", text):
            self.assertIn(name, self.series)
            self.assertRegex(self.printed["server"], rf"(?m)^{name}\{{")

    def test_operating_page(self):
        for name in names_in((ROOT / "docs/operating.md").read_text()):
            self.assertIn(name, set(self.series) | {each.removesuffix("_count") for each in self.series})

    def test_engine_metrics_are_the_servers_and_replicas_the_gateways(self):
        self.assertIn("pergola_queue_tokens{", self.printed["server"])
        self.assertNotIn("pergola_queue_tokens{", self.printed["gateway"])
        self.assertIn("pergola_replica_healthy{", self.printed["gateway"])


if __name__ == "__main__":
    PERGOLA, MODEL = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
