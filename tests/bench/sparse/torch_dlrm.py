#!/usr/bin/env python3
"""Trains the DLRM of examples/clicks.textproto in one PyTorch process.

    tests/bench/sparse/torch_dlrm.py [--threads 2] [--steps 400] [--scale 0.001]
                              [--dense] [--compile]

Prints one JSON line with the training samples/s, to compare with
`samples_per_second` in the summary.json of `tributary train
examples/clicks.textproto`. All tables are in the memory of the process: as in
the job, the 26 features share one table, here an nn.EmbeddingBag(sparse=True)
with a row for each value. Adagrad updates rows and dense parameters with the
job's learning rates; unlike the job's, PyTorch's keeps a sum of squares for each
element of a row. With --dense, the gradient of the table is dense, which is faster
while the table is small.

The samples are not those of data.clicks, but have their shape: 13 normal
numbers, and 26 categories by Zipf's law with the same exponent and the same
numbers of values. They are in memory before the clock starts, so PyTorch's time
contains neither making samples nor hashing keys, which Tributary's does. A step
is zero_grad, forward, backward and the optimizers; 20 steps warm up.
"""

import argparse
import json
import os
import statistics
import sys
import time

BATCH = 2048
NUMBERS = 13
DIM = 16
LEARNING_RATE = 0.02
EXPONENT = 1.05
WARM_UP_STEPS = 20
# Numbers of values of C1 to C26 in Criteo's Kaggle data set.
VALUES = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593,
          3194, 27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105,
          142572]
# Read by glibc when the process starts. Without them, PyTorch returns large
# tensors to the system in each step.
MALLOC = {'MALLOC_MMAP_THRESHOLD_': '4294967296', 'MALLOC_TRIM_THRESHOLD_': '34359738368',
          'MALLOC_TOP_PAD_': '1073741824'}


def make_batches(count, scale):
    """Returns batches of (numbers, row of each category, labels), and the rows."""
    import numpy as np
    import torch
    generator = np.random.default_rng(1)
    columns, rows = [], 0
    for values in VALUES:
        values = max(3, round(values * scale))
        weights = np.arange(1, values + 1) ** -EXPONENT
        columns.append(rows + generator.choice(values, count * BATCH,
                                               p=weights / weights.sum()))
        rows += values
    keys = torch.from_numpy(np.stack(columns, axis=1)).view(count, BATCH, len(VALUES))
    numbers = torch.from_numpy(generator.standard_normal(
        (count, BATCH, NUMBERS), dtype=np.float32))
    labels = torch.from_numpy(
        (generator.random((count, BATCH)) < 0.25).astype(np.float32))
    return list(zip(numbers, keys, labels)), rows


def make_model(rows, sparse):
    """Returns a DLRM: bottom MLP 64-16, dot products of pairs, top MLP 64-32-1."""
    import torch
    from torch import nn

    class Dlrm(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.EmbeddingBag(rows, DIM, mode='sum', sparse=sparse)
            nn.init.uniform_(self.table.weight, -DIM ** -0.5, DIM ** -0.5)
            self.bottom = nn.Sequential(nn.Linear(NUMBERS, 64), nn.ReLU(),
                                        nn.Linear(64, DIM), nn.ReLU())
            vectors = len(VALUES) + 1
            self.top = nn.Sequential(
                nn.Linear(DIM + vectors * (vectors - 1) // 2, 64), nn.ReLU(),
                nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
            row, column = torch.tril_indices(vectors, vectors, -1)
            self.register_buffer('pairs', row * vectors + column)
            self.register_buffer('offsets', torch.arange(BATCH * len(VALUES)))

        def forward(self, numbers, keys):
            vectors = self.table(keys.view(-1), self.offsets)
            return self.interact(numbers, vectors.view(BATCH, len(VALUES), DIM))

        def interact(self, numbers, vectors):
            z = self.bottom(numbers)
            vectors = torch.cat([z.unsqueeze(1), vectors], 1)
            products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
            return self.top(
                torch.cat([z, products.index_select(1, self.pairs)], 1)).squeeze(1)

    return Dlrm()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--steps', type=int, default=400)
    parser.add_argument('--scale', type=float, default=0.001, help='as in data.clicks')
    parser.add_argument('--dense', action='store_true',
                        help='dense gradients of the table')
    parser.add_argument('--compile', action='store_true',
                        help='torch.compile of all but the table')
    args = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in MALLOC.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MALLOC})

    import torch
    torch.sparse.check_sparse_tensor_invariants.disable()  # Explicitly: no warning.
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    batches, rows = make_batches(min(args.steps + WARM_UP_STEPS, 400),
                                 args.scale)
    model = make_model(rows, not args.dense)
    if args.compile:
        model.interact = torch.compile(model.interact)
    table = list(model.table.parameters())
    dense = [*model.bottom.parameters(), *model.top.parameters()]
    # The fused rule is the fastest, and takes no sparse gradients.
    optimizers = [torch.optim.Adagrad(dense, lr=LEARNING_RATE, fused=True),
                  torch.optim.Adagrad(table, lr=LEARNING_RATE, fused=args.dense)]
    loss_of = torch.nn.BCEWithLogitsLoss()

    seconds = []
    for step in range(WARM_UP_STEPS + args.steps):
        numbers, keys, labels = batches[step % len(batches)]
        begin = time.perf_counter()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss_of(model(numbers, keys), labels).backward()
        for optimizer in optimizers:
            optimizer.step()
        seconds.append(time.perf_counter() - begin)
    seconds = seconds[WARM_UP_STEPS:]
    print(json.dumps({
        'system': 'pytorch ' + torch.__version__, 'compile': args.compile,
        'dense': args.dense, 'threads': args.threads, 'batch': BATCH, 'rows': rows,
        'steps': len(seconds),
        'samples_per_second': round(BATCH / statistics.mean(seconds)),
        'samples_per_second_median': round(BATCH / statistics.median(seconds)),
        'step_milliseconds_median': round(statistics.median(seconds) * 1e3, 3)}))


if __name__ == '__main__':
    main()
