#!/usr/bin/env python3
"""TEI's gRPC services as a client sees them, whose stubs grpcio-tools made from proto/tei/v1/tei.proto.

Usage: tei_grpc_test.py PERGOLA TINY_MODELS [unittest options]   (needs grpcio-tools, grpcio-health-checking,
grpcio-reflection; TINY_MODELS is tests/golden/tiny)
"""

import json
import pathlib
import struct
import sys
import tempfile
import unittest
import urllib.request

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fault"))
import tier  # noqa: E402

PERGOLA = MODELS = None
GENERATED = tempfile.TemporaryDirectory()


def make_stubs():
    if protoc.main(["protoc", f"--proto_path={ROOT / 'proto'}", f"--python_out={GENERATED.name}",
                    f"--grpc_python_out={GENERATED.name}", "tei/v1/tei.proto"]):
        sys.exit("protoc failed")
    sys.path.insert(0, GENERATED.name)
    from tei.v1 import tei_pb2, tei_pb2_grpc
    return tei_pb2, tei_pb2_grpc


class Served:
    """A model as gRPC and, to compare with, as HTTP."""

    def __init__(self, test, model):
        path = MODELS / model
        self.server = tier.Process(PERGOLA, "server", "--model", path)
        test.addClassCleanup(self.server.kill)
        self.http = tier.Process(PERGOLA, "serve", "--model", path)
        test.addClassCleanup(self.http.kill)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.port}")
        test.addClassCleanup(self.channel.close)

    def post(self, path, body):
        request = urllib.request.Request(self.http.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=tier.WAIT) as answer:
            return json.load(answer)


def floats(values):
    return [struct.unpack("<f", struct.pack("<f", value))[0] for value in values]


class TeiGrpcTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.embedder = Served(cls, "bge-m3")
        cls.classifier = Served(cls, "bert-classifier")
        cls.reranker = Served(cls, "xlm-roberta-reranker")

    def refused(self, code, call, *arguments):
        with self.assertRaises(grpc.RpcError) as refused:
            answer = call(*arguments)
            if not hasattr(answer, "DESCRIPTOR"):
                list(answer)
        self.assertEqual(refused.exception.code(), code, refused.exception)

    def test_embed(self):
        stub = GRPC.EmbedStub(self.embedder.channel)
        answer = stub.Embed(PB.EmbedRequest(inputs="a cat"))
        self.assertEqual(list(answer.embeddings), floats(self.embedder.post("/embed", {"inputs": "a cat"})[0]))
        self.assertGreater(answer.metadata.compute_tokens, 2)
        self.assertEqual(answer.metadata.compute_chars, 5)
        self.assertGreater(answer.metadata.total_time_ns, 0)
        raw = stub.Embed(PB.EmbedRequest(inputs="a cat", normalize=False))
        self.assertEqual(list(raw.embeddings),
                         floats(self.embedder.post("/embed", {"inputs": "a cat", "normalize": False})[0]))
        cut = stub.Embed(PB.EmbedRequest(inputs="a cat", dimensions=4))
        self.assertEqual(len(cut.embeddings), 4)

    def test_embed_refuses(self):
        stub = GRPC.EmbedStub(self.embedder.channel)
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        self.refused(invalid, stub.Embed, PB.EmbedRequest(inputs=""))
        self.refused(invalid, stub.Embed, PB.EmbedRequest(inputs="x " * 20000))
        self.refused(invalid, stub.Embed, PB.EmbedRequest(inputs="x", truncation_direction=7))
        self.refused(invalid, stub.Embed, PB.EmbedRequest(inputs="x", prompt_name="no such"))
        self.refused(invalid, stub.Embed, PB.EmbedRequest(inputs="x", dimensions=0))
        self.refused(invalid, stub.EmbedStream, iter([]))
        self.assertTrue(stub.Embed(PB.EmbedRequest(inputs="x " * 20000, truncate=True)).embeddings)

    def test_streams_answer_in_order(self):
        stub = GRPC.EmbedStub(self.embedder.channel)
        texts = [f"text {number} " * (1 + number % 3) for number in range(40)]
        answers = list(stub.EmbedStream(PB.EmbedRequest(inputs=text) for text in texts))
        self.assertEqual([list(answer.embeddings) for answer in answers],
                         [floats(row) for row in self.embedder.post("/embed", {"inputs": texts})])

    def test_sparse_and_all(self):
        stub = GRPC.EmbedStub(self.embedder.channel)
        sparse = stub.EmbedSparse(PB.EmbedSparseRequest(inputs="a cat sat"))
        expected = self.embedder.post("/embed_sparse", {"inputs": "a cat sat"})[0]
        self.assertEqual([(value.index, value.value) for value in sparse.sparse_embeddings],
                         [(value["index"], floats([value["value"]])[0]) for value in expected])
        every = stub.EmbedAll(PB.EmbedAllRequest(inputs="a cat sat"))
        self.assertEqual([list(row.embeddings) for row in every.token_embeddings],
                         [floats(row) for row in self.embedder.post("/embed_all", {"inputs": "a cat sat"})[0]])

    def test_predict(self):
        stub = GRPC.PredictStub(self.classifier.channel)
        answer = stub.Predict(PB.PredictRequest(inputs="a cat"))
        expected = self.classifier.post("/predict", {"inputs": "a cat"})
        self.assertEqual([(each.label, each.score) for each in answer.predictions],
                         [(each["label"], floats([each["score"]])[0]) for each in expected])
        pair = stub.PredictPair(PB.PredictPairRequest(inputs=["a", "b"], raw_scores=True))
        expected = self.classifier.post("/predict", {"inputs": ["a", "b"], "raw_scores": True})
        self.assertEqual([(each.label, each.score) for each in pair.predictions],
                         [(each["label"], floats([each["score"]])[0]) for each in expected])
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, stub.PredictPair, PB.PredictPairRequest(inputs=["a"]))

    def test_rerank(self):
        stub = GRPC.RerankStub(self.reranker.channel)
        texts = ["a cat", "a dog", "rain"]
        answer = stub.Rerank(PB.RerankRequest(query="animals", texts=texts, return_text=True))
        expected = self.reranker.post("/rerank", {"query": "animals", "texts": texts, "return_text": True})
        self.assertEqual([(rank.index, rank.text, rank.score) for rank in answer.ranks],
                         [(rank["index"], rank["text"], floats([rank["score"]])[0]) for rank in expected])
        streamed = stub.RerankStream(PB.RerankStreamRequest(query="animals", text=text, return_text=True)
                                     for text in texts)
        self.assertEqual(streamed.ranks, answer.ranks)
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, stub.RerankStream, iter([]))

    def test_missing_abilities(self):
        precondition = grpc.StatusCode.FAILED_PRECONDITION
        self.refused(precondition, GRPC.PredictStub(self.embedder.channel).Predict, PB.PredictRequest(inputs="x"))
        self.refused(precondition, GRPC.RerankStub(self.classifier.channel).Rerank,
                     PB.RerankRequest(query="x", texts=["y"]))
        self.refused(precondition, GRPC.EmbedStub(self.reranker.channel).EmbedSparse,
                     PB.EmbedSparseRequest(inputs="x"))

    def test_tokenize_and_decode(self):
        stub = GRPC.TokenizeStub(self.embedder.channel)
        answer = stub.Tokenize(PB.EncodeRequest(inputs="a cat", add_special_tokens=True))
        expected = self.embedder.post("/tokenize", {"inputs": "a cat"})[0]
        self.assertEqual([(token.id, token.text, token.special) for token in answer.tokens],
                         [(token["id"], token["text"], token["special"]) for token in expected])
        self.assertEqual([token.HasField("start") for token in answer.tokens],
                         [not token["special"] for token in expected])
        ids = [token.id for token in answer.tokens]
        self.assertEqual(stub.Decode(PB.DecodeRequest(ids=ids, skip_special_tokens=True)).text,
                         self.embedder.post("/decode", {"ids": ids, "skip_special_tokens": True})[0])

    def test_info_health_and_reflection(self):
        info = GRPC.InfoStub(self.reranker.channel).Info(PB.InfoRequest())
        self.assertEqual(info.model_type, PB.MODEL_TYPE_RERANKER)
        self.assertEqual(info.model_id, "xlm-roberta-reranker")
        health = health_pb2_grpc.HealthStub(self.reranker.channel)

        def status(service):
            return health.Check(health_pb2.HealthCheckRequest(service=service)).status

        serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
        tier.wait_until(lambda: status("") == serving, "health")
        for service in ("pergola.v1.EmbeddingService", "xlm-roberta-reranker", "tei.v1.Rerank", "tei.v1.Info"):
            self.assertEqual(status(service), serving, service)
        self.assertEqual(status("tei.v1.Embed"), not_serving)
        self.refused(grpc.StatusCode.NOT_FOUND, health.Check, health_pb2.HealthCheckRequest(service="other"))
        services = ProtoReflectionDescriptorDatabase(self.reranker.channel).get_services()
        self.assertLessEqual({"pergola.v1.EmbeddingService", "tei.v1.Embed", "grpc.health.v1.Health"}, set(services))


if __name__ == "__main__":
    PERGOLA, MODELS = sys.argv[1], pathlib.Path(sys.argv[2])
    PB, GRPC = make_stubs()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
