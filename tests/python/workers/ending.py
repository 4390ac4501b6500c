"""A loop over a DataLoader, and how it ends. Variables: END_AFTER, the number of epochs
after which the program ends the job; FAILS, the kind of the exception of its
evaluation."""

import os

import torch
import tributary
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    session = tributary.connect()
    network = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    network[2].bias.requires_grad_(False)
    x = torch.arange(64.).reshape(32, 2).sin()
    y = x.sum(dim=1, keepdim=True)

    def evaluate(piece):
        if os.environ.get('FAILS'):
            raise {'usage': tributary.Error, 'crash': RuntimeError}[os.environ['FAILS']](
                'no metric')
        error = (network(x[piece.indices]) - y[piece.indices]).square().sum()
        piece.report(loss_sum=error)

    optimizer = tributary.Optimizer(network, session, evaluate=evaluate)
    loader = session.loader(DataLoader(TensorDataset(x, y), batch_size=2, shuffle=True))
    for epoch in range(4):
        for a, b in loader:
            optimizer.zero_grad()
            (network(a) - b).square().mean().backward()
            optimizer.step()
        if epoch + 1 == int(os.environ.get('END_AFTER', 0)):
            session.end_job()
    assert optimizer.done
    print('the module has', network[0].weight.flatten().tolist())


if __name__ == '__main__':
    main()
