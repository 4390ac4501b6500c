"""Checks what a DataLoader reads for each micro-batch. model.external.config: `kind`,
sampler or dataset; `processes` of the loader; `mistake`, what is wrong; `kill`, whether
a worker is killed. Writes to $FOLDER which micro-batches were computed, and how often
the loader was started."""

import os
import random
import signal

import numpy as np
import torch
import tributary
from torch.utils.data import DataLoader


class Samples(torch.utils.data.Dataset):
    """Sample i is i, and random numbers."""

    def __getitem__(self, index):
        return index, random.random(), np.random.random(), torch.rand(())


def expected(batch):
    """What a data set reads that begins with the seed of the micro-batch."""
    tributary._random.seed_generators(batch.seed)
    return torch.utils.data.default_collate([Samples()[i] for i in batch.indices])


def make_loader(kind, processes, mistake, session):
    if kind == 'sampler':
        sampler = tributary.MicroBatchSampler(session)
        other = [[0, 1]]
        return sampler, DataLoader(
            Samples(), batch_sampler=other if mistake == 'sampler' else sampler,
            num_workers=processes)
    samples = tributary.MicroBatchDataset(Samples(), session)
    return samples, DataLoader(samples, batch_size=2 if mistake == 'batch' else None,
                               num_workers=processes,
                               persistent_workers=mistake == 'persistent')


def kill_once(batch):
    marker = os.path.join(os.environ['FOLDER'], 'marker')
    if batch.step >= 3 and not os.path.exists(marker):
        with open(marker, 'w', encoding='utf-8'):
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    session = tributary.connect()
    config, job = session.job.config, session.job
    ahead, loader = make_loader(config['kind'], config['processes'],
                                config.get('mistake'), session)
    starts, check = [], ahead._check
    ahead._check = lambda loader: (starts.append(1), check(loader))
    model = tributary.DistributedDataParallel(torch.nn.Linear(1, 1), session)
    for step in session:
        for batch, (indices, *numbers) in ahead.batches(step, loader):
            assert indices.tolist() == batch.indices.tolist(), (indices, batch.indices)
            assert job.indices(batch.step, batch.number).tolist() == indices.tolist()
            assert job.random_seed(batch.step, batch.number) == batch.seed
            # Dropout does not depend on the loader.
            fresh = torch.rand(())
            torch.manual_seed(batch.seed % 2**63)
            assert torch.rand(()) == fresh
            if config['kind'] == 'dataset':
                for got, wanted in zip(numbers, expected(batch)[1:]):
                    assert torch.equal(got, wanted), (got, wanted)
            if config.get('kill'):
                kill_once(batch)
            batch.backward(model(indices[:, None].float()).mean() * 1e-3)
            with open(os.path.join(os.environ['FOLDER'], 'computed'), 'a',
                      encoding='utf-8') as file:
                file.write(f'{batch.step} {batch.number}\n')
    with open(os.path.join(os.environ['FOLDER'], 'starts'), 'a',
              encoding='utf-8') as file:
        file.write(f'{len(starts)}\n')


if __name__ == '__main__':
    main()
