"""Trains a network on the data of an example as a worker, or, as `plain_pytorch.py
NETWORK RULE RECORDS STEPS`, prints the losses of plain PyTorch in one process.

In the folder RECORDS (in a worker, a variable of the environment; may be missing), the
worker writes the samples and the seed of each micro-batch. Plain PyTorch reads them,
and adds the gradients of the same micro-batches. Batch norm and dropout then compute
the same in both. While a file in the folder GATES has the number of a step as its name,
the worker waits in this step. The variable DEVICE is the device of the network and of
the data, and TEXT is the path of the text.
"""

import json
import os
import sys
import time

import torch
from torch import nn

sys.path.insert(0, os.environ['EXAMPLES'])

DEVICE = os.environ['DEVICE']
MICRO_BATCHES = 4


class Digits:
    """A convolutional network with batch norm and dropout.

    It is smooth. With ReLU and max-pooling, a rounding error can select another
    branch, after which also two runs of plain PyTorch depart from each other: the
    losses of the network of digits.py by 7 % within 200 steps of SGD, if the initial
    weights differ by 1e-8.
    """

    def __init__(self):
        import digits
        self.x, self.y = (tensor.to(DEVICE) for tensor
                          in digits.make_digits(digits.SAMPLES, seed=1))
        self.network = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU(), nn.AvgPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.GELU(), nn.Flatten(),
            nn.Dropout(0.2), nn.Linear(16 * 6 * 6, 10)).to(DEVICE)

    def predict(self, model, indices):
        return model(self.x[indices]), self.y[indices]


class Text:
    """A small GPT with dropout. The loss is a mean over tokens."""

    def __init__(self):
        import numpy as np
        import text
        tokens = torch.from_numpy(np.fromfile(os.environ['TEXT'], np.uint8).astype(np.int64))
        self.pieces = tokens.to(DEVICE).unfold(0, 33, 32)
        self.network = text.GPT(context=32, width=32, heads=2, layers=2).to(DEVICE)

    def predict(self, model, indices):
        sequences = self.pieces[indices]
        return model(sequences[:, :-1]).flatten(0, 1), sequences[:, 1:].flatten()


TASKS = {'digits': Digits, 'text': Text}


def optimizer_of(rule, parameters):
    if rule == 'sgd':
        return torch.optim.SGD(parameters, lr=0.02, momentum=0.9, weight_decay=0.001)
    return torch.optim.AdamW(parameters, lr=0.001, betas=(0.9, 0.99), eps=1e-8,
                             weight_decay=0.1)


def record_path(folder, step, number):
    return os.path.join(folder, f'{step}-{number}')


def read_records(folder, step):
    """Returns the indices and the seed of each micro-batch of a step. The last step of
    an epoch may have fewer micro-batches."""
    records = []
    for number in range(MICRO_BATCHES):
        path = record_path(folder, step, number)
        if os.path.exists(path):
            with open(path, encoding='utf-8') as file:
                records.append(json.load(file))
    return records


def plain(name, rule, records, steps):
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(7)
    task = TASKS[name]()
    optimizer = optimizer_of(rule, task.network.parameters())
    loss_fn = nn.CrossEntropyLoss()
    losses = []
    for step in range(int(steps)):
        optimizer.zero_grad()
        losses.append(0.0)
        micro_batches = read_records(records, step)
        samples = sum(len(indices) for indices, _ in micro_batches)
        for indices, seed in micro_batches:
            torch.manual_seed(seed)
            loss = loss_fn(*task.predict(task.network, indices))
            loss = loss * (len(indices) / samples)
            loss.backward()
            losses[-1] += loss.item()
        optimizer.step()
    print(json.dumps(losses))


def work():
    import tributary
    session = tributary.connect()
    torch.manual_seed(7)
    task = TASKS[session.job.config['network']]()
    model = tributary.DistributedDataParallel(task.network, session)
    loss_fn = nn.CrossEntropyLoss()
    records, gates = os.environ.get('RECORDS'), os.environ.get('GATES')
    for step in session:
        for batch in step.micro_batches:
            while gates and os.path.exists(os.path.join(gates, str(batch.step))):
                time.sleep(0.01)
            if records:
                with open(record_path(records, batch.step, batch.number), 'w',
                          encoding='utf-8') as file:
                    json.dump([batch.indices.tolist(), batch.seed % 2**63], file)
            output, target = task.predict(model, batch.indices)
            batch.backward(loss_fn(output, target), count=len(target))


if __name__ == '__main__':
    if len(sys.argv) > 1:
        plain(*sys.argv[1:])
    else:
        work()
