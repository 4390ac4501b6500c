"""Reads the samples of micro-batches with PyTorch's DataLoader, ahead of time."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import numpy as np
import torch.utils.data

from . import _features, _random
from .errors import Error
from .items import MicroBatch
from .session import Session, Step

# A micro-batch: the number of its step, and its number in the step's batch.
_Key = tuple[int, int]
# Of the past micro-batches that are remembered. It exceeds two rounds of local steps
# with many micro-batches.
_HISTORY = 2048


def _period(history: Sequence[_Key]) -> Optional[int]:
    """Returns after how many micro-batches the sequence repeats in later steps; None
    if it is unknown."""
    def repeats(period: int, compared: int) -> bool:
        shifts = {history[-i][0] - history[-i - period][0]
                  for i in range(1, compared + 1)
                  if history[-i][1] == history[-i - period][1]}
        same = all(history[-i][1] == history[-i - period][1]
                   for i in range(1, compared + 1))
        return same and len(shifts) == 1 and min(shifts) > 0

    for period in range(len(history) // 2, 0, -1):
        if repeats(period, period):
            return period
    for period in range(1, len(history)):
        if repeats(period, 1):
            return period
    return None


def _plan(history: Sequence[_Key], micro_batches: int) -> Iterator[_Key]:
    """Predicts the sequence of micro-batches. The first one is the last one of
    `history`, which is the current one."""
    step, number = history[-1]
    yield step, number
    period = _period(history)
    if period is not None:
        shift = step - history[-1 - period][0]
        for repetition in itertools.count(1):
            for past_step, past_number in history[-period:]:
                yield past_step + repetition * shift, past_number
    for other in range(number + 1, micro_batches):
        yield step, other
    for later in itertools.count(step + 1):
        for other in range(number, micro_batches):
            yield later, other


# What of the samples of a micro-batch are keys, by the names of their features.
KeysOf = Callable[[Any], Mapping[str, Any]]


class _Ahead:
    """Keeps a loader one or more micro-batches ahead of the session."""

    def __init__(self, session: Session, keys: Optional[KeysOf] = None):
        self._job = session.job
        self._keys_of, self._announce = keys, session.announce
        # What was loaded ahead, to announce its keys.
        self._ready: deque[tuple[_Key, Any]] = deque()
        self._seed: Optional[Callable[[int], None]] = session._seed_generators
        self._recent: deque[_Key] = deque(maxlen=_HISTORY)
        self._history: tuple[_Key, ...] = ()  # When the loader was started.
        self._loader: Any = None
        self._loaded: Iterator[Any] = iter(())
        self._expected: Iterator[_Key] = iter(())

    def __getstate__(self) -> dict[str, Any]:
        # A process of the loader needs only the plan.
        return {**self.__dict__, '_loader': None, '_loaded': None, '_expected': None,
                '_seed': None, '_keys_of': None, '_announce': None, '_ready': None}

    def _keys(self) -> Iterator[_Key]:
        """The predicted micro-batches, without those that have no samples."""
        if not self._history:
            raise Error(f'{type(self).__name__}: use the loader by batches(step, loader)')
        for step, number in _plan(self._history, self._job.micro_batches):
            if self._job._has_samples(step, number):
                yield step, number

    def _check(self, loader: Any) -> None:
        """Raises an error if the loader was not made for this object."""
        raise NotImplementedError

    def batches(self, step: Step, loader: torch.utils.data.DataLoader
                ) -> Iterator[tuple[MicroBatch, Any]]:
        """Yields the micro-batches of `step`, each with its samples as `loader` has
        loaded them.

        The loader reads the samples of the micro-batches that probably follow. If the
        worker gets others, because workers have joined or left or a server was lost,
        the loader is started again.
        """
        for batch in step.micro_batches:
            data = self._load(batch, loader)
            # The loader may have used the generators of this process.
            self._seed(batch.seed)
            yield batch, data

    def _load(self, batch: MicroBatch, loader: Any) -> Any:
        key = (batch.step, batch.number)
        self._recent.append(key)
        if loader is not self._loader or self._next_key() != key:
            self._check(loader)
            self._history = tuple(self._recent)
            self._ready.clear()
            self._loaded = iter(())  # Ends processes before others start.
            self._loader, self._loaded = loader, iter(loader)
            self._expected = self._keys()
            next(self._expected)
        data = self._ready.popleft()[1] if self._ready else self._load_item(key)
        if self._keys_of is not None:
            self._look_ahead(key)
        return data

    def _next_key(self) -> _Key:
        """The micro-batch that is expected next."""
        return self._ready[0][0] if self._ready else next(self._expected)

    def _load_item(self, key: _Key) -> Any:
        """Takes the next item of the loader, and announces its keys."""
        data = next(self._loaded)
        if self._keys_of is not None:
            self._announce(*key, self._keys_in(data))
        return data

    def _keys_in(self, data: Any) -> Mapping[str, Any]:
        return self._keys_of(data)

    def _look_ahead(self, current: _Key) -> None:
        """Loads what follows until the current micro-batch of the next step."""
        while not self._ready or self._ready[-1][0] < (current[0] + 1, current[1]):
            key = next(self._expected)
            self._ready.append((key, self._load_item(key)))


class MicroBatchSampler(_Ahead):
    """A batch sampler that gives PyTorch's `DataLoader` the samples of micro-batches:

        sampler = tributary.MicroBatchSampler(session)
        loader = DataLoader(dataset, batch_sampler=sampler, num_workers=2)
        for step in session:
            for batch, (x, y) in sampler.batches(step, loader):
                batch.backward(loss_fn(model(x), y))

    Each list of indices is that of one micro-batch, `MicroBatch.indices`. If the data
    set uses random numbers, for example for augmentation, they depend on the loader's
    processes; use `MicroBatchDataset` then. Iterate only by `batches`.
    """

    def __init__(self, session: Session):
        super().__init__(session)

    def __iter__(self) -> Iterator[list[int]]:
        for step, number in self._keys():
            yield self._job.indices(step, number).tolist()

    def _check(self, loader: Any) -> None:
        if getattr(loader, 'batch_sampler', None) is not self:
            raise Error('the loader has another sampler: create it with '
                        'DataLoader(dataset, batch_sampler=sampler)')


class MicroBatchDataset(_Ahead, torch.utils.data.IterableDataset):
    """An iterable data set, each of whose items are the samples of one micro-batch:

        samples = tributary.MicroBatchDataset(dataset, session)
        loader = DataLoader(samples, batch_size=None, num_workers=2)
        for step in session:
            for batch, (x, y) in samples.batches(step, loader):
                batch.backward(loss_fn(model(x), y))

    The generators of `random`, NumPy and PyTorch are seeded with `MicroBatch.seed`
    before the samples of a micro-batch are read, so that augmentation does not depend
    on the worker or on `num_workers`. Iterate only by `batches`.

    With tables, `keys` says which of the samples are keys: their rows then arrive before
    `EmbeddingBag` needs them. The keys of the next step are announced while a step is
    computed, so the samples of one step are loaded ahead in this process:

        samples = tributary.MicroBatchDataset(
            dataset, session, keys=lambda item: {'user': item[0], 'movie': item[1]})

    Args:
        dataset: a map-style data set of PyTorch or any sequence: `dataset[i]` is sample
            i. Processes of the loader have copies of it.
        session: what `connect` has returned.
        collate: makes a batch of the list of a micro-batch's samples; default: that
            of DataLoader.
        keys: returns the keys that a micro-batch looks up, by the names of the features;
            see `Session.announce`. Its argument is what `collate` has made. Called in
            this process. Default: no keys are announced.
    """

    def __init__(self, dataset: Any, session: Session,
                 collate: Optional[Callable[[list], Any]] = None, *,
                 keys: Optional[KeysOf] = None):
        super().__init__(session, keys)
        self._dataset = dataset
        self._collate = collate or torch.utils.data.default_collate

    def _read(self, indices: np.ndarray) -> Any:
        return self._collate([self._dataset[int(index)] for index in indices])

    def __iter__(self) -> Iterator[Any]:
        process = torch.utils.data.get_worker_info()
        first, processes = (process.id, process.num_workers) if process else (0, 1)
        # DataLoader takes one item of each process in turn.
        seed = _random.seed_generators if self._seed is None or process else self._seed
        for step, number in itertools.islice(self._keys(), first, None, processes):
            seed(self._job.random_seed(step, number))
            yield self._read(self._job.indices(step, number))

    def _check(self, loader: Any) -> None:
        if getattr(loader, 'dataset', None) is not self or loader.batch_size is not None:
            raise Error('the loader divides the samples otherwise: create it with '
                        'DataLoader(samples, batch_size=None)')
        if loader.persistent_workers:
            raise Error('the loader has persistent_workers=True, but processes that are '
                        'not started again do not know other micro-batches; leave it out')


class _Parts(MicroBatchDataset):
    """Each of whose items is the list of the parts of one micro-batch."""

    def __init__(self, dataset: Any, session: Session,
                 collate: Optional[Callable[[list], Any]], size: int,
                 keys: Optional[KeysOf]):
        super().__init__(dataset, session, collate, keys=keys)
        self._size = size

    def _keys_in(self, data: Any) -> Mapping[str, Any]:
        keys: dict[str, list[np.ndarray]] = {}
        for part in data:
            for name, of_part in self._keys_of(part).items():
                keys.setdefault(name, []).append(_features.as_keys(of_part, name))
        return {name: np.concatenate(parts) for name, parts in keys.items()}

    def _read(self, indices: np.ndarray) -> list[Any]:
        return [super(_Parts, self)._read(indices[begin:begin + self._size])
                for begin in range(0, len(indices), self._size)]


class _JobOrder:
    """Takes the place of a `DistributedSampler`: the job orders the samples."""

    def set_epoch(self, epoch: int) -> None:
        """Does nothing: each epoch of the job has an order of its own."""


class EpochLoader:
    """Reads the samples of the micro-batches that the job assigns to this worker, for a
    loop with `tributary.Optimizer`. `Session.loader` makes it of a `DataLoader`:

        loader = session.loader(DataLoader(dataset, batch_size=32, shuffle=True))
        for epoch in range(epochs):
            for x, y in loader:
                ...
                optimizer.step()

    Each iteration is an epoch of the job: over all workers, each sample is read once,
    also if workers are lost or join. In a worker that joins late, the iterations for
    the epochs before are empty. Each item is the samples of one micro-batch or, if
    `batch_size` of the `DataLoader` is smaller, a part of them: call `optimizer.step`
    after the last part. The job decides the order of the samples; processes of the
    loader read ahead, and random augmentation has the same bits for any number of
    workers and processes.

    Attributes:
        loader: the `DataLoader` that reads.
        dataset: the data set.
        batch_size: samples of an item.
        sampler: has a `set_epoch` that does nothing.

    Args:
        loader: a `DataLoader` of a map-style data set with the training samples of the
            job, without a sampler of its own. Its data set, `batch_size`, `collate_fn`
            and options of its processes are used.
        session: what `connect` has returned.
        keys: as for `MicroBatchDataset`, for each item.
    """

    def __init__(self, loader: torch.utils.data.DataLoader, session: Session,
                 keys: Optional[KeysOf] = None):
        data = torch.utils.data
        job = session.job
        if isinstance(loader.dataset, data.IterableDataset):
            raise Error('session.loader needs a map-style data set, with __getitem__ and '
                        '__len__; for others, use the loop over the session')
        if loader.batch_size is None or not isinstance(
                loader.sampler, (data.RandomSampler, data.SequentialSampler,
                                 data.DistributedSampler)):
            raise Error('the job chooses the samples: give the DataLoader a batch_size, '
                        'and no sampler or batch_sampler')
        if len(loader.dataset) != job.train_samples:
            raise Error(f'the data set has {len(loader.dataset)} samples, but the job '
                        f'has train_samples: {job.train_samples}')
        whole = job.batch // job.micro_batches
        self.dataset = loader.dataset
        self.batch_size = min(loader.batch_size, whole)
        self.sampler = _JobOrder()
        self._session = session
        self._parts = -(-whole // self.batch_size)
        self._samples = _Parts(loader.dataset, session, loader.collate_fn,
                               self.batch_size, keys)
        options = {}
        if loader.num_workers > 0:
            options = {'prefetch_factor': loader.prefetch_factor,
                       'multiprocessing_context': loader.multiprocessing_context}
        self.loader = data.DataLoader(
            self._samples, batch_size=None, num_workers=loader.num_workers,
            pin_memory=loader.pin_memory, timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn, generator=torch.Generator(), **options)
        self._epoch = 0

    def __len__(self) -> int:
        """Number of items of an epoch for each of as many workers as micro-batches."""
        return self._session.job.steps_per_epoch * self._parts

    def __iter__(self) -> Iterator[Any]:
        epoch, self._epoch = self._epoch, self._epoch + 1
        loop = self._session._loop
        if loop is None:
            raise Error('create the tributary.Optimizer before the loop over the loader')
        while loop._batch is not None and loop._batch.epoch <= epoch:
            batch = loop._batch
            parts = self._samples._load(batch, self.loader)
            for number, part in enumerate(parts):
                # The loader, or an evaluation, may have used the generators.
                if number == 0:
                    self._session._seed_generators(batch.seed)
                yield part
                if loop._batch is not batch and number + 1 < len(parts):
                    raise Error(f'{batch}: optimizer.step() was called after '
                                f'{number + 1} of its {len(parts)} parts; call it after '
                                'the last one, or give the DataLoader a batch_size of '
                                f'{len(batch.indices)}')
            if loop._batch is batch:
                raise Error(f'{batch}: call optimizer.step() after its samples, once')
