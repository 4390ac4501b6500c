"""Trains the network of digits.py in a loop that sets the module's mode itself."""

import os
import sys

import torch
import tributary
from torch import nn

sys.path.insert(0, os.environ['EXAMPLES'])
import digits  # noqa: E402


def main():
    session = tributary.connect()
    x, y = digits.make_digits(digits.SAMPLES, seed=1)
    x_test, y_test = digits.make_digits(digits.TEST_SAMPLES, seed=2)
    model = tributary.DistributedDataParallel(digits.make_network(), session,
                                              no_decay='1d')
    loss_fn = nn.CrossEntropyLoss()
    for step in session:
        model.train()
        for batch in step.micro_batches:
            batch.backward(loss_fn(model(x[batch.indices]), y[batch.indices]))
        model.eval()
        for piece in step.evaluation:
            output, target = model(x_test[piece.indices]), y_test[piece.indices]
            piece.report(loss_sum=loss_fn(output, target) * len(target),
                         correct=torch.sum(output.argmax(dim=1) == target))


if __name__ == '__main__':
    main()
