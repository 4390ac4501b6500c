"""Trains by PyTorch alone, on the micro-batches of a job with seed 1."""

import torch
import tributary
from tributary import _random, _sampling


def train(network, rule, scheduler, loss_of, samples, batch, micro_batches, steps):
    """Returns the weights by name. `loss_of(indices)`: the mean loss of these samples."""
    torch.set_num_threads(1)
    network.train()
    for step in range(steps):
        rule.zero_grad()
        count = 0
        for number in range(micro_batches):
            indices = _sampling.indices(1, samples, batch, micro_batches, step, number)
            _random.seed_generators(_sampling.random_seed(1, step, number))
            (loss_of(indices) * len(indices)).backward()
            count += len(indices)
        for parameter in network.parameters():
            parameter.grad /= count
        rule.step()
        if scheduler is not None:
            scheduler.step()
    return {name: tensor.numpy() for name, tensor in network.state_dict().items()}


def initialize():
    """Seeds the generators as `tributary.connect` does."""
    tributary._random.seed_generators(1)
