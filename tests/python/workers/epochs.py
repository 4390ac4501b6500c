"""A loop over epochs of a DataLoader, as for one process. model.external.config:
`special`, what is special, and `folder`. `epochs.py FILE MICRO_BATCHES`: trains without
Tributary, and writes the weights to FILE."""

import os
import signal
import sys

import numpy as np
import torch
import tributary
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset

SAMPLES, BATCH, EPOCHS = 44, 8, 3
STEPS = EPOCHS * 6


class Noisy(Dataset):
    """Draws random numbers for its samples."""

    def __init__(self, noise):
        generator = torch.Generator().manual_seed(5)
        self.x = torch.randn(SAMPLES, 3, generator=generator)
        self.y = (self.x @ torch.tensor([1.5, -2, 0.5])[:, None]).tanh()
        self.noise = noise

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        x = self.x[index]
        return x + self.noise * torch.randn(3) if self.noise else x, self.y[index]


def make_network(dropout=0.0):
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))


def make_scheduler(optimizer):
    """Warms up, then falls: a scheduler that steps others."""
    return lr_scheduler.SequentialLR(optimizer, [
        lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 4),
        lr_scheduler.CosineAnnealingLR(optimizer, STEPS - 4)], [4])


def kill_once(marker):
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def work():
    session = tributary.connect()
    special = session.job.config['special']
    network = make_network(0.2)
    optimizer = tributary.Optimizer(
        network, session, parameter_groups=[
            {'params': network[3].parameters(), 'learning_rate_factor': 2}]
        if special == 'groups' else ())
    loader = session.loader(DataLoader(
        Noisy(0.1), batch_size=BATCH // session.job.micro_batches, shuffle=True,
        num_workers=2 if special == 'processes' else 0))
    by_epoch = lr_scheduler.StepLR(optimizer, 1, 0.5) if special == 'epoch' else None
    by_step = make_scheduler(optimizer) if special in ('step', 'groups') else None
    if special == 'disagree':
        optimizer.param_groups[0]['lr'] = 0.1 * (1 + session.rank)
    calls = 0
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            loss = (network(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            if by_step is not None:
                by_step.step()
            calls += 1
            if session.job.config.get('kill') and calls == session.job.config['kill']:
                kill_once(os.path.join(session.job.config['folder'], 'killed'))
        if by_epoch is not None:
            by_epoch.step()
    assert optimizer.done
    if session.is_main and 'folder' in session.job.config:
        np.savez(os.path.join(session.job.config['folder'], 'last.npz'),
                 **{name: tensor.numpy() for name, tensor in network.state_dict().items()})


def plain(file, micro_batches):
    """The same steps, by PyTorch alone."""
    torch.set_num_threads(1)
    network = make_network(0.2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    scheduler = make_scheduler(optimizer)
    data = Noisy(0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        samples = 0
        for number in range(micro_batches):
            indices = tributary._sampling.indices(1, SAMPLES, BATCH, micro_batches, step,
                                                  number)
            if not len(indices):
                continue
            seed = tributary._sampling.random_seed(1, step, number)
            tributary._random.seed_generators(seed)
            x, y = zip(*(data[index] for index in indices))
            tributary._random.seed_generators(seed)
            (network(torch.stack(x)) - torch.stack(y)).square().sum().backward()
            samples += len(indices)
        for parameter in network.parameters():
            parameter.grad /= samples
        optimizer.step()
        scheduler.step()
    np.savez(file, **{name: tensor.numpy() for name, tensor in network.state_dict().items()})


if __name__ == '__main__':
    if len(sys.argv) > 1:
        plain(sys.argv[1], int(sys.argv[2]))
    else:
        work()
