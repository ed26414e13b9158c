"""The peers behind one interface: Engine(path, threads).encode(list of id lists of one length) -> [B, E] rows.

`max_batch` is how many texts a call takes. Rows are pooled, not normalised.
"""

import os
import pathlib
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]


class OnnxRuntime:
    max_batch = 1 << 20

    def __init__(self, path, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def encode(self, texts):
        ids = numpy.array(texts, dtype=numpy.int64)
        return self._session.run(None, {"input_ids": ids, "attention_mask": numpy.ones_like(ids)})[0]


class OpenVino:
    max_batch = 1 << 20

    def __init__(self, path, threads):
        import openvino
        # Its default rounds f32 models to bf16 where the CPU can: then it would be another cell.
        self._model = openvino.Core().compile_model(
            str(path), "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                               "INFERENCE_PRECISION_HINT": "f32"})

    def encode(self, texts):
        ids = numpy.array(texts, dtype=numpy.int64)
        return self._model({"input_ids": ids, "attention_mask": numpy.ones_like(ids)})[0]


class LlamaCpp:
    max_batch = 1

    def __init__(self, path, threads):
        sys.path.insert(0, str(ROOT / "tests" / "gguf"))
        from llama_model import LlamaModel
        from toolchain import Toolchain, default_folder
        tools = Toolchain(default_folder(), os.environ.get("LLAMA_CPP_ISA", ""))  # compare.py --isa
        self._model = LlamaModel(tools.binding(), path, threads)

    def encode(self, texts):
        return numpy.stack([self._model.encode(text) for text in texts])


ENGINES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "llama.cpp": LlamaCpp}
