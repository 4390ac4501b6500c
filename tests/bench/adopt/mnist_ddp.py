"""Classifies pictures with a small convolutional network."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def pictures(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=generator)
    x = torch.randn(count, 1, 14, 14, generator=generator)
    x[torch.arange(count), 0, labels] += 2
    return TensorDataset(x, labels)


def evaluate(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
    return correct / len(loader.dataset)


def main():
    dist.init_process_group('gloo')
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.1),
        nn.Linear(288, 10))
    model = DistributedDataParallel(model)
    train_set = pictures(512, 1)
    sampler = DistributedSampler(train_set)
    batch_size = 32 // dist.get_world_size()
    train_loader = DataLoader(train_set, batch_size=batch_size, sampler=sampler)
    test_loader = DataLoader(pictures(128, 2), batch_size=128)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
        accuracy = evaluate(model, test_loader)
        if dist.get_rank() == 0:
            print(f'epoch {epoch}: accuracy {accuracy:.3f}')
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), 'mnist.pt')
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
