"""Trains an autoencoder with Lightning."""

import lightning as L
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(L.LightningModule):

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 64))

    def _loss(self, batch):
        return nn.functional.mse_loss(self.decoder(self.encoder(batch[0])), batch[0])

    def training_step(self, batch, batch_idx):
        loss = self._loss(batch)
        self.log('train_loss', loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log('val_loss', self._loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.002)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.8)]


def data(count, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=generator)
    return TensorDataset(x @ torch.linspace(-1, 1, 192).sin().view(3, 64))


def main():
    L.seed_everything(1)
    train_loader = DataLoader(data(512, 1), batch_size=16, shuffle=True)
    val_loader = DataLoader(data(128, 2), batch_size=64)
    trainer = L.Trainer(
        max_epochs=3, accelerator='cpu', default_root_dir='autoencoder',
        devices=2, strategy='ddp',
        callbacks=[ModelCheckpoint(monitor='val_loss'), LearningRateMonitor()])
    trainer.fit(Autoencoder(), train_loader, val_loader)


if __name__ == '__main__':
    main()
