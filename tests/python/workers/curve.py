"""Trains a network, or, as `curve.py FOLDER RULE GROUPED ROUND`, prints the losses of
plain PyTorch and writes its weights to FOLDER/plain.npz.

The worker writes the samples of each micro-batch to FOLDER (`folder` of the job's
config), from which plain PyTorch reads the order of the samples. GROUPED (`grouped` of
the config) is 1 if there are parameter groups. The optimizer of plain PyTorch begins
anew every ROUND steps.
"""

import json
import os
import sys

import numpy as np
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


def groups_of(network):
    return [{'params': network.embedding.weight, 'learning_rate_factor': 0.3},
            {'params': network.hidden.parameters(), 'learning_rate_factor': 2.5,
             'weight_decay': False},
            {'params': network.norm.parameters(), 'weight_decay': False}]


def optimizer_of(rule, network, grouped):
    rate = 0.2 if rule == 'sgd' else 0.01
    parameters = [{'params': list(network.parameters())}]
    if grouped:
        rest = set(network.parameters())
        groups = []
        for group in groups_of(network):
            own = {'params': group['params'],
                   'lr': rate * group.get('learning_rate_factor', 1)}
            if not group.get('weight_decay', True):
                own['weight_decay'] = 0
            groups.append(own)
        for group in (network.embedding, network.hidden, network.norm):
            rest -= set(group.parameters())
        parameters = groups + [{'params': [p for p in network.parameters() if p in rest]}]
    if rule == 'sgd':
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=0.001)
    return torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.99), eps=1e-8,
                             weight_decay=0.1)


def plain(folder, rule, grouped, steps_of_round):
    torch.set_num_threads(1)
    torch.manual_seed(7)
    x, y = data()
    network = Net()
    losses = []
    for step in range(STEPS):
        if step % int(steps_of_round) == 0:
            optimizer = optimizer_of(rule, network, grouped == '1')
        indices = []
        for number in range(4):
            path = os.path.join(folder, f'{step}-{number}')
            if not os.path.exists(path):
                break
            with open(path, encoding='utf-8') as file:
                indices += json.load(file)
        loss = nn.functional.cross_entropy(network(x[indices]), y[indices])
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        if network.unused.weight.grad is None:
            network.unused.weight.grad = torch.zeros_like(network.unused.weight)
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps(losses))
    np.savez(os.path.join(folder, 'plain.npz'),
             **{name: tensor.detach().numpy()
                for name, tensor in network.state_dict().items()})


def work():
    import tributary
    session = tributary.connect()
    x, y = data()
    torch.manual_seed(7)
    network = Net()
    model = tributary.DistributedDataParallel(
        network, session,
        parameter_groups=groups_of(network) if session.job.config['grouped'] else ())
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
