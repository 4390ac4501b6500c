"""A loop with Accelerate. model.external.config: `folder`, and what is special."""

import json
import os
import signal
import sys

import torch
import tributary
import tributary.accelerate
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, EPOCHS = 64, 3


def data(samples, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 3, generator=generator)
    return TensorDataset(x, (x @ torch.tensor([1.5, -2, 0.5])[:, None]).tanh())


def make_network():
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))


class Events:
    """An object that the state of Accelerate contains."""

    def __init__(self):
        self.events = []

    def state_dict(self):
        return {'events': self.events}

    def load_state_dict(self, state):
        self.events = state['events'] + [['loaded']]


def main():
    session = tributary.connect()
    config = session.job.config
    folder = config['folder']
    accelerator = tributary.accelerate.Accelerator(
        cpu=True, gradient_accumulation_steps=config.get('accumulate', 1))
    model = make_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loader = DataLoader(data(SAMPLES, 5), config.get('batch', 8),
                        shuffle=not config.get('sequential'))
    calls = EPOCHS * len(loader) // config.get('accumulate', 1)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, calls)
    model, optimizer, loader, evaluation, scheduler = accelerator.prepare(
        model, optimizer, loader, DataLoader(data(16, 6), 8), scheduler)
    progress = Events()
    accelerator.register_for_checkpointing(progress)
    state = os.path.join(folder, 'state')
    if config.get('resume') and os.path.exists(state):
        accelerator.load_state(state)
    loss_fn = nn.MSELoss()
    count = 0
    for epoch in range(config.get('epochs', EPOCHS)):
        model.train()
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = loss_fn(model(x), y)
                accelerator.backward(loss)
                if config.get('clip') and accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), config['clip'])
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            count += 1
            if os.environ.get('STOP_AFTER') == str(count):
                raise RuntimeError('stops')
            if config.get('kill') == count and accelerator.is_main_process:
                marker = os.path.join(folder, 'killed')
                if not os.path.exists(marker):
                    open(marker, 'w', encoding='utf-8').close()
                    os.kill(os.getpid(), signal.SIGKILL)
        model.eval()
        losses = []
        for x, y in evaluation:
            with torch.no_grad():
                losses.append(accelerator.gather_for_metrics(
                    (model(x) - y).square().flatten()))
        progress.events.append([epoch, count, float(torch.cat(losses).mean()),
                                accelerator.is_main_process, scheduler.get_last_lr()[0],
                                accelerator.is_local_main_process])
        accelerator.save_state(state)
        accelerator.wait_for_everyone()
    accelerator.end_training()
    events = os.path.join(folder, f'events-{session.rank}.json')
    with open(events, 'w', encoding='utf-8') as file:
        json.dump({'events': progress.events}, file)
    if session.is_main:
        torch.save(accelerator.unwrap_model(model).state_dict(),
                   os.path.join(folder, 'last.pt'))


if __name__ == '__main__':
    sys.exit(main())
