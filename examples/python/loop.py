"""A loop as for one process, with tributary.Optimizer in place of PyTorch's optimizer:

    tributary train loop.textproto --worker-command 'python3 loop.py'
"""
import digits
import torch
import tributary
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset


def main():
    session = tributary.connect()  # Seeds the initial weights.
    network = digits.make_network()
    optimizer = tributary.Optimizer(network, session)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    loader = session.loader(
        DataLoader(TensorDataset(*digits.make_digits(digits.SAMPLES, seed=1)),
                   batch_size=16, shuffle=True))
    loss_fn = nn.CrossEntropyLoss()
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_fn(network(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
    if session.is_main:
        x, y = digits.make_digits(digits.TEST_SAMPLES, seed=2)
        with torch.no_grad():
            accuracy = (network.eval()(x).argmax(dim=1) == y).float().mean()
        print(f'accuracy {accuracy:.3f}')


if __name__ == '__main__':
    main()
