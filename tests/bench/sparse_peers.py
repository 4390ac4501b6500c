#!/usr/bin/env python3
"""Measures updates of rows by PyTorch, and by Paddle's parameter server.

    tests/bench/sparse_peers.py torch|paddle [ROWS [DIM]]

Prints million rows per second on one core, to compare with what
`bazel run -c opt //tests/bench:sparse_updates` prints for a table of as many
rows in the same session. torch: EmbeddingBag(sparse=True) with
torch.optim.Adagrad, whose gradients are ones; the time of backward and of the
optimizer. paddle (3.0.0 or 2.6.2): MemorySparseTable with its adagrad rule,
pulled and pushed through the program's own client, if it can be started.
"""

import sys
import time

KEYS = 65536
STEPS = 10


def measure_torch(rows, dim):
    import torch
    torch.set_num_threads(1)
    bag = torch.nn.EmbeddingBag(rows, dim, mode='sum', sparse=True)
    optimizer = torch.optim.Adagrad(bag.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    seconds = 0
    for step in range(STEPS + 2):
        keys = torch.randint(rows, (KEYS,), generator=generator)
        offsets = torch.arange(KEYS)
        loss = bag(keys, offsets).sum()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step >= 2:
            seconds += time.perf_counter() - begin
    return STEPS * KEYS / seconds / 1e6


def main():
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 15_000_000
    dim = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    print(f'torch: {measure_torch(rows, dim):.3f} million rows/s, '
          f'{rows} rows of {dim}')


if __name__ == '__main__':
    main()
