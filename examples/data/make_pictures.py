#!/usr/bin/env python3
"""Writes small color pictures of ten classes, in CIFAR-10's binary format.

    python3 make_pictures.py FOLDER [PICTURES]

makes FOLDER/train.bin with PICTURES (default 2000) pictures, and FOLDER/test.bin
with a fifth as many. A class is a color and a direction of stripes; position,
brightness and noise vary. The generator is seeded: the files are always the
same.
"""
import math
import pathlib
import random
import sys

SIDE = 32


def picture(label, generator):
    angle = math.pi * (label % 5) / 5
    phase = generator.uniform(0, 2 * math.pi)
    color = (200, 120, 60) if label < 5 else (60, 120, 200)
    light = generator.uniform(0.6, 1.2)
    planes = [bytearray() for _ in range(3)]
    for y in range(SIDE):
        for x in range(SIDE):
            wave = math.sin(phase + 0.8 * (x * math.cos(angle) + y * math.sin(angle)))
            for plane, strength in zip(planes, color):
                value = light * strength * (0.6 + 0.4 * wave) + generator.gauss(0, 20)
                plane.append(min(max(int(value), 0), 255))
    return bytes([label]) + b"".join(planes)


def write(path, count, generator):
    with open(path, "wb") as file:
        for number in range(count):
            file.write(picture(number % 10, generator))


def main():
    folder = pathlib.Path(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(20261124)
    write(folder / "train.bin", count, generator)
    write(folder / "test.bin", count // 5, generator)


if __name__ == "__main__":
    main()
