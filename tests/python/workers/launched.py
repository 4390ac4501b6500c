"""A program that describes its job itself. Arguments: the run folder, and a field of the
job to change with its value, as a list in JSON."""

import json
import sys

import torch
import tributary
from torch.utils.data import DataLoader, TensorDataset


def main():
    session = tributary.connect()
    network = torch.nn.Linear(3, 1)
    optimizer = tributary.Optimizer(network)
    assert optimizer.session is session
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(1))
    loader = session.loader(DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 4))
    for _ in range(session.job.config['epochs']):
        for inputs, targets in loader:
            optimizer.zero_grad()
            (network(inputs) - targets).square().mean().backward()
            optimizer.step()


if __name__ == '__main__':
    job = dict(train_samples=64, batch=16, micro_batches=4, epochs=2,
               config={'epochs': 2}, optimizer={'sgd': {'learning_rate': 0.1}})
    if len(sys.argv) > 2:
        name, job[name] = json.loads(sys.argv[2])
    summary = tributary.launch(
        main, workers=2, output=sys.argv[1] if len(sys.argv) > 1 else None, job=job)
    print('digest', summary['weights_sha256'], summary['steps'])
