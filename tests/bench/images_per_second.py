#!/usr/bin/env python3
"""Compares how many pictures one core reads in a second of processor time.

    bazel build //tests/bench:read_pictures
    python3 tests/bench/images_per_second.py bazel-bin/tests/bench/read_pictures

Makes 200 JPEG files of 500 x 375 pixels, and alternates, on one core, between
read_pictures and torchvision's ImageFolder with Pillow: decoding,
RandomResizedCrop(224), RandomHorizontalFlip, ToTensor and Normalize, in a
DataLoader without other processes. Prints the rates and their ratio. Needs
torch, torchvision and Pillow.
"""

import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torchvision
from PIL import Image

SECONDS = 4
ROUNDS = 4


def make_pictures(folder):
    """Smooth random pictures, whose files have about the size of photographs."""
    generator = random.Random(1)
    for number in range(200):
        noise = Image.frombytes("RGB", (125, 94), generator.randbytes(125 * 94 * 3))
        path = pathlib.Path(folder, str(number % 2), f"{number}.jpg")
        path.parent.mkdir(exist_ok=True)
        noise.resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=85)


def torchvision_rate(folder):
    transforms = torchvision.transforms
    data = torchvision.datasets.ImageFolder(folder, transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]))
    loader = torch.utils.data.DataLoader(data, batch_size=10, shuffle=True)
    count = 0
    start = time.process_time()
    while True:
        for pictures, _ in loader:
            count += len(pictures)
            seconds = time.process_time() - start
            if seconds >= SECONDS:
                return count / seconds


def main():
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        make_pictures(folder)
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(float(subprocess.check_output(
                [sys.argv[1], folder, str(SECONDS)])))
            theirs.append(torchvision_rate(folder))
    print("tributary  ", " ".join(f"{rate:.0f}" for rate in ours))
    print("torchvision", " ".join(f"{rate:.0f}" for rate in theirs))
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"ratio of the medians: {ratio:.2f}")


if __name__ == "__main__":
    main()
