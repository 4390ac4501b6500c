"""The learning rates of a rule whose schedulers the program steps."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Iterator, Optional, Sequence

import torch

from ._schedulers import SchedulerSteps
from .items import MicroBatch

if TYPE_CHECKING:
    from .optimizer import Optimizer

# What schedulers of PyTorch change in a group of parameters.
_OPTIONS = ('lr', 'momentum', 'betas')
# How many steps are remembered.
_HISTORY = 100000


class RuleRates:
    """What the program has made of the options of the rule's groups, by step.

    The saved state of a rule has the options of the step after which it was saved. From
    such a state, steps are computed again, and workers begin that join. So the options of
    each step are stated when the worker contributes to it, and set when it is applied. A
    worker that does not contribute to a step advances its schedulers to it.
    """

    def __init__(self, optimizer: 'Optimizer', schedulers: SchedulerSteps):
        self._optimizer, self._schedulers = optimizer, schedulers
        self._of_step: dict[int, list[dict[str, Any]]] = {}
        self._last = self._options()  # When the rule has left them.
        # When this worker has contributed last: those of its schedulers.
        self._own: Optional[list[dict[str, Any]]] = None

    def _options(self) -> list[dict[str, Any]]:
        return [{name: float(group[name]) if isinstance(group[name], torch.Tensor)
                 else group[name] for name in _OPTIONS if name in group}
                for group in self._optimizer.param_groups]

    def state(self, batch: MicroBatch) -> None:
        """States the options of the micro-batch's step, if the program decides on them:
        by schedulers, or by assignments."""
        options = self._options()
        if self._schedulers:
            self._own = options
        if batch.step in self._of_step or self._schedulers.unknown(batch):
            return
        if self._schedulers or options != self._last:
            self._of_step[batch.step] = options
            self._of_step.pop(batch.step - _HISTORY, None)

    @contextlib.contextmanager
    def of_step(self, step: int) -> Iterator[None]:
        """Sets the options of the step, which the rule is about to apply."""
        with self._schedulers.inside():
            stated = self._of_step.get(step)
            if stated is not None:
                self._set(stated)
            elif self._own is not None:
                self._set(self._own)  # Not those of the state that was restored.
                self._schedulers.advance(step)
            yield
            self._last = self._options()

    def _set(self, of_groups: list[dict[str, Any]]) -> None:
        for group, options in zip(self._optimizer.param_groups, of_groups):
            for name, value in options.items():
                if isinstance(group[name], torch.Tensor):
                    group[name].fill_(value)
                else:
                    group[name] = value

    def save(self) -> list[bool]:
        return self._schedulers.kinds()

    def load(self, saved: Sequence[list[bool]]) -> None:
        """The state of the rule was restored, with what `save` has returned for it."""
        for kinds in saved:
            self._schedulers.set_kinds(kinds)
        self._last = self._options()
