"""Rerankers of frameworks: LangChain's document compressor for Voyage, LlamaIndex's postprocessors for TEI and Jina.

The expected order and scores are those of a plain request, so a cross-encoder with random weights will do.
"""
import asyncio

import common
from common import need

QUERY = "capital of France"
DOCUMENTS = ["Bananas are yellow.", "Paris is the capital of France.", "The capital of Spain is Madrid.", "東京は日本の首都です。"]


def _expected(options):
    """(index, score), best first."""
    if "rerank" not in options.have:
        raise common.Skip("needs rerank")
    results = common.post(options, "/v1/rerank", {"model": options.model, "query": QUERY, "documents": DOCUMENTS})["results"]
    assert sorted(r["index"] for r in results) == list(range(len(DOCUMENTS))), results
    assert len({r["relevance_score"] for r in results}) > 1, "all scores are equal"
    return [(r["index"], r["relevance_score"]) for r in results]


def _check(got, expected):
    assert [text for text, _ in got] == [DOCUMENTS[index] for index, _ in expected], got
    assert all(abs(a - b) < 1e-6 for (_, a), (_, b) in zip(got, expected)), (got, expected)


def langchain_voyage_rerank(options):
    """compress_documents and its async twin keep metadata and add scores."""
    expected = _expected(options)
    Document = need("langchain_core.documents").Document
    reranker = need("langchain_voyageai").VoyageAIRerank(model=options.model, top_k=2, api_key=options.api_key or "unused", base_url=options.base_url + "/v1")
    documents = [Document(text, metadata={"place": place}) for place, text in enumerate(DOCUMENTS)]
    for answer in (reranker.compress_documents(documents, QUERY), asyncio.run(reranker.acompress_documents(documents, QUERY))):
        _check([(d.page_content, d.metadata["relevance_score"]) for d in answer], expected[:2])
        assert [d.metadata["place"] for d in answer] == [index for index, _ in expected[:2]]
        assert answer[0].metadata["total_tokens"] > 0


def _nodes():
    schema = need("llama_index.core.schema")
    return [schema.NodeWithScore(node=schema.TextNode(text=text), score=0.5) for text in DOCUMENTS]


def llama_index_tei_rerank(options):
    expected = _expected(options)
    token = common.bearer(options).get("Authorization")
    reranker = need("llama_index.postprocessor.tei_rerank").TextEmbeddingInference(base_url=options.base_url, top_n=3, auth_token=token)
    _check([(n.node.text, n.score) for n in reranker.postprocess_nodes(_nodes(), query_str=QUERY)], expected[:3])


def llama_index_jina_rerank(options):
    expected = _expected(options)
    reranker = need("llama_index.postprocessor.jinaai_rerank").JinaRerank(top_n=3, model=options.model, base_url=options.base_url + "/v1", api_key=options.api_key or "unused")
    _check([(n.node.text, n.score) for n in reranker.postprocess_nodes(_nodes(), query_str=QUERY)], expected[:3])
