"""A GAN: two networks, whose optimizers take turns. Learns to draw points of a circle:

    python3 gan.py
"""
import math

import torch
import tributary
from torch import nn
from torch.nn.functional import softplus
from torch.utils.data import DataLoader, TensorDataset

SAMPLES = 2048


def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(),
                         nn.Linear(32, outputs))


def circle():
    angle = torch.linspace(0, 2 * math.pi, SAMPLES)
    return TensorDataset(torch.stack([angle.cos(), angle.sin()], dim=1))


def main():
    session = tributary.connect()
    generator, discriminator = network(4, 2), network(2, 1)
    of_generator = torch.optim.Adam(generator.parameters(), lr=0.001, betas=(0.5, 0.9))
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=0.002,
                                        betas=(0.5, 0.9))
    turns = tributary.Alternating(of_discriminator, of_generator)
    networks = nn.ModuleDict({'generator': generator, 'discriminator': discriminator})
    optimizer = tributary.Optimizer(networks, session, rule=turns)
    loader = session.loader(DataLoader(circle(), batch_size=32, shuffle=True))
    for _ in range(20):
        for real, in loader:
            drawn = generator(torch.randn(len(real), 4))
            if turns.current(optimizer.next_step) is of_discriminator:
                loss = (softplus(-discriminator(real)) +
                        softplus(discriminator(drawn.detach()))).mean()
            else:
                loss = softplus(-discriminator(drawn)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    radius = generator(torch.randn(1000, 4)).norm(dim=1)
    if session.is_main:
        print(f'distance of drawn points from the center: {radius.mean():.2f}')


if __name__ == '__main__':
    tributary.launch(main, workers=2, job=dict(
        train_samples=SAMPLES, batch=128, micro_batches=4, epochs=20))
