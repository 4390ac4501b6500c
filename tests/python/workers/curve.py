"""Trains a network, or, as `curve.py FOLDER RULE`, prints the losses of plain PyTorch.

The worker writes the samples of each micro-batch to FOLDER (`folder` of the job's
config), from which plain PyTorch reads the order of the samples.
"""

import json
import os
import sys

import torch
from torch import nn

STEPS, BATCH, SAMPLES = 40, 16, 80


class Net(nn.Module):
    """Has tied, frozen and unused parameters."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 12)
        self.frozen = nn.Linear(12, 12).requires_grad_(False)
        self.hidden = nn.Linear(12, 12)
        self.norm = nn.LayerNorm(12)
        self.unused = nn.Linear(2, 2, bias=False)
        self.output = nn.Linear(12, 20)
        self.output.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, tokens):
        x = torch.tanh(self.frozen(self.embedding(tokens)))
        x = self.norm(x + self.hidden(x)) * self.scale
        return self.output(x.mean(dim=1))


def data():
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(20, (SAMPLES, 6), generator=generator)
    return tokens, tokens.sum(dim=1) % 20


def optimizer_of(rule, parameters):
    if rule == 'sgd':
        return torch.optim.SGD(parameters, lr=0.2, momentum=0.9, weight_decay=0.001)
    return torch.optim.AdamW(parameters, lr=0.01, betas=(0.9, 0.99), eps=1e-8,
                             weight_decay=0.1)


def plain(folder, rule):
    torch.set_num_threads(1)
    torch.manual_seed(7)
    x, y = data()
    network = Net()
    optimizer = optimizer_of(rule, network.parameters())
    losses = []
    for step in range(STEPS):
        indices = []
        for number in range(4):
            with open(os.path.join(folder, f'{step}-{number}'), encoding='utf-8') as file:
                indices += json.load(file)
        loss = nn.functional.cross_entropy(network(x[indices]), y[indices])
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        if network.unused.weight.grad is None:
            network.unused.weight.grad = torch.zeros_like(network.unused.weight)
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps(losses))


def work():
    import tributary
    session = tributary.connect()
    x, y = data()
    torch.manual_seed(7)
    model = tributary.DistributedDataParallel(Net(), session)
    folder, reduction = session.job.config['folder'], session.job.config['reduction']
    for step in session:
        for batch in step.micro_batches:
            with open(os.path.join(folder, f'{batch.step}-{batch.number}'), 'w',
                      encoding='utf-8') as file:
                json.dump(batch.indices.tolist(), file)
            loss = nn.functional.cross_entropy(model(x[batch.indices]),
                                               y[batch.indices], reduction=reduction)
            batch.backward(loss, reduction=reduction)


if __name__ == '__main__':
    if len(sys.argv) > 1:
        plain(*sys.argv[1:])
    else:
        work()
