"""A loop with tributary.Optimizer and a rule of ruled.py. With the variable STEPPED, the
loop has a scheduler, too, which it steps after each step."""

import os

import torch
import tributary
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ruled

if __name__ == '__main__':
    session = tributary.connect()
    x, y, network = ruled.make_task()
    optimizer = tributary.Optimizer(
        network, session, rule=ruled.make_rule(os.environ['RULE'], network))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.8) \
        if 'STEPPED' in os.environ else None
    loader = session.loader(DataLoader(
        TensorDataset(x, y), batch_size=ruled.BATCH // ruled.MICRO_BATCHES))
    while not optimizer.done:
        for inputs, targets in loader:
            ruled.fails_once(optimizer.next_step)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(network(inputs), targets)
            loss.backward()
            optimizer.step(loss=loss)
            if scheduler is not None:
                scheduler.step()
