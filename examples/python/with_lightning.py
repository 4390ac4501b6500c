"""Trains the digits of digits.py with Lightning: `python3 with_lightning.py`."""
import digits
import lightning
import torch
import tributary
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tributary.lightning import TributaryStrategy


class Digits(lightning.LightningModule):

    def __init__(self):
        super().__init__()
        self.network = digits.make_network()

    def training_step(self, batch, number):
        x, y = batch
        return nn.functional.cross_entropy(self.network(x), y)

    def validation_step(self, batch, number):
        x, y = batch
        self.log('accuracy', (self.network(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.005)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def main():
    train = TensorDataset(*digits.make_digits(digits.SAMPLES, seed=1))
    test = TensorDataset(*digits.make_digits(digits.TEST_SAMPLES, seed=2))
    trainer = lightning.Trainer(
        max_epochs=4, accelerator='cpu', strategy=TributaryStrategy(),
        callbacks=[ModelCheckpoint('checkpoints', monitor='accuracy', mode='max')])
    trainer.fit(Digits(), DataLoader(train, batch_size=32, shuffle=True),
                DataLoader(test, batch_size=250))
    if trainer.is_global_zero:
        print('accuracy', float(trainer.callback_metrics['accuracy']))


if __name__ == '__main__':
    tributary.launch(main, workers=2, job=dict(
        train_samples=digits.SAMPLES, batch=64, micro_batches=2, epochs=4,
        optimizer=dict(adamw=dict(learning_rate=0.005, weight_decay=0.01))))
