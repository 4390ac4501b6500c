"""Classifies texts with a loop of Accelerate."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import get_linear_schedule_with_warmup


def texts(count, seed):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 50, (count, 12), generator=generator)
    return TensorDataset(tokens, (tokens[:, 0] > 25).long())


class Classifier(nn.Module):

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(50, 16)
        self.layers = nn.Sequential(nn.Linear(192, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, tokens):
        return self.layers(self.tokens(tokens).flatten(1))


def main():
    torch.manual_seed(1)
    accelerator = Accelerator(cpu=True)
    train_loader = DataLoader(texts(512, 1), batch_size=16, shuffle=True)
    eval_loader = DataLoader(texts(128, 2), batch_size=32)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = get_linear_schedule_with_warmup(optimizer, 10, 3 * len(train_loader))
    model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, eval_loader, scheduler)
    for epoch in range(3):
        model.train()
        for tokens, labels in train_loader:
            loss = nn.functional.cross_entropy(model(tokens), labels)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        model.eval()
        correct = []
        for tokens, labels in eval_loader:
            with torch.no_grad():
                predictions = model(tokens).argmax(-1)
            predictions, labels = accelerator.gather_for_metrics((predictions, labels))
            correct.append(predictions == labels)
        accelerator.print(f'epoch {epoch}: accuracy {torch.cat(correct).float().mean():.3f}')
    accelerator.end_training()


if __name__ == '__main__':
    main()
