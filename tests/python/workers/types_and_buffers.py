"""Parameters of other types, and buffers. model.external.config: `dtype` of the second
layer, and `buffers`, what is declared."""

import torch
import tributary
from torch import nn


class Net(nn.Module):

    def __init__(self, dtype):
        super().__init__()
        self.first = nn.Linear(1, 4)
        self.second = nn.Linear(4, 1).to(dtype)
        self.register_buffer('seen', torch.zeros(1))
        self.register_buffer('scale', torch.ones(1))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.seen += 0.5 * (x.mean() - self.seen)
        x = torch.tanh(self.first(x)).to(self.second.weight.dtype)
        return self.second(x) * self.scale.to(x.dtype)


def main():
    session = tributary.connect()
    config = session.job.config
    network = Net(getattr(torch, config.get('dtype', 'float32')))
    model = tributary.DistributedDataParallel(network, session,
                                              buffers=config.get('buffers', {}))
    for step in session:
        for batch in step.micro_batches:
            x = torch.from_numpy(batch.indices).float()[:, None] / 8
            batch.backward((model(x) - x).square().mean())
    assert str(network.second.weight.dtype).endswith(config.get('dtype', 'float32'))


if __name__ == '__main__':
    main()
