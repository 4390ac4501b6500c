"""The example digits.py, whose weights and gradients pass through DeviceCopies.

DEVICE is the device of the network. Without a GPU, a stand-in for CUDA runs each copy
as late as CUDA may: when something waits for it.
"""

import os
import sys

sys.path.insert(0, os.environ['EXAMPLES'])
sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import digits  # noqa: E402
from torch import nn  # noqa: E402
from tributary import _device_copies  # noqa: E402

from late_copies import LateCopies  # noqa: E402


class OnDevice(nn.Module):
    """A network on a device, for inputs and outputs on the CPU."""

    def __init__(self, network, device):
        super().__init__()
        self.network, self.device = network.to(device), device

    def forward(self, x):
        return self.network(x.to(self.device)).cpu()


def main():
    device = os.environ['DEVICE']
    if device == 'cpu':
        _device_copies.device_copies = lambda device, count: \
            _device_copies.DeviceCopies(device, count, LateCopies())
    make_network = digits.make_network
    digits.make_network = lambda: OnDevice(make_network(), device)
    digits.main()


if __name__ == '__main__':
    main()
