"""A loop as for one process, with tributary.Optimizer in place of PyTorch's optimizer:

    tributary train loop.textproto --worker-command 'python3 loop.py'
"""
import digits
import tributary
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    session = tributary.connect()  # Seeds the initial weights.
    network = digits.make_network()
    loader = DataLoader(TensorDataset(*digits.make_digits(digits.SAMPLES, seed=1)),
                        batch_size=16, shuffle=True, drop_last=True)
    loss_fn = nn.CrossEntropyLoss()
    optimizer = tributary.Optimizer(network, session)
    while not optimizer.done:
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_fn(network(x), y)
            loss.backward()
            optimizer.step(loss=loss)


if __name__ == '__main__':
    main()
