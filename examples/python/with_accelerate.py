"""Trains the digits of digits.py with Accelerate: `python3 with_accelerate.py`."""
import digits
import torch
import tributary
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tributary.accelerate import Accelerator


def main():
    accelerator = Accelerator(cpu=True)
    model = digits.make_network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    loader = DataLoader(TensorDataset(*digits.make_digits(digits.SAMPLES, seed=1)),
                        batch_size=32, shuffle=True)
    test_loader = DataLoader(TensorDataset(*digits.make_digits(digits.TEST_SAMPLES, seed=2)),
                             batch_size=250)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 4 * len(loader))
    model, optimizer, loader, test_loader, scheduler = accelerator.prepare(
        model, optimizer, loader, test_loader, scheduler)
    for epoch in range(4):
        model.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            correct = torch.cat([accelerator.gather_for_metrics(model(x).argmax(1) == y)
                                 for x, y in test_loader])
        accelerator.print('accuracy', float(correct.float().mean()))
        accelerator.save_state('state')


if __name__ == '__main__':
    tributary.launch(main, workers=2, job=dict(
        train_samples=digits.SAMPLES, batch=64, micro_batches=2, epochs=4,
        optimizer=dict(adamw=dict(learning_rate=0.005, weight_decay=0.01))))
