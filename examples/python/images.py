"""Trains the network of digits.py with images that other processes read ahead:

    tributary train digits.textproto --worker-command 'python3 images.py'
"""
import digits
import torch
import tributary
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Digits(Dataset):
    """Images with noise that is new in each epoch."""

    def __init__(self):
        self.images, self.labels = digits.make_digits(digits.SAMPLES, seed=1)

    def __getitem__(self, index):
        image = self.images[index]
        return image + 0.1 * torch.randn(image.shape), self.labels[index]


def main():
    session = tributary.connect()
    test_set = TensorDataset(*digits.make_digits(digits.TEST_SAMPLES, seed=2))
    model = tributary.DistributedDataParallel(digits.make_network(), session,
                                              no_decay='1d')
    loss_fn = nn.CrossEntropyLoss()
    samples = tributary.MicroBatchDataset(Digits(), session)
    loader = DataLoader(samples, batch_size=None, num_workers=2)
    for step in session:
        for batch, (x, y) in samples.batches(step, loader):
            batch.backward(loss_fn(model(x), y))
        for piece in step.evaluation:
            x, y = piece.load(test_set)
            output = model(x)
            piece.report(loss_sum=loss_fn(output, y) * len(y),
                         correct=(output.argmax(dim=1) == y).sum())


if __name__ == '__main__':
    main()
