"""A loop with tributary.Optimizer and a rule of ruled.py."""

import os

import torch
import tributary
from torch import nn

import ruled

if __name__ == '__main__':
    session = tributary.connect()
    x, y, network = ruled.make_task()
    optimizer = tributary.Optimizer(
        network, session, rule=ruled.make_rule(os.environ['RULE'], network))
    while not optimizer.done:
        for indices in torch.arange(ruled.SAMPLES).split(ruled.BATCH // ruled.MICRO_BATCHES):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(network(x[indices]), y[indices])
            loss.backward()
            optimizer.step(loss=loss)
