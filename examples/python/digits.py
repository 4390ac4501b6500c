"""A convolutional network that reads digits, trained by Tributary with PyTorch:

    tributary train digits.textproto --worker-command 'python3 digits.py'
"""
import numpy as np
import torch
import tributary
from torch import nn

SAMPLES, TEST_SAMPLES = 4000, 1000  # Those of digits.textproto.
# The segments of a seven-segment display that each digit lights.
SEGMENTS = ('abcdef', 'bc', 'abged', 'abgcd', 'fgbc', 'afgcd', 'afgedc', 'abc', 'abcdefg',
            'abcdfg')
PLACES = {'a': np.s_[0, :4], 'b': np.s_[:4, 3], 'c': np.s_[3:, 3], 'd': np.s_[6, :4],
          'e': np.s_[3:, 0], 'f': np.s_[:4, 0], 'g': np.s_[3, :4]}


def make_digits(samples, seed):
    """Returns images [samples, 1, 12, 12] and labels: shifted digits with noise."""
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=samples)
    images = random.normal(0, 0.4, size=(samples, 1, 12, 12)).astype(np.float32)
    for image, label in zip(images, labels):
        top, left = random.integers(5, size=2)
        for segment in SEGMENTS[label]:
            image[0, top:top + 7, left:left + 4][PLACES[segment]] += 1
    return torch.from_numpy(images), torch.from_numpy(labels)


def make_network():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(16 * 6 * 6, 10))


def main():
    session = tributary.connect()
    x, y = make_digits(SAMPLES, seed=1)
    x_test, y_test = make_digits(TEST_SAMPLES, seed=2)
    model = tributary.DistributedDataParallel(make_network(), session, no_decay='1d')
    loss_fn = nn.CrossEntropyLoss()
    for step in session:
        for batch in step.micro_batches:
            batch.backward(loss_fn(model(x[batch.indices]), y[batch.indices]))
        for piece in step.evaluation:
            output, target = model(x_test[piece.indices]), y_test[piece.indices]
            piece.report(loss_sum=loss_fn(output, target) * len(target),
                         correct=(output.argmax(dim=1) == target).sum())


if __name__ == '__main__':
    main()
