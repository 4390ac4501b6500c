"""Predicts clicks on movies from those that a user has watched. The embeddings of movies
are in a table on the servers; a worker reads those of its micro-batches:

    tributary train recommend.textproto --worker-command 'python3 recommend.py'
"""
import torch
import tributary
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MOVIES, GENRES, WATCHED = 1000, 10, 6


class Net(nn.Module):
    """Movies watched [samples, WATCHED] and shown [samples] -> logits [samples]."""

    def __init__(self, session):
        super().__init__()
        self.watched = tributary.EmbeddingBag(session, 'watched', mode='mean')
        self.shown = tributary.Embedding(session, 'shown')
        self.output = nn.Linear(1, 1)

    def forward(self, watched, shown):
        product = (self.watched(watched) * self.shown(shown)).sum(dim=1, keepdim=True)
        return self.output(product).squeeze(1)


def make_views(samples, seed):
    """Makes up users who watch, and click on, movies of one genre."""
    random = torch.Generator().manual_seed(seed)
    movies = torch.randint(MOVIES, (samples, WATCHED), generator=random)
    taste = torch.randint(GENRES, (samples,), generator=random)
    watched = movies - movies % GENRES + taste[:, None]
    shown = torch.randint(MOVIES, (samples,), generator=random)
    shown[::2] += taste[::2] - shown[::2] % GENRES
    return watched, shown, (shown % GENRES == taste).float()


def main():
    session = tributary.connect()
    train = make_views(session.job.train_samples, seed=1)
    test = make_views(session.job.evaluation_samples, seed=2)
    model = tributary.DistributedDataParallel(Net(session), session)
    samples = tributary.MicroBatchDataset(
        TensorDataset(*train), session,
        keys=lambda item: {'watched': item[0], 'shown': item[1]})
    loader = DataLoader(samples, batch_size=None)
    loss_fn = nn.BCEWithLogitsLoss()
    for step in session:
        for batch, (watched, shown, clicked) in samples.batches(step, loader):
            batch.backward(loss_fn(model(watched, shown), clicked))
        for piece in step.evaluation:
            watched, shown, clicked = (values[piece.indices] for values in test)
            logits = model(watched, shown)
            piece.report(loss_sum=loss_fn(logits, clicked) * len(clicked),
                         correct=((logits > 0) == (clicked > 0)).sum())


if __name__ == '__main__':
    main()
