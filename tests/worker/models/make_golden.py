#!/usr/bin/env python3
"""Writes the golden files of model_golden_test: tiny models in float64 PyTorch.

    make_golden.py            (needs torch and safetensors; writes ./golden)

Each file, in the safetensors format, has the weights (exact in float32), input
and target of one batch, the sum of the losses and its gradients, and in its
metadata the ModelSpec as protobuf text and the kind of data. Dropout masks are
made here from Philox4x32-10, so the files also pin which number of which stream
decides about which element.
"""
import math
import os

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

SEED, STEP, LEAF = 7, 3, 2


def uniforms(count, node):
    """Numbers 0 .. count - 1 of the dropout stream of layer `node`, in [0, 1)."""
    blocks = (count + 3) // 4
    counter = [np.arange(blocks, dtype=np.uint64), np.zeros(blocks, np.uint64),
               np.full(blocks, STEP, np.uint64),
               np.full(blocks, LEAF * 4096 + node, np.uint64)]
    low = np.uint64(0xFFFFFFFF)
    purpose = 2
    key = [SEED ^ (purpose * 0x85EBCA6B & 0xFFFFFFFF), purpose]
    for _ in range(10):
        product0 = np.uint64(0xD2511F53) * counter[0]
        product1 = np.uint64(0xCD9E8D57) * counter[2]
        shift = np.uint64(32)
        counter = [(product1 >> shift) ^ counter[1] ^ np.uint64(key[0]),
                   product1 & low,
                   (product0 >> shift) ^ counter[3] ^ np.uint64(key[1]),
                   product0 & low]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF,
               (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    bits = np.stack(counter, 1).reshape(-1)[:count]
    return (bits >> np.uint64(8)).astype(np.float64) * 2.0**-24


class Run:
    """Forward of one model: creates weights on first use, counts layers."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.weights = {}
        self.node = 0

    def random(self, *shape, scale=1.0):
        x = torch.randn(*shape, generator=self.generator, dtype=torch.float64)
        return (x * scale).float().double()

    def weight(self, name, *shape, scale=0.3, shift=0.0):
        if name not in self.weights:
            value = (self.random(*shape, scale=scale) + shift).float().double()
            self.weights[name] = value.requires_grad_()
        return self.weights[name]

    def linear(self, name, x, outputs, bias=True, scale=0.3):
        self.node += 1
        w = self.weight(name + ".weight", outputs, x.shape[-1], scale=scale)
        b = self.weight(name + ".bias", outputs) if bias else None
        return F.linear(x, w, b)

    def activation(self, x, kind):
        self.node += 1
        return F.relu(x) if kind == "RELU" else F.gelu(x, approximate="tanh")

    def dropout(self, x, rate):
        if rate == 0:
            return x
        keep = uniforms(x.numel(), self.node) >= np.float32(rate)
        self.node += 1
        return x * torch.from_numpy(keep).reshape(x.shape) / (1 - rate)

    def norm(self, name, x, bias):
        self.node += 1
        scale = self.weight(name + ".weight", x.shape[-1], shift=1.0)
        shift = self.weight(name + ".bias", x.shape[-1]) if bias else None
        return F.layer_norm(x, (x.shape[-1],), scale, shift)


def linear_stack(run, x, hidden, outputs, activation, rate, first):
    for i, width in enumerate(hidden):
        x = run.dropout(x, rate) if first else x
        x = run.activation(run.linear(f"hidden.{i}", x, width), activation)
        x = x if first else run.dropout(x, rate)
    x = run.dropout(x, rate) if first else x
    return run.linear("output", x, outputs)


def mlp(run, x, hidden, outputs, activation="RELU", rate=0.0):
    return linear_stack(run, x, hidden, outputs, activation, rate, False)


def cnn(run, x, blocks, hidden, outputs, activation="RELU", rate=0.0):
    for i, (channels, kernel, stride, padding, pool, size) in enumerate(blocks):
        name = f"blocks.{i}.convolution"
        fan = (channels, x.shape[1], kernel, kernel)
        x = F.conv2d(x, run.weight(name + ".weight", *fan),
                     run.weight(name + ".bias", channels), stride, padding)
        x = F.relu(x) if activation == "RELU" else F.gelu(x, approximate="tanh")
        if pool == "MAX":
            x = F.max_pool2d(x, size)
        elif pool == "AVERAGE":
            x = F.avg_pool2d(x, size)
        run.node += 2 if pool == "NONE" else 3
    return linear_stack(run, x.flatten(1), hidden, outputs, activation, rate,
                        True)


def statistic(weight, running, observed):
    """The "gradient" of a running statistic: see OptimizerGroup."""
    return weight * (running.detach() - observed.detach())


def resnet(run, x, layers, width, stem, outputs, block="BASIC",
           training=True):
    def batch_norm(name, x):
        channels = x.shape[1]
        scale = run.weight(name + ".weight", channels, shift=1.0)
        shift = run.weight(name + ".bias", channels)
        mean = run.weight(name + ".running_mean", channels)
        variance = run.weight(name + ".running_var", channels, scale=0.1,
                              shift=1.0)
        if not training:
            return F.batch_norm(x, mean, variance, scale, shift)
        # With momentum 1 the running statistics become those observed.
        observed = [torch.zeros_like(mean), torch.zeros_like(variance)]
        y = F.batch_norm(x, *observed, scale, shift, training=True, momentum=1)
        mean.grad = statistic(x.shape[0], mean, observed[0])
        variance.grad = statistic(x.shape[0], variance, observed[1])
        return y

    def convolution(name, x, channels, kernel, stride):
        w = run.weight(name + ".weight", channels, x.shape[1], kernel, kernel)
        return F.conv2d(x, w, None, stride, kernel // 2)

    def residual_block(name, x, channels, stride):
        # The kernels and strides of the convolutions.
        bottleneck = [(1, 1), (3, stride), (1, 1)]
        steps = bottleneck if block == "BOTTLENECK" else [(3, stride), (3, 1)]
        outputs = channels * (4 if block == "BOTTLENECK" else 1)
        y = x
        for i, (kernel, step) in enumerate(steps, 1):
            last = i == len(steps)
            y = convolution(f"{name}.conv{i}", y,
                            outputs if last else channels, kernel, step)
            if not last:
                y = F.relu(batch_norm(f"{name}.bn{i}", y))
        if stride != 1 or x.shape[1] != outputs:
            x = convolution(name + ".downsample.0", x, outputs, 1, stride)
            x = batch_norm(name + ".downsample.1", x)
        return F.relu(batch_norm(f"{name}.bn{len(steps)}", y) + x)

    large = stem == "IMAGENET"
    x = convolution("conv1", x, width, 7 if large else 3, 2 if large else 1)
    x = F.relu(batch_norm("bn1", x))
    if large:
        x = F.max_pool2d(x, 3, 2, 1)
    for stage, blocks in enumerate(layers):
        for i in range(blocks):
            x = residual_block(f"layer{stage + 1}.{i}", x, width << stage,
                               2 if stage > 0 and i == 0 else 1)
    return run.linear("fc", x.mean((2, 3)), outputs)


def attention(run, qkv, heads, rate):
    batch, time, width3 = qkv.shape
    node = run.node
    run.node += 1
    q, k, v = qkv.view(batch, time, 3, heads, -1).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    mask = torch.ones(time, time, dtype=torch.bool).triu(1)
    p = scores.masked_fill(mask, float("-inf")).softmax(-1)
    if rate > 0:
        keep = uniforms(p.numel(), node) >= np.float32(rate)
        p = p * torch.from_numpy(keep).reshape(p.shape) / (1 - rate)
    return (p @ v).transpose(1, 2).reshape(batch, time, width3 // 3)


def gpt(run, tokens, layers, heads, width, tied, bias, rate=0.0):
    vocabulary, time = 16, tokens.shape[1]
    wte = run.weight("transformer.wte.weight", vocabulary, width)
    wpe = run.weight("transformer.wpe.weight", time, width)
    run.node += 1
    x = run.dropout(wte[tokens.long()] + wpe, rate)
    for i in range(layers):
        name = f"transformer.h.{i}"
        y = run.norm(name + ".ln_1", x, bias)
        y = run.linear(name + ".attn.c_attn", y, 3 * width, bias)
        y = attention(run, y, heads, rate)
        y = run.linear(name + ".attn.c_proj", y, width, bias)
        x = x + run.dropout(y, rate)
        run.node += 1
        y = run.norm(name + ".ln_2", x, bias)
        y = run.linear(name + ".mlp.c_fc", y, 4 * width, bias)
        y = run.activation(y, "GELU")
        y = run.linear(name + ".mlp.c_proj", y, width, bias)
        x = x + run.dropout(y, rate)
        run.node += 1
    x = run.norm("transformer.ln_f", x, bias)
    if tied:
        return x @ wte.T
    return run.linear("lm_head", x, vocabulary, bias=False)


def cross_entropy(logits, target, smoothing=0.0):
    return F.cross_entropy(logits, target.reshape(-1).long(), reduction="sum",
                           label_smoothing=smoothing)


def write(name, spec, kind, shape, classes, run, x, target, output,
          evaluated=None, smoothing=0.0):
    if smoothing:
        spec += f" label_smoothing: {smoothing}"
        evaluated = output.detach().reshape(-1, classes)
    if classes:
        logits = output.reshape(-1, classes)
        loss = cross_entropy(logits, target, smoothing)
        correct = int((logits.argmax(-1) == target.reshape(-1)).sum())
    else:
        loss = F.mse_loss(output[:, 0], target, reduction="sum")
        correct = 0
    loss.backward()
    tensors = {"input": x.numpy(), "target": target.numpy(),
               "loss": np.array([loss.item()])}
    if evaluated is not None:
        tensors["evaluation_loss"] = np.array(
            [cross_entropy(evaluated, target).item()])
    integers = lambda t: t.astype(np.int32)
    reals = lambda t: t.astype(np.float32)
    tensors["input"] = (integers if kind == "tokens" else reals)(tensors["input"])
    tensors["target"] = (integers if classes else reals)(tensors["target"])
    for key, value in run.weights.items():
        tensors["weight/" + key] = reals(value.detach().numpy())
        tensors["gradient/" + key] = reals(value.grad.numpy())
    metadata = {"model": spec, "kind": kind, "classes": str(classes),
                "shape": " ".join(map(str, shape)), "correct": str(correct),
                "order": " ".join(run.weights)}
    path = os.path.join("golden", name + ".safetensors")
    save_file(tensors, path, metadata)
    os.chmod(path, 0o644)


def rows(name, spec, classes, loss="CROSS_ENTROPY", **options):
    run = Run(seed=len(name))
    x = run.random(5, 9)
    target = (torch.arange(5) * 2 % classes).int() if classes else run.random(5)
    output = mlp(run, x, [13, 6], classes or 1, **options)
    write(name, f"mlp {{ hidden: 13 hidden: 6 {spec} }} loss: {loss}", "rows",
          [9], classes, run, x, target, output)


def images(name, spec, blocks, smoothing=0.0, **options):
    run = Run(seed=len(name))
    x = run.random(3, 2, 9, 8)
    target = torch.tensor([1, 3, 0]).int()
    output = cnn(run, x, blocks, [11], 4, **options)
    write(name, f"cnn {{ {spec} hidden: 11 }}", "images", [2, 9, 8], 4, run, x,
          target, output, smoothing=smoothing)


def residual(name, sides, **options):
    run = Run(seed=len(name))
    x = run.random(3, 2, *sides)
    target = torch.tensor([1, 3, 0]).int()
    output = resnet(run, x, outputs=4, **options)
    with torch.no_grad():
        evaluated = resnet(run, x, outputs=4, training=False, **options)
    spec = f"layers: {options['layers']} width: {options['width']}"
    if "block" in options:
        spec += f" block: {options['block']}"
    write(name, f"resnet {{ {spec} stem: {options['stem']} }}", "images",
          [2, *sides], 4, run, x, target, output, evaluated)


def text(name, spec, smoothing=0.0, **options):
    run = Run(seed=len(name))
    tokens = torch.randint(16, (2, 7), generator=run.generator).int()
    target = torch.randint(16, (2, 7), generator=run.generator).int()
    output = gpt(run, tokens, layers=2, heads=2, width=8, **options)
    write(name, f"gpt {{ layers: 2 heads: 2 width: 8 context: 7 {spec} }}",
          "tokens", [7], 16, run, tokens, target, output, smoothing=smoothing)


def main():
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    os.makedirs("golden", exist_ok=True)
    rows("mlp_relu", "", 4)
    rows("mlp_gelu", "activation: GELU", 4, activation="GELU")
    rows("mlp_dropout", "dropout: 0.25", 4, rate=0.25)
    rows("mlp_regression", "", 0, loss="MEAN_SQUARED_ERROR")
    block = ("block {{ channels: {} kernel: {} stride: {} padding: {} pool: {} "
             "pool_size: {} }} ")
    maximum = [(5, 3, 1, 1, "MAX", 2), (4, 2, 1, 0, "NONE", 2)]
    average = [(5, 5, 1, 2, "AVERAGE", 3), (6, 3, 2, 1, "MAX", 1)]
    spec_of = lambda blocks: "".join(block.format(*b) for b in blocks)
    images("cnn_max", spec_of(maximum), maximum)
    images("cnn_max_gelu", spec_of(maximum) + "activation: GELU", maximum,
           activation="GELU")
    images("cnn_average", spec_of(average), average)
    images("cnn_dropout", spec_of(maximum) + "dropout: 0.25", maximum, rate=0.25)
    residual("resnet", [9, 8], layers=[2, 1], width=3, stem="SMALL")
    residual("resnet_imagenet", [24, 19], layers=[1, 1], width=4,
             stem="IMAGENET")
    residual("resnet_bottleneck", [17, 12], layers=[2, 1], width=2,
             stem="SMALL", block="BOTTLENECK")
    images("cnn_smoothed", spec_of(maximum), maximum, smoothing=0.25)
    text("gpt_smoothed", "", tied=True, bias=True, smoothing=0.25)
    for tied in (True, False):
        for bias in (True, False):
            name = (f"gpt_{'tied' if tied else 'untied'}"
                    f"{'' if bias else '_no_bias'}")
            text(name, f"tied_head: {str(tied).lower()} "
                 f"bias: {str(bias).lower()}", tied=tied, bias=bias)
    text("gpt_dropout", "dropout: 0.25", tied=True, bias=True, rate=0.25)


if __name__ == "__main__":
    main()
