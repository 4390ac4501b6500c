"""Trains torchvision's ResNet-18 on random pictures."""

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader


class Pictures(torch.utils.data.Dataset):

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 4, (count,), generator=generator)
        self.pictures = torch.rand(count, 3, 32, 32, generator=generator)
        self.transform = torchvision.transforms.RandomHorizontalFlip()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(self.pictures[index]), self.labels[index]


def train_one_epoch(model, loss_fn, optimizer, loader):
    model.train()
    for x, y in loader:
        loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def evaluate(model, loader):
    model.eval()
    with torch.inference_mode():
        return sum((model(x).argmax(1) == y).sum().item() for x, y in loader)


def main():
    torch.manual_seed(1)
    dataset = Pictures(32, 1)
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    test_loader = DataLoader(Pictures(16, 2), batch_size=16)
    model = torchvision.models.resnet18(num_classes=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9,
                                weight_decay=0.0001)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(2):
        loss = train_one_epoch(model, loss_fn, optimizer, loader)
        scheduler.step()
        correct = evaluate(model, test_loader)
        print(f'epoch {epoch}: loss {loss:.4f}, {correct} of 16 correct')
        torch.save({'model': model.state_dict(), 'epoch': epoch}, 'resnet18.pt')


if __name__ == '__main__':
    main()
