"""Trains a network with tables, as a worker or, as `tables.py FOLDER STEPS`, in a loop of
plain PyTorch from the rows that a worker has saved in FOLDER.

The variable FORM is 'session', 'loop' (with tributary.Optimizer and parts of
micro-batches) or 'arrays' (without modules of PyTorch for the rows). With ANNOUNCE, keys
are announced by a loader. Worker 1 once kills itself, or the server, in the middle of a
step if the variable KILL says so, and writes the file MARKER. A worker saves in FOLDER the
rows of the first and of the last version.
"""

import os
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ruled  # noqa: E402

SAMPLES, BATCH, MICRO_BATCHES, SEED = 96, 32, 4, 11
MOVIES, TAGS, LENGTH = 12, 7, 3


class Watched(nn.Module):
    """The sum of bags, from the rows of a look-up without autograd's modules."""

    class Rows(torch.autograd.Function):

        @staticmethod
        def forward(ctx, _, item, keys, ends):
            look_up = item.look_up('watched', keys, ends)
            ctx.item, ctx.look_up = item, look_up
            return torch.from_numpy(look_up.vectors)

        @staticmethod
        def backward(ctx, gradient):
            # In form session, backward is called for the sum of the losses.
            ctx.item.add_gradient(ctx.look_up, gradient.numpy())
            return None, None, None, None

    def __init__(self, session):
        super().__init__()
        self._session, self._anchor = session, torch.zeros(0, requires_grad=True)

    def forward(self, keys, offsets):
        ends = torch.cat([offsets[1:], torch.tensor([len(keys)])]).numpy()
        return self.Rows.apply(self._anchor, self._session._item, keys, ends)


class Net(nn.Module):
    """From tables on the servers, or from matrices of this process."""

    def __init__(self, session=None, rows=None):
        super().__init__()
        self.rows = rows
        if rows is None:
            import tributary
            self.watched = Watched(session) if os.environ.get('FORM') == 'arrays' else \
                tributary.EmbeddingBag(session, 'watched', mode='mean')
            self.shown = tributary.Embedding(session, 'shown')
            self.tags = tributary.EmbeddingBag(session, 'tags', padding_idx=0)
        torch.manual_seed(SEED)
        self.output = nn.Sequential(nn.Linear(4 + 4 + 3, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, watched, counts, shown, tags):
        keys = watched[torch.arange(LENGTH) < counts[:, None]]
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)[:-1]])
        if self.rows is None:
            parts = self.watched(keys, offsets), self.shown(shown), self.tags(tags)
        else:
            movies, of_tags = self.rows
            bag = nn.functional.embedding_bag
            parts = (bag(keys, movies, offsets, mode='mean', sparse=True),
                     nn.functional.embedding(shown, movies, sparse=True).view(len(shown), -1),
                     bag(tags, of_tags, mode='sum', sparse=True, padding_idx=0))
        return self.output(torch.cat(parts, dim=1)).squeeze(1)


def make_task():
    random = torch.Generator().manual_seed(SEED)
    watched = torch.randint(MOVIES, (SAMPLES, LENGTH), generator=random)
    counts = torch.randint(LENGTH + 1, (SAMPLES,), generator=random)
    shown = torch.randint(MOVIES, (SAMPLES,), generator=random)
    tags = torch.randint(TAGS, (SAMPLES, 2), generator=random)
    return watched, counts, shown, tags, (shown % 3 - 1).float()


def keys_in(item):
    watched, counts, shown, tags, _ = item
    return {'watched': watched[torch.arange(LENGTH) < counts[:, None]], 'shown': shown,
            'tags': tags}


def save_rows(network, name):
    if 'FOLDER' in os.environ:
        with torch.no_grad():
            np.save(os.path.join(os.environ['FOLDER'], f'movies-{name}.npy'),
                    network.shown(torch.arange(MOVIES)).numpy())
            np.save(os.path.join(os.environ['FOLDER'], f'tags-{name}.npy'),
                    network.tags(torch.arange(TAGS), torch.arange(TAGS)).numpy())


def evaluate(network, task, piece):
    *inputs, target = (values[piece.indices] for values in task)
    save_rows(network, 'last')
    piece.report(loss_sum=nn.functional.mse_loss(network(*inputs), target,
                                                 reduction='sum'))


def work():
    import tributary
    session = tributary.connect()
    task = make_task()
    network = Net(session)
    data = TensorDataset(*task)
    if os.environ['FORM'] == 'loop':
        optimizer = tributary.Optimizer(
            network, session, evaluate=lambda piece: evaluate(network, task, piece))
        loader = session.loader(DataLoader(data, batch_size=5, shuffle=True),
                                keys=keys_in if 'ANNOUNCE' in os.environ else None)
        while not optimizer.done:
            left = BATCH // MICRO_BATCHES
            for *inputs, target in loader:
                loss = nn.functional.mse_loss(network(*inputs), target, reduction='sum')
                (loss / (BATCH // MICRO_BATCHES)).backward()
                left -= len(target)
                if left == 0:
                    ruled.fails_once(optimizer.next_step)
                    optimizer.step()
                    optimizer.zero_grad()
                    left = BATCH // MICRO_BATCHES
        return
    model = tributary.DistributedDataParallel(network, session)
    samples = tributary.MicroBatchDataset(data, session, keys=keys_in)
    loader = DataLoader(samples, batch_size=None)
    for step in session:
        batches = samples.batches(step, loader) if 'ANNOUNCE' in os.environ else \
            ((batch, [values[batch.indices] for values in task])
             for batch in step.micro_batches)
        for batch, (*inputs, target) in batches:
            if batch.step == 0 and batch.number == 0:
                save_rows(network, 'first')
            loss = nn.functional.mse_loss(model(*inputs), target)
            ruled.fails_once(batch.step)
            batch.backward(loss)
        for piece in step.evaluation:
            evaluate(network, task, piece)


def plain(folder, steps):
    import tributary
    torch.set_num_threads(1)
    job = tributary.Job('', '', {}, 7, SAMPLES, 0, 0, BATCH, MICRO_BATCHES)
    task = make_task()
    rows = [nn.Parameter(torch.from_numpy(np.load(os.path.join(folder, name + '.npy'))))
            for name in ('movies-first', 'tags-first')]
    network = Net(rows=rows)
    optimizers = [torch.optim.SGD(network.output.parameters(), lr=0.1),
                  torch.optim.Adagrad(rows[:1], lr=0.2),
                  torch.optim.SGD(rows[1:], lr=0.3)]
    for step in range(int(steps)):
        indices = np.concatenate([job.indices(step, number)
                                  for number in range(MICRO_BATCHES)])
        *inputs, target = (values[indices] for values in task)
        for optimizer in optimizers:
            optimizer.zero_grad()
        nn.functional.mse_loss(network(*inputs), target).backward()
        for optimizer in optimizers:
            optimizer.step()
    torch.save({'movies': rows[0].detach(), 'tags': rows[1].detach(),
                **network.output.state_dict()}, os.path.join(folder, 'plain'))


if __name__ == '__main__':
    if len(sys.argv) > 1:
        plain(*sys.argv[1:])
    else:
        work()
