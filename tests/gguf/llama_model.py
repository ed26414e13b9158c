"""A GGUF model run by llama.cpp itself: ids in, one pooled vector out."""

import ctypes

import numpy


class LlamaModel:
    """`library` is Toolchain.binding(). One text at a time, pooling as the file says."""

    def __init__(self, library, path, threads=2):
        self._library = library
        silence(library)
        params = library.llama_model_default_params()
        params.n_gpu_layers = 0
        self._model = library.llama_model_load_from_file(str(path).encode(), params)
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        self.max_tokens = library.llama_model_n_ctx_train(self._model)
        context = library.llama_context_default_params()
        context.n_ctx = context.n_batch = context.n_ubatch = self.max_tokens
        context.n_threads = context.n_threads_batch = threads
        context.embeddings = True
        self._context = library.llama_init_from_model(self._model, context)
        self._width = library.llama_model_n_embd_out(self._model)
        self._batch = library.llama_batch_init(self.max_tokens, 0, 1)

    def close(self):
        self._library.llama_batch_free(self._batch)
        self._library.llama_free(self._context)
        self._library.llama_model_free(self._model)

    def tokenize(self, text):
        """Ids with special tokens, strings of special tokens in the text taken as such."""
        data = text.encode()
        vocab = self._library.llama_model_get_vocab(self._model)
        ids = (self._library.llama_token * (len(data) + 16))()
        count = self._library.llama_tokenize(vocab, data, len(data), ids, len(ids), True, True)
        return list(ids[:count])

    def encode(self, ids):
        """[E] float32, not normalised."""
        batch = self._batch
        batch.n_tokens = len(ids)
        for position, token in enumerate(ids):
            batch.token[position] = token
            batch.pos[position] = position
            batch.n_seq_id[position] = 1
            batch.seq_id[position][0] = 0
            batch.logits[position] = True
        code = self._library.llama_encode(self._context, batch)
        if code != 0:
            raise RuntimeError(f"llama_encode returned {code}")
        row = self._library.llama_get_embeddings_seq(self._context, 0)
        return numpy.ctypeslib.as_array(row, (self._width,)).copy()


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def _no_log(level, text, data):
    pass


def silence(library):
    """Keeps llama.cpp's log off stderr."""
    library.llama_log_set(_no_log, None)
