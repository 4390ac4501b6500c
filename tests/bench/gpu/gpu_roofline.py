#!/usr/bin/env python3
"""Predicts the time of a training step of GPT-2 124M on an H100 from what its kernels must do.

    tests/bench/gpu/gpu_roofline.py [--batch 16]

Prints, for each group of kernels of worker/device/cuda, the number of launches, the floating-point
operations, the bytes of GPU memory and the least time that these permit, as a table in Markdown.
Nothing is measured. The counts follow from the shapes alone: a kernel reads each input once and
writes each output once, in the types of the code (activations, weights of products and their
gradients bfloat16; weights, gradients of weights and the optimizer's state float32). Second reads
that fit into the cache of 50 MB are not counted.

Compare the number of launches with the output of:

    bazel run //tests/bench/gpu:gpu_calls -- kernels
"""
import argparse
from dataclasses import dataclass

MEMORY = 3.35e12  # Bytes per second of an H100 SXM.
TENSOR = 989e12  # Operations per second of its tensor cores: dense, bfloat16.

# Assumptions, none of them measured: the part of these rates that a kernel reaches.
MEMORY_REACHED = 0.85
PRODUCT_REACHED = 0.70  # cuBLASLt, large products.
ATTENTION_REACHED = 0.37  # Between the bounds of "Attention on a GPU" and their sum.
LAUNCH = 1e-6  # Seconds between two kernels of a CUDA graph.

LAYERS, WIDTH, CONTEXT, VOCABULARY = 12, 768, 1024, 50304  # The vocabulary with its padding.
PARAMETERS = 124_475_904  # With the padding of the vocabulary.
BF16, F32 = 2, 4


@dataclass
class Kernels:
    """Kernels of one kind, of all layers."""

    name: str
    launches: int
    flops: float
    bytes: float
    reached: float = 0  # Of the tensor cores' rate; 0: bound by memory alone.

    def bound(self):
        return max(self.flops / TENSOR if self.reached else 0, self.bytes / MEMORY)

    def predicted(self):
        compute = self.flops / TENSOR / self.reached if self.reached else 0
        return max(compute, self.bytes / MEMORY / MEMORY_REACHED) + self.launches * LAUNCH


def product(name, count, m, n, k, extra_bytes=0, result=BF16, launches=1):
    """`count` products [m, k] x [k, n] of bfloat16."""
    moved = (m * k + k * n) * BF16 + m * n * result + extra_bytes
    return Kernels(name, count * launches, count * 2 * m * n * k, count * moved, PRODUCT_REACHED)


def kernels(batch):
    rows = batch * CONTEXT
    stream = rows * WIDTH * BF16  # Bytes of the residual stream.
    weights = LAYERS * 12 * WIDTH * WIDTH + VOCABULARY * WIDTH  # Those of products.
    pairs = batch * 12 * CONTEXT * (CONTEXT + 64) / 2  # Of a query and a key that it sees.
    head = pairs * 64 * 2  # Operations of one product of attention.
    shapes = [(3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)]
    names = ["attn.c_attn", "attn.c_proj", "mlp.c_fc, GELU", "mlp.c_proj"]
    gelu = rows * 4 * WIDTH * BF16  # The input of GELU, saved for backward.

    yield Kernels("bfloat16 copies of weights", 4 * LAYERS + 1, 0, weights * (F32 + BF16))
    yield Kernels("random base; copies of the batch", 2, 0, 4 * rows * 4)
    yield Kernels("embedding", 1, 0, rows * WIDTH * F32 + stream)
    # All but the first also add a residual branch to the stream.
    yield Kernels("layer norm, residual", 2 * LAYERS + 1, 0, (2 + 2 * LAYERS * 4) * stream)
    yield Kernels("biases in bfloat16", 4 * LAYERS + 1, 0, (LAYERS * 9 * WIDTH + VOCABULARY) * 6)
    for (outputs, inputs), name in zip(shapes, names):
        extra = gelu if "GELU" in name else 0
        yield product(name, LAYERS, rows, outputs, inputs, extra)
    yield Kernels("attention", LAYERS, LAYERS * 2 * head, LAYERS * 4 * stream, ATTENTION_REACHED)
    yield product("lm_head", 1, rows, VOCABULARY, WIDTH)
    yield Kernels("softmax, loss and its gradient", 1, 0, 2 * rows * VOCABULARY * BF16)
    yield product("lm_head, gradient of weights", 1, VOCABULARY, WIDTH, rows, result=F32)
    yield product("lm_head, gradient of input", 1, rows, WIDTH, VOCABULARY)
    for (outputs, inputs), name in zip(shapes, names):
        yield product(name.split(",")[0] + ", gradient of weights", LAYERS, outputs, inputs, rows,
                      result=F32)
        extra = gelu if name == "mlp.c_proj" else 0
        yield product(name.split(",")[0] + ", gradient of input", LAYERS, rows, inputs, outputs,
                      extra)
    # The gradients of biases are in the epilogues of the gradients of weights.
    yield Kernels("attention, backward", 2 * LAYERS, LAYERS * 7 * head, LAYERS * 12 * stream,
                  ATTENTION_REACHED)
    # All but the last add to the gradient of the stream. `sums` is written and read again: two
    # floats for each column and chunk of rows (RowChunks in normalization.cu).
    sums = 2 * 2 * WIDTH * min(512, rows // 32) * F32
    yield Kernels("layer norm, backward", 2 * (2 * LAYERS + 1), 0,
                  (2 * LAYERS + 1) * (3 * stream + sums) + 2 * LAYERS * stream)
    yield Kernels("embedding, backward", 4, 0, 2 * stream + 2 * rows * WIDTH * F32 + 8 * rows * 8)
    yield Kernels("AdamW", 1, 0, PARAMETERS * 7 * F32)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--batch", type=int, default=16)
    batch = parser.parse_args().batch
    table = list(kernels(batch))
    table.append(Kernels("**sum**", sum(k.launches for k in table), sum(k.flops for k in table),
                         sum(k.bytes for k in table)))
    print("| kernels | launches | TFLOP | GB | bound, ms | predicted, ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    bound = predicted = 0
    for k in table:
        last = k is table[-1]
        bound += 0 if last else k.bound()
        predicted += 0 if last else k.predicted()
        print(f"| {k.name} | {k.launches} | {k.flops / 1e12:.2f} | {k.bytes / 1e9:.2f} | "
              f"{1e3 * (bound if last else k.bound()):.2f} | "
              f"{1e3 * (predicted if last else k.predicted()):.2f} |")


if __name__ == "__main__":
    main()
