"""Trains a small language model to add numbers, with a class that runs the loop and calls
functions of the program."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Sums(Dataset):
    """Tokens a, b and (a + b) modulo 10."""

    def __len__(self):
        return 400

    def __getitem__(self, index):
        a, b = index // 20 % 10, index % 10
        return torch.tensor([a, b]), torch.tensor((a + b) % 10)


class Model(nn.Module):

    def __init__(self, width=32):
        super().__init__()
        self.tokens = nn.Embedding(10, width)
        self.layers = nn.Sequential(nn.Linear(2 * width, 64), nn.GELU(), nn.Linear(64, 10))

    def configure_optimizer(self, learning_rate):
        decay = [p for p in self.parameters() if p.dim() > 1]
        rest = [p for p in self.parameters() if p.dim() <= 1]
        return torch.optim.AdamW([{'params': decay, 'weight_decay': 0.1},
                                  {'params': rest, 'weight_decay': 0.0}], lr=learning_rate)

    def forward(self, x, y):
        logits = self.layers(self.tokens(x).flatten(1))
        return logits, F.cross_entropy(logits, y)


class Trainer:

    def __init__(self, model, data, epochs, batch_size, learning_rate):
        self.model, self.epochs = DistributedDataParallel(model), epochs
        self.callbacks = []
        self.optimizer = model.configure_optimizer(learning_rate)
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=batch_size // dist.get_world_size(),
                                 sampler=self.sampler)

    def run(self):
        self.model.train()
        for self.epoch in range(self.epochs):
            self.sampler.set_epoch(self.epoch)
            for x, y in self.loader:
                logits, self.loss = self.model(x, y)
                self.model.zero_grad(set_to_none=True)
                self.loss.backward()
                self.optimizer.step()
            for callback in self.callbacks:
                callback(self)


def main():
    dist.init_process_group('gloo')
    torch.manual_seed(1)
    model = Model()
    trainer = Trainer(model, Sums(), epochs=4, batch_size=40, learning_rate=0.005)

    def report(trainer):
        print(f'epoch {trainer.epoch}: loss {trainer.loss.item():.4f}')
        torch.save(model.state_dict(), 'gpt_class.pt')

    if dist.get_rank() == 0:
        trainer.callbacks.append(report)
    trainer.run()
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
