"""A program that describes its job, and starts servers and workers itself:

    python3 launched.py
"""
import digits
import tributary
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    network = digits.make_network()
    optimizer = tributary.Optimizer(network)
    loader = optimizer.session.loader(
        DataLoader(TensorDataset(*digits.make_digits(digits.SAMPLES, seed=1)),
                   batch_size=16))
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()


if __name__ == '__main__':
    summary = tributary.launch(main, workers=2, job=dict(
        train_samples=digits.SAMPLES, batch=64, micro_batches=4, epochs=2,
        optimizer={'adamw': {'learning_rate': 0.002}}))
    print('loss', summary['final_loss'])
