"""The example digits.py, whose weights and gradients are in the memory of the emulated
GPU. The module computes on the CPU, which can read that memory.

The native library is that of the folder NATIVE. With MARKER, worker 1 is killed once, as
killed_digits.py describes.
"""

import ctypes
import os
import sys

sys.path.insert(0, os.environ['EXAMPLES'])
sys.path.insert(0, os.path.dirname(__file__))

import digits  # noqa: E402
import killed_digits  # noqa: E402
import torch  # noqa: E402
from tributary import _device_copies, _native  # noqa: E402

_native._FOLDER = os.environ['NATIVE']


class Event:

    def synchronize(self):
        pass


class EmulatedGpu:
    """A `Backend` whose current stream, the CPU, runs everything at once."""

    def __init__(self):
        library = ctypes.CDLL(os.path.join(_native._FOLDER, 'libtributary_c.so'))
        self._wait = library.emulated_gpu_wait
        self._wait.restype, self._wait.argtypes = ctypes.c_bool, [ctypes.c_void_p]

    def current_stream(self, device):
        return None

    def copy(self, stream, to, source):
        to.copy_(source)
        return Event()

    def order(self, stream, after):
        if after is not None and not self._wait(after):
            raise RuntimeError('the emulated GPU has failed')

    def library_stream(self, address, device):
        return address

    def view(self, address, size, device):
        return torch.from_numpy(_native.view(address, (size,), True))


def copies_for(device, session, _):
    session.use_gpu(0)
    return _device_copies.GpuCopies(device, EmulatedGpu())


if __name__ == '__main__':
    _device_copies.copies_for = copies_for
    if 'MARKER' in os.environ:
        digits.make_network = killed_digits.make_network_that_kills
    digits.main()
