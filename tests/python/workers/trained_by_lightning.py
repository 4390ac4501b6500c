"""A LightningModule, trained by a Trainer. model.external.config: `folder`, `epochs`, and
what is special."""

import json
import os
import signal
import sys

import torch
import tributary
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PACKAGE = os.environ.get('LIGHTNING', 'lightning.pytorch')
pl = __import__(PACKAGE, fromlist=['Trainer'])
from tributary.lightning import TributaryStrategy  # noqa: E402

SAMPLES, BATCH = 64, 8


def data(samples, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 3, generator=generator)
    return TensorDataset(x, (x @ torch.tensor([1.5, -2, 0.5])[:, None]).tanh())


class Regression(pl.LightningModule):

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.automatic_optimization = not config.get('manual')
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.2),
                                 nn.Linear(8, 1))

    def training_step(self, batch, number):
        x, y = batch
        loss = (self.net(x) - y).square().mean()
        self.log('train_loss', loss, prog_bar=True)
        if self.config.get('manual'):
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            return None
        return loss

    def validation_step(self, batch, number):
        x, y = batch
        self.log('val_loss', (self.net(x) - y).square().mean(), prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(
            [{'params': self.net[0].parameters()},
             {'params': self.net[3].parameters(), 'lr': 0.04}], lr=0.02, momentum=0.9)
        scheduler = self.config.get('scheduler')
        if scheduler == 'cosine':
            rule = torch.optim.lr_scheduler.CosineAnnealingLR(
                optimizer, self.trainer.estimated_stepping_batches)
            return [optimizer], [{'scheduler': rule, 'interval': 'step'}]
        if scheduler == 'epoch':
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]
        if scheduler == 'plateau':
            return {'optimizer': optimizer, 'lr_scheduler': {
                'scheduler': torch.optim.lr_scheduler.ReduceLROnPlateau(
                    optimizer, patience=0, threshold=10.0, threshold_mode='abs'),
                'monitor': 'val_loss'}}
        return optimizer


def server():
    launcher = os.getppid()
    with open(f'/proc/{launcher}/task/{launcher}/children', encoding='utf-8') as file:
        for child in file.read().split():
            with open(f'/proc/{child}/cmdline', encoding='utf-8') as command:
                if '\0server\0' in command.read():
                    return int(child)
    raise RuntimeError('there is no server')


class Record(pl.Callback):
    """Writes what a callback sees, and kills the worker, or the server, once."""

    def __init__(self, config, session):
        self.config, self.session = config, session
        self.events = []
        self.calls = 0

    def on_train_batch_end(self, trainer, module, outputs, batch, number):
        self.calls += 1
        self.events.append(['batch', trainer.current_epoch, trainer.global_step])
        if self.config.get('kill') == self.calls and self.session.rank == 0:
            marker = os.path.join(self.config['folder'], 'killed')
            if not os.path.exists(marker):
                open(marker, 'w', encoding='utf-8').close()
                os.kill(server() if self.config.get('kills_server') else os.getpid(),
                        signal.Signals[self.config.get('signal', 'SIGKILL')])
        if os.environ.get('STOP_AFTER') == str(trainer.global_step):
            raise RuntimeError('stops')

    def on_validation_end(self, trainer, module):
        if not trainer.sanity_checking:
            self.events.append(['validation', trainer.current_epoch, trainer.global_step,
                                float(trainer.callback_metrics['val_loss'])])

    def state_dict(self):
        return {'events': self.events}

    def load_state_dict(self, state):
        self.events = state['events'] + [['loaded']]


def evaluator(module):
    """Evaluates as the job does."""
    x, y = data(16, 6).tensors

    def evaluate(piece):
        error = (module.net(x[piece.indices]) - y[piece.indices]).square()
        piece.report(loss_sum=error.sum())

    return evaluate


def main():
    session = tributary.connect()
    config = session.job.config
    module = Regression(config)
    folder = config['folder']
    record = Record(config, session)
    checkpoint = pl.callbacks.ModelCheckpoint(
        dirpath=os.path.join(folder, 'checkpoints'), filename='{epoch}-{step}',
        monitor='val_loss', save_top_k=2, save_last=True)
    callbacks = [record, checkpoint, pl.callbacks.LearningRateMonitor()]
    if config.get('stop'):
        callbacks.append(pl.callbacks.EarlyStopping('val_loss', patience=1, min_delta=10.0))
    trainer = pl.Trainer(
        max_epochs=config.get('epochs', 3), 
        strategy=TributaryStrategy(evaluate=evaluator(module)), accelerator='cpu',
        callbacks=callbacks, log_every_n_steps=1, default_root_dir=folder,
        accumulate_grad_batches=config.get('accumulate', 1),
        gradient_clip_val=config.get('clip'),
        logger=pl.loggers.CSVLogger(folder, name='log', version=session.rank),
        enable_progress_bar=bool(config.get('bar')))
    last = os.path.join(folder, 'checkpoints', 'last.ckpt')
    trainer.fit(module, DataLoader(data(SAMPLES, 5), config.get('batch', BATCH), shuffle=True),
                DataLoader(data(16, 6), 8),
                ckpt_path=last if config.get('resume') and os.path.exists(last) else None)
    tested = trainer.validate(module, DataLoader(data(16, 6), 8), verbose=False)
    if session.is_main:
        with open(os.path.join(folder, 'events.json'), 'w', encoding='utf-8') as file:
            json.dump({'events': record.events, 'best': checkpoint.best_model_path,
                       'validated': tested[0]['val_loss'],
                       'steps': trainer.global_step, 'epoch': trainer.current_epoch}, file)
        torch.save(module.state_dict(), os.path.join(folder, 'last.pt'))


if __name__ == '__main__':
    sys.exit(main())
