#!/usr/bin/env python3
"""Writes the golden files of models that read features: float64 PyTorch.

    make_feature_golden.py    (needs torch and safetensors; writes ./golden)

The files are those of make_golden.py, and have besides: the vectors of the
features (exact in float32), their gradient, and the outputs; in the metadata,
the dims and names of the features.
"""
import os

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

from make_golden import Run

SAMPLES = 5


def hidden(run, name, x, widths, rate=0.0):
    for i, width in enumerate(widths):
        x = run.dropout(run.activation(run.linear(f"{name}.{i}", x, width),
                                       "RELU"), rate)
    return x


def dlrm(run, numbers, vectors, bottom, top):
    dim = vectors[0].shape[1]
    x = hidden(run, "bottom", numbers, bottom + [dim])
    all_vectors = torch.stack([x] + vectors, 1)
    products = torch.bmm(all_vectors, all_vectors.transpose(1, 2))
    rows, columns = torch.tril_indices(len(vectors) + 1, len(vectors) + 1, -1)
    x = hidden(run, "top", torch.cat([x, products[:, rows, columns]], 1), top)
    return run.linear(f"top.{len(top)}", x, 1)[:, 0]


def wide_and_deep(run, numbers, vectors, widths, rate=0.0, node=0):
    logit = sum(v[:, 0] for v in vectors)
    if numbers.shape[1]:
        logit = logit + run.linear("linear", numbers, 1)[:, 0]
    deep = torch.cat([numbers] + [v[:, 1:] for v in vectors], 1)
    run.node = node  # The layer number of hidden.0.
    deep = hidden(run, "hidden", deep, widths, rate)
    return logit + run.linear("output", deep, 1)[:, 0]


def deepfm(run, numbers, vectors, widths):
    pairs = sum((vectors[i] * vectors[j])[:, 1:].sum(1)
                for i in range(len(vectors)) for j in range(i))
    return wide_and_deep(run, numbers, vectors, widths) + pairs


def dcn_v2(run, numbers, vectors, layers, rank, widths):
    x0 = torch.cat([numbers] + vectors, 1)
    x = x0
    for i in range(layers):
        if rank:
            z = run.linear(f"cross.{i}.v", x, rank, bias=False)
            z = run.linear(f"cross.{i}.u", z, x0.shape[1])
        else:
            z = run.linear(f"cross.{i}", x, x0.shape[1])
        x = x0 * z + x
    if widths:
        x = torch.cat([x, hidden(run, "hidden", x0, widths)], 1)
    return run.linear("output", x, 1)[:, 0]


def matrix_factorization(run, numbers, vectors, item, widths):
    def tower(name, own):
        if not widths:
            return sum(v[:, 1:] for v in own)
        x = hidden(run, name, torch.cat([v[:, 1:] for v in own], 1), widths[:-1])
        return run.linear(f"{name}.{len(widths) - 1}", x, widths[-1])
    user, other = tower("user", vectors[:item]), tower("item", vectors[item:])
    bias = run.weight("output.bias", 1)
    return (user * other).sum(1) + sum(v[:, 0] for v in vectors) + bias


def write(name, spec, numbers, dims, model, loss="BINARY_CROSS_ENTROPY"):
    run = Run(seed=len(name) + sum(dims))
    features = run.random(SAMPLES, numbers)
    vectors = run.random(SAMPLES, sum(dims), scale=0.5).requires_grad_()
    classify = loss == "BINARY_CROSS_ENTROPY"
    target = torch.tensor([1.0, 0, 0, 1, 1]).double() if classify \
        else run.random(SAMPLES)
    logits = model(run, features, list(vectors.split(dims, 1)))
    if classify:
        total = F.binary_cross_entropy_with_logits(logits, target,
                                                   reduction="sum")
        correct = int(((logits > 0) == (target > 0)).sum())
    else:
        total = F.mse_loss(logits, target, reduction="sum")
        correct = 0
    total.backward()
    reals = lambda t: t.detach().numpy().astype(np.float32)
    tensors = {"input": reals(features), "vectors": reals(vectors),
               "target": reals(target).astype(np.int32 if classify
                                              else np.float32),
               "loss": np.array([total.item()]),
               "outputs": logits.detach().numpy(),
               "vector_gradient": vectors.grad.numpy()}
    if "dropout" not in spec:
        tensors["evaluation_loss"] = tensors["loss"]
    for key, value in run.weights.items():
        tensors["weight/" + key] = reals(value)
        tensors["gradient/" + key] = reals(value.grad)
    metadata = {"model": f"{spec} loss: {loss}", "kind": "rows",
                "classes": "2" if classify else "0", "shape": str(numbers),
                "correct": str(correct), "order": " ".join(run.weights),
                "dims": " ".join(map(str, dims)),
                "names": " ".join(f"C{i}" for i in range(len(dims)))}
    path = os.path.join("golden", name + ".safetensors")
    save_file(tensors, path, metadata)
    os.chmod(path, 0o644)


def main():
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    write("dlrm", "dlrm { bottom: 7 top: 9 top: 6 }", 4, [3] * 5,
          lambda *a: dlrm(*a, [7], [9, 6]))
    write("dlrm_plain", "dlrm {}", 1, [2], lambda *a: dlrm(*a, [], []))
    write("deepfm", "deepfm { hidden: 8 hidden: 6 }", 4, [5] * 4,
          lambda *a: deepfm(*a, [8, 6]))
    write("deepfm_no_numbers", "deepfm { hidden: 8 }", 0, [2] * 3,
          lambda *a: deepfm(*a, [8]))
    write("dcn_v2", "dcn_v2 { cross_layers: 2 hidden: 7 hidden: 5 }", 3,
          [4, 2, 1], lambda *a: dcn_v2(*a, 2, 0, [7, 5]))
    write("dcn_v2_rank", "dcn_v2 { rank: 2 }", 0, [3, 4],
          lambda *a: dcn_v2(*a, 3, 2, []))
    write("wide_and_deep", "wide_and_deep { hidden: 8 hidden: 6 }", 3,
          [1, 4, 4, 2, 1], lambda *a: wide_and_deep(*a, [8, 6]))
    write("wide_and_deep_dropout", "wide_and_deep { hidden: 8 dropout: 0.25 }",
          3, [4, 4], lambda *a: wide_and_deep(*a, [8], 0.25, node=6))
    write("matrix_factorization", 'matrix_factorization { item_feature: "C2" }',
          0, [5] * 5, lambda *a: matrix_factorization(*a, 2, []))
    write("matrix_factorization_ratings",
          'matrix_factorization { item_feature: "C1" }', 2, [5] * 2,
          lambda *a: matrix_factorization(*a, 1, []), "MEAN_SQUARED_ERROR")
    write("two_towers",
          'matrix_factorization { item_feature: "C2" hidden: 7 hidden: 4 }', 0,
          [3, 5, 2], lambda *a: matrix_factorization(*a, 2, [7, 4]))


if __name__ == "__main__":
    main()
