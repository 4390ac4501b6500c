"""Trains a GAN whose optimizers take turns, as a worker or, as `gan.py FILE STEPS`, in a
loop of plain PyTorch, which writes its weights to FILE."""

import sys

import numpy as np
import torch
import tributary
from torch import nn
from torch.nn.functional import softplus
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, BATCH, MICRO_BATCHES = 96, 32, 4
TURNS = (2, 1)  # Steps of the discriminator, and of the generator.


def make_task():
    generator = torch.Generator().manual_seed(3)
    real = torch.randn(SAMPLES, 3, generator=generator).sin()
    torch.manual_seed(3)
    networks = nn.ModuleDict({'discriminator': nn.Linear(3, 1),
                              'generator': nn.Sequential(nn.Linear(3, 8), nn.Tanh(),
                                                         nn.Linear(8, 3))})
    of_discriminator = torch.optim.AdamW(networks['discriminator'].parameters(), lr=0.02)
    of_generator = torch.optim.SGD(networks['generator'].parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(of_generator, step_size=2, gamma=0.5)
    return real, networks, of_discriminator, of_generator, schedule


def loss_of(networks, real, is_discriminators):
    drawn = networks['generator'](real.flip(0, 1))
    if is_discriminators:
        return (softplus(-networks['discriminator'](real)) +
                softplus(networks['discriminator'](drawn.detach()))).mean()
    return softplus(-networks['discriminator'](drawn)).mean()


def work():
    session = tributary.connect()
    real, networks, of_discriminator, of_generator, schedule = make_task()
    turns = tributary.Alternating(of_discriminator, [of_generator, schedule], steps=TURNS)
    optimizer = tributary.Optimizer(networks, session, rule=turns)
    loader = session.loader(DataLoader(TensorDataset(real), shuffle=True,
                                       batch_size=BATCH // MICRO_BATCHES))
    while not optimizer.done:
        for samples, in loader:
            optimizer.zero_grad()
            loss_of(networks, samples,
                    turns.current(optimizer.next_step) is of_discriminator).backward()
            optimizer.step()


def plain(file, steps):
    torch.set_num_threads(1)
    job = tributary.Job('', '', {}, 7, SAMPLES, 0, 0, BATCH, MICRO_BATCHES)
    real, networks, of_discriminator, of_generator, schedule = make_task()
    for step in range(int(steps)):
        indices = np.concatenate([job.indices(step, number)
                                  for number in range(MICRO_BATCHES)])
        is_discriminators = step % sum(TURNS) < TURNS[0]
        networks.zero_grad()
        loss_of(networks, real[indices], is_discriminators).backward()
        if is_discriminators:
            of_discriminator.step()
        else:
            of_generator.step()
            schedule.step()
    torch.save(networks.state_dict(), file)


if __name__ == '__main__':
    if len(sys.argv) > 1:
        plain(*sys.argv[1:])
    else:
        work()
