#!/usr/bin/env python3
"""Writes waves.train.csv and waves.test.csv beside itself.

Each row is x, y, z in [-1, 1] and the label sin(3 x) * y + z^2, with noise of
deviation 0.02. The generator is seeded: the files are always the same.
"""
import math
import pathlib
import random


def write(path, rows, generator):
    with open(path, "w", encoding="ascii") as file:
        file.write("x,y,z,wave\n")
        for _ in range(rows):
            x, y, z = (generator.uniform(-1, 1) for _ in range(3))
            wave = math.sin(3 * x) * y + z * z + generator.gauss(0, 0.02)
            file.write(f"{x:.4f},{y:.4f},{z:.4f},{wave:.4f}\n")


def main():
    folder = pathlib.Path(__file__).parent
    generator = random.Random(20240501)
    write(folder / "waves.train.csv", 400, generator)
    write(folder / "waves.test.csv", 100, generator)


if __name__ == "__main__":
    main()
