"""A loop with tributary.Optimizer, or, as `loop.py FILE`, with PyTorch's SGD, which
writes its weights to FILE. model.external.config: `mistake`, what is special."""

import os
import signal
import sys

import numpy as np
import torch
import tributary
from torch import nn

SAMPLES, BATCH = 64, 8


def data():
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(SAMPLES, 3, generator=generator)
    return x, (x @ torch.tensor([1.5, -2, 0.5])[:, None]).tanh()


def make_network():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


def loop(network, optimizer, special, done):
    """Trains in the order of the samples until `done()`."""
    x, y = data()
    loss_fn = nn.MSELoss()
    calls = 0
    while not done():
        for begin in range(0, SAMPLES, BATCH):
            def closure():
                optimizer.zero_grad(set_to_none=True)
                loss = loss_fn(network(x[begin:begin + BATCH]), y[begin:begin + BATCH])
                if special != 'forgotten' or calls < 4:
                    loss.backward()
                return loss

            if special == 'closure':
                optimizer.step(closure)
            else:
                loss = closure()
                optimizer.step(**({} if special == 'plain' else {'loss': loss}))
            calls += 1
            if special == 'other' and calls == 4:
                torch.optim.SGD(network.parameters(), lr=0.1).step()
            if special == 'early' and calls == 4:
                return
            if special == 'kill' and calls == 4 and not os.path.exists(
                    os.environ['MARKER']):
                with open(os.environ['MARKER'], 'w', encoding='utf-8'):
                    os.kill(os.getpid(), signal.SIGKILL)
            if special == 'plain' and calls == 40:
                return


def work():
    session = tributary.connect()
    special = session.job.config['special']
    network = make_network()
    x, y = data()

    def evaluate(piece):
        assert not network.training and not torch.is_grad_enabled()
        error = network(x[piece.indices]) - y[piece.indices]
        piece.report(loss_sum=error.square().sum(), correct=(error.abs() < 0.5).sum(),
                     metrics={'absolute_error': error.abs().sum(), 'half': (1, 2)})

    optimizer = tributary.Optimizer(network, session,
                                    evaluate=evaluate if special == 'evaluate' else None)
    loop(network, optimizer, special, lambda: optimizer.done)
    if special == 'early':
        return
    assert network.training
    assert optimizer.step(loss=1.0) == 1.0  # Does nothing after the end.


def plain(file):
    torch.set_num_threads(1)
    network = make_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    loop(network, optimizer, 'plain', lambda: False)
    np.savez(file, **{name: tensor.detach().numpy()
                      for name, tensor in network.named_parameters()})


if __name__ == '__main__':
    if len(sys.argv) > 1:
        plain(sys.argv[1])
    else:
        work()
