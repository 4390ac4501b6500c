"""A worker whose gradients pass through a stand-in for CUDA, and that fails: in WHERE,
after forward ('forward'), in backward ('backward'), or because it leaves the loop over
the micro-batches ('loop'). Before the session frees the library's memory, prints
whether copies are under way.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import torch  # noqa: E402
import tributary  # noqa: E402
from torch import nn  # noqa: E402
from tributary import _device_copies  # noqa: E402

from late_copies import LateCopies  # noqa: E402

WHERE = os.environ['WHERE']


class Break(torch.autograd.Function):

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise ValueError('backward has failed')


class Network(nn.Module):

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(2, 2), nn.Linear(2, 1)

    def forward(self, x):
        x = self.first(x)
        return self.last(Break.apply(x) if WHERE == 'backward' else x)


def main():
    backend = LateCopies()
    _device_copies.copies_for = lambda device, *_: \
        _device_copies.PinnedCopies(device, backend)
    session = tributary.connect()
    free = session._library.worker_free

    def print_and_free(handle):
        print(f'weights awaited: {backend.current.waits > 0}, copies of gradients under '
              f'way: {sum(len(stream.tasks) for stream in backend.streams)}',
              file=sys.stderr, flush=True)
        free(handle)

    session._library.worker_free = print_and_free
    model = tributary.DistributedDataParallel(Network(), session)
    for step in session:
        for batch in step.micro_batches:
            loss = model(torch.ones(len(batch.indices), 2)).mean()
            if WHERE == 'forward':
                raise ValueError('forward has failed')
            if WHERE == 'loop':
                break
            batch.backward(loss)
        if WHERE == 'loop':
            raise ValueError('loop has failed')


if __name__ == '__main__':
    main()
