"""sentence-transformers over HTTP as its users put it there: FastAPI, uvicorn, requests that wait are one batch.

  st_server.py MODEL_FOLDER PORT THREADS      # OpenAI's POST /v1/embeddings, GET /health
"""

import asyncio
import concurrent.futures
import contextlib
import sys

import fastapi
import sentence_transformers
import torch
import uvicorn

LARGEST_BATCH = 32


class Batcher:
    """Takes texts that wait together to the model, which has one thread of Python to itself."""

    def __init__(self, model):
        self.model = model
        self.waiting = asyncio.Queue()
        self.thread = concurrent.futures.ThreadPoolExecutor(1)

    async def encode(self, texts):
        answer = asyncio.get_running_loop().create_future()
        await self.waiting.put((texts, answer))
        return await answer

    async def run(self):
        loop = asyncio.get_running_loop()
        while True:
            taken = [await self.waiting.get()]
            while not self.waiting.empty() and sum(len(texts) for texts, _ in taken) < LARGEST_BATCH:
                taken.append(self.waiting.get_nowait())
            texts = [text for texts, _ in taken for text in texts]
            rows = await loop.run_in_executor(self.thread, self.compute, texts)
            for texts, answer in taken:
                answer.set_result(rows[:len(texts)])
                rows = rows[len(texts):]

    def compute(self, texts):
        with torch.inference_mode():
            return self.model.encode(texts, batch_size=LARGEST_BATCH, show_progress_bar=False).tolist()


def make_app(folder):
    batcher = Batcher(sentence_transformers.SentenceTransformer(folder, device="cpu"))

    @contextlib.asynccontextmanager
    async def lifespan(_):
        task = asyncio.ensure_future(batcher.run())
        yield
        task.cancel()

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.get("/health")
    async def health():
        return {}

    @app.post("/v1/embeddings")
    async def embed(request: fastapi.Request):
        asked = await request.json()
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        rows = await batcher.encode(texts)
        return {"object": "list", "model": asked.get("model", ""),
                "data": [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)],
                "usage": {"prompt_tokens": 0, "total_tokens": 0}}

    return app


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[3]))
    uvicorn.run(make_app(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", access_log=False)
