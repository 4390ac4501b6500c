"""The network of the example pipeline.py in one process, whose gradients PyTorch computes
for each micro-batch at once."""

import os
import sys

sys.path.insert(0, os.environ['EXAMPLES'])

import digits  # noqa: E402
import pipeline  # noqa: E402

if __name__ == '__main__':
    digits.make_network = pipeline.make_network
    digits.main()
