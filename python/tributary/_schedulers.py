"""Makes the learning rate schedulers of PyTorch count the steps of a job.

A loop steps its scheduler either after each call of `Optimizer.step`, or less often, for
example after each epoch. In the first case, the number of calls depends on the worker: it
may compute several micro-batches of a step, join late, or leave steps to others. So a
call then steps the scheduler as often as needed for the job's next step. In all other
cases, a call does what PyTorch does.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import Any, Iterator, Optional

from torch.optim import lr_scheduler

from .items import MicroBatch

_BASE = getattr(lr_scheduler, 'LRScheduler', None) or lr_scheduler._LRScheduler


class SchedulerSteps:
    """What the schedulers of one optimizer have counted."""

    def __init__(self) -> None:
        # Calls by scheduler, and the schedulers that are stepped after each step.
        self._calls: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._each_step: weakref.WeakSet[Any] = weakref.WeakSet()
        self._contributions = 0
        self.next: Optional[int] = None  # The number of the job's next step.
        # The highest `next` before the job has gone back to an earlier step; -1 if it has
        # not. And the highest at which a scheduler was stepped.
        self._repeated = -1
        self._called_at: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._in_epoch = False  # Whether the next step is of the same epoch.
        self._inside = False  # A scheduler that steps others counts once.
        # How often the program steps a scheduler for each step of the job.
        self.calls_per_step = 1
        self._placed: weakref.WeakSet[Any] = weakref.WeakSet()

    def add(self, scheduler: Any) -> None:
        """A scheduler was created. What those that monitor a metric do does not follow
        from the step."""
        if not isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
            self._calls.setdefault(scheduler, 0)

    def place(self, scheduler: Any, calls: int, each_step: bool) -> None:
        """Makes the state of a scheduler that after `calls` calls, and states whether it
        is stepped after each step."""
        self.add(scheduler)
        self._placed.add(scheduler)
        (self._each_step.add if each_step else self._each_step.discard)(scheduler)
        self._step(scheduler, calls - self._calls[scheduler])

    def __bool__(self) -> bool:
        """Whether the program has schedulers."""
        return len(self._calls) > 0

    def kinds(self) -> list[bool]:
        """Returns which schedulers are stepped after each step, in the order of their
        creation."""
        return [scheduler in self._each_step for scheduler in self._calls]

    def set_kinds(self, kinds: list[bool]) -> None:
        """Adopts `kinds` of a worker that has seen more steps."""
        for scheduler, each_step in zip(list(self._calls), kinds):
            if each_step:
                self._each_step.add(scheduler)

    def advance(self, step: int) -> None:
        """Steps those that are stepped after each step up to this step of the job."""
        for scheduler in list(self._each_step):
            self._step(scheduler, step * self.calls_per_step - self._calls[scheduler])

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Does not count the schedulers that a rule, or another scheduler, steps."""
        before, self._inside = self._inside, True
        try:
            yield
        finally:
            self._inside = before

    def unknown(self, batch: MicroBatch) -> bool:
        """Returns whether the rate of the micro-batch's step is not known here: this
        worker has joined in the first epoch, and has not seen how its loop steps the
        schedulers."""
        return self._contributions == 0 and batch.step > 0 and batch.epoch == 0 and \
            any(calls == 0 and scheduler not in self._placed
                for scheduler, calls in self._calls.items())

    def before(self, batch: MicroBatch) -> None:
        """A micro-batch is about to be contributed."""
        if self._contributions > 0 or batch.epoch == 0:
            return
        # A loop that steps them after each epoch has done so in the epochs before.
        parts = {id(part) for scheduler in self._calls
                 for part in getattr(scheduler, '_schedulers', ())}
        for scheduler in [s for s, calls in self._calls.items()
                          if calls == 0 and id(s) not in parts and
                          s not in self._placed]:
            self._each_step.add(scheduler)
            self._step(scheduler, batch.step * self.calls_per_step)

    def after(self, batch: MicroBatch, following: Optional[MicroBatch]) -> None:
        """A micro-batch was contributed; `following` is the next one, if there is one."""
        self._contributions += 1
        before, self.next = self.next, \
            batch.step + 1 if following is None else following.step
        if before is not None and self.next < before:
            self._repeated = max(self._repeated, before)
        self._in_epoch = following is not None and following.epoch == batch.epoch

    def call(self, scheduler: Any, step: Any) -> Any:
        """The program has called `scheduler.step`; `step()` does what PyTorch does."""
        if self._inside:
            return step()
        self.add(scheduler)
        if self._contributions == 1 and self._in_epoch:
            self._each_step.add(scheduler)
        if scheduler not in self._each_step:
            called_at, now = self._called_at.get(scheduler, -1), self.next or 0
            if now <= min(called_at, self._repeated):
                return None  # It was stepped for these steps before the job went back.
            self._called_at[scheduler] = max(called_at, now)
            self._calls[scheduler] += 1
            return self._outer(step)
        for _ in range(self.next * self.calls_per_step - self._calls[scheduler]):
            self._calls[scheduler] += 1
            self._outer(step)

    def _step(self, scheduler: Any, count: int) -> None:
        for _ in range(count):
            self._calls[scheduler] += 1
            self._outer(functools.partial(_original(scheduler), scheduler))

    def _outer(self, step: Any) -> Any:
        with self.inside():
            return step()


def _original(scheduler: Any) -> Any:
    return getattr(type(scheduler).step, '__wrapped__', type(scheduler).step)


def _classes(base: type) -> Iterator[type]:
    yield base
    for derived in base.__subclasses__():
        yield from _classes(derived)


def _count(cls: type) -> None:
    original = cls.step

    @functools.wraps(original)
    def step(self: Any, *arguments: Any, **keywords: Any) -> Any:
        counted = getattr(getattr(self, 'optimizer', None), '_scheduler_steps', None)
        call = functools.partial(original, self, *arguments, **keywords)
        if counted is None or arguments or keywords:
            return call()
        # Schedulers step themselves while they are created, except those of schedulers.
        if getattr(self, '_step_count', 0) == 0 and not hasattr(self, '_schedulers'):
            counted.add(self)
            return call()
        return counted.call(self, call)

    cls.step = step


def _announce(cls: type) -> None:
    """Schedulers of schedulers do not step themselves while they are created."""
    original = cls.__init__

    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **keywords: Any) -> None:
        original(self, *arguments, **keywords)
        counted = getattr(getattr(self, 'optimizer', None), '_scheduler_steps', None)
        if counted is not None:
            counted.add(self)

    cls.__init__ = __init__


for _class in list(_classes(_BASE)):
    if 'step' in vars(_class):
        _count(_class)
for _class in (lr_scheduler.SequentialLR, lr_scheduler.ChainedScheduler):
    _announce(_class)
