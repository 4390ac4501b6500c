#!/usr/bin/env python3
"""Trains examples/mnist.textproto's network with PyTorch, for comparison; prints one JSON object.

    pytorch_mnist.py DIRECTORY [--model cnn|mlp] [--epochs 12] [--threads 2] [--seed 1]

DIRECTORY holds the four IDX files, plain or .gz. Same network, batch, optimizer and schedule as the example; the data
are in memory, so no loading is timed.
"""
import argparse
import gzip
import json
import math
import os
import struct
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def read(directory, name):
    path = os.path.join(directory, name)
    opener = open if os.path.exists(path) else gzip.open
    with opener(path if os.path.exists(path) else path + ".gz", "rb") as file:
        data = file.read()
    dimensions = data[3]
    shape = struct.unpack(">" + "I" * dimensions, data[4:4 + 4 * dimensions])
    return torch.frombuffer(bytearray(data[4 + 4 * dimensions:]), dtype=torch.uint8).reshape(shape)


def build(name):
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                             nn.Linear(512, 10))
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2),
                         nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.4), nn.Linear(64 * 7 * 7, 128),
                         nn.ReLU(), nn.Dropout(0.4), nn.Linear(128, 10))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--model", choices=["cnn", "mlp"], default="cnn")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    scale = lambda images: ((images.float() / 255 - 0.1307) / 0.3081).unsqueeze(1)
    images, labels = scale(read(args.directory, "train-images-idx3-ubyte")), read(
        args.directory, "train-labels-idx1-ubyte").long()
    held_out, held_out_labels = scale(read(args.directory, "t10k-images-idx3-ubyte")), read(
        args.directory, "t10k-labels-idx1-ubyte").long()
    model = build(args.model)
    steps = args.epochs * math.ceil(len(images) / 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: (s + 1) / 50 if s < 50 else 0.5 * (1 + math.cos(math.pi * (s - 50) / (steps - 50))))
    start = time.perf_counter()
    for _ in range(args.epochs):
        order = torch.randperm(len(images))
        for batch in order.split(64):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
            schedule.step()
    seconds = time.perf_counter() - start
    model.eval()
    with torch.no_grad():
        correct = sum((model(x).argmax(1) == y).sum().item()
                      for x, y in zip(held_out.split(500), held_out_labels.split(500)))
    print(json.dumps({"system": "pytorch " + torch.__version__, "model": args.model, "epochs": args.epochs,
                      "threads": args.threads, "seconds": round(seconds, 2),
                      "accuracy": correct / len(held_out)}))


if __name__ == "__main__":
    main()
