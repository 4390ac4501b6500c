"""The example digits.py, whose weights and gradients pass through PinnedCopies.

A stand-in for CUDA runs each copy as late as CUDA may: when something waits for it.
"""

import os
import sys

sys.path.insert(0, os.environ['EXAMPLES'])
sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import digits  # noqa: E402
from tributary import _device_copies  # noqa: E402

from late_copies import LateCopies  # noqa: E402

if __name__ == '__main__':
    _device_copies.copies_for = lambda device, *_: \
        _device_copies.PinnedCopies(device, LateCopies())
    digits.main()
