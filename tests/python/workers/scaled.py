"""A loop with PyTorch's GradScaler, on the CPU. model.external.config: `enabled`, whether
it scales."""

import torch
import tributary
from torch import nn


def main():
    session = tributary.connect()
    network = nn.Linear(3, 1)
    x = torch.arange(24.).view(8, 3) / 24
    optimizer = tributary.Optimizer(network, session)
    scaler = torch.amp.GradScaler('cpu', enabled=session.job.config['enabled'])
    while not optimizer.done:
        optimizer.zero_grad()
        loss = (network(x) - x.sum(1, keepdim=True)).square().mean()
        scaler.scale(loss).backward()
        if optimizer.next_step % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


if __name__ == '__main__':
    main()
