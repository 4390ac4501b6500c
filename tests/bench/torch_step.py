#!/usr/bin/env python3
"""Times one training step of PyTorch on the models of `tributary bench step`; prints one JSON object.

    torch_step.py MODEL [--kind eager|compiled] [--precision FLOAT32|BFLOAT16] [--device cpu|cuda] [--batch N]
                        [--context N] [--seconds 4]

Sizes, batches and optimizers are those of deploy/tools/bench/bench_jobs.h. Inputs are random and stay in memory. BFLOAT16 is
autocast; `compiled` is torch.compile of forward and loss, with a fused optimizer on CUDA. GPT-2's vocabulary is padded
to 50,304, as is usual for speed. Machines drift: time both systems in turn and compare the medians.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

WARM_UP_STEPS = 5
MIN_STEPS = 5


def mlp(*sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2),
                         nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(),
                         nn.Linear(128, 10))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs),
                                  nn.ReLU(), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.skip = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnet18():
    layers, inputs = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.attention(self.ln_1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def build(name, context):
    """Returns the model, its default batch, and a function from a batch to inputs and labels."""
    def features(classes, *shape):
        return lambda batch: (torch.randn(batch, *shape), torch.randint(classes, (batch,)))

    def tokens(vocabulary, length):
        return lambda batch: tuple(torch.randint(vocabulary, (batch, length)) for _ in range(2))

    if name == "gpt":
        return Gpt(4, 128, 4, context or 128, 256), 8, tokens(256, context or 128)
    if name == "gpt2":
        return Gpt(12, 768, 12, context or 1024, 50304), 4, tokens(50257, context or 1024)
    if name == "mlp":
        return mlp(784, 512, 512, 10), 64, features(10, 784)
    if name == "bigmlp":
        return mlp(*[4096] * 5), 16, features(4096, 4096)
    if name == "cnn":
        return cnn(), 64, features(10, 1, 28, 28)
    if name == "resnet50":
        import torchvision
        return torchvision.models.resnet50(), 4, features(1000, 3, 224, 224)
    return resnet18(), 32, features(10, 3, 32, 32)


def optimizer_of(model, name, device):
    options = {"fused": True} if device == "cuda" else {}
    if name.startswith("gpt"):
        return torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, **options)
    return torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["mlp", "cnn", "gpt", "gpt2", "bigmlp", "resnet18", "resnet50"])
    parser.add_argument("--kind", choices=["eager", "compiled"], default="eager")
    parser.add_argument("--precision", choices=["FLOAT32", "BFLOAT16"], default="FLOAT32")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=4)
    args = parser.parse_args()

    torch.manual_seed(1)
    model, batch, draw = build(args.model, args.context)
    batch = args.batch or batch
    model.to(args.device)
    optimizer = optimizer_of(model, args.model, args.device)
    inputs, labels = (tensor.to(args.device) for tensor in draw(batch))

    def loss_of():
        with torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "BFLOAT16"):
            logits = model(inputs)
            return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))

    forward = torch.compile(loss_of) if args.kind == "compiled" else loss_of

    def step():
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        forward().backward()
        optimizer.step()
        if args.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    for _ in range(WARM_UP_STEPS):
        step()
    seconds, end = [], time.perf_counter() + args.seconds
    while len(seconds) < MIN_STEPS or time.perf_counter() < end:
        seconds.append(step())
    print(json.dumps({
        "system": "pytorch " + torch.__version__, "model": args.model, "kind": args.kind, "precision": args.precision,
        "device": args.device, "parameters": sum(p.numel() for p in model.parameters()), "batch": batch,
        "steps": len(seconds), "median_ms": round(statistics.median(seconds) * 1e3, 3),
        "min_ms": round(min(seconds) * 1e3, 3)}))


if __name__ == "__main__":
    main()
