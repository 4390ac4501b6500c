"""The example pipeline.py, whose micro-batches pass the processes in the order of a schedule
of torch.distributed.pipelining."""

import os
import sys

import torch
from torch import distributed, nn
from torch.distributed import pipelining

sys.path.insert(0, os.environ['EXAMPLES'])

import pipeline  # noqa: E402
import stages  # noqa: E402


def loss_of(output, target):
    return nn.functional.cross_entropy(output, target, reduction='sum')


class ScheduledStage(stages.Stage):
    def __init__(self, network, sample):
        super().__init__(network, sample)
        stage = pipelining.PipelineStage(self.layers, self.rank, self.last + 1,
                                         torch.device('cpu'))
        self.schedule = pipelining.Schedule1F1B(stage, stages.PIECES, loss_fn=loss_of,
                                                scale_grads=False)

    def compute(self, x, y, train, weights=(), gradients=()):
        if not train:
            return super().compute(x, y, train, weights)
        torch.set_grad_enabled(True)
        self.layers.zero_grad()
        self.pass_weights(weights)
        losses = []
        inputs = [x] if self.rank == 0 else []
        if self.rank == self.last:
            self.schedule.step(*inputs, target=y, losses=losses)
        else:
            self.schedule.step(*inputs)
        self.pass_gradients(gradients)
        sums = torch.tensor([sum(loss.item() for loss in losses), 0], dtype=torch.float64)
        distributed.broadcast(sums, self.last)
        return sums


if __name__ == '__main__':
    pipeline.Stage = ScheduledStage
    pipeline.main()
