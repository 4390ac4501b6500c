"""Optimizers of one program that take turns, such as the two of a GAN."""

from __future__ import annotations

from typing import Any, Sequence, Union

from .errors import Error

_METHODS = ('step', 'state_dict', 'load_state_dict')


class Alternating:
    """A `rule` (see `DistributedDataParallel`) of several optimizers, one of which
    updates its parameters in each step of the job, in turn:

        turns = tributary.Alternating(of_discriminator, of_generator)
        optimizer = tributary.Optimizer(nn.ModuleList([generator, discriminator]),
                                        rule=turns)
        for real, in loader:
            if turns.current(optimizer.next_step) is of_discriminator:
                loss = ...
            else:
                loss = ...

    The parameters of the others, and what they remember, stay as they are. The turn
    follows from the number of the step, so that all workers agree on it, also those that
    join later.

    Args:
        optimizers: optimizers of `torch.optim`, or objects with the same methods `step`,
            `state_dict` and `load_state_dict`; each may be a sequence of an optimizer and
            its schedulers, which are stepped in its turns.
        steps: how many steps of the job a turn of each takes; default: 1.
    """

    def __init__(self, *optimizers: Any, steps: Union[int, Sequence[int]] = 1):
        self._turns = [list(turn) if isinstance(turn, (tuple, list)) else [turn]
                       for turn in optimizers]
        counts = [steps] * len(optimizers) if isinstance(steps, int) else list(steps)
        if not optimizers or len(counts) != len(optimizers) or min(counts) < 1:
            raise Error(f'Alternating has {len(optimizers)} optimizers with the steps '
                        f'{steps}, expected a number above 0 for each')
        for part in (part for turn in self._turns for part in turn):
            for method in _METHODS:
                if not callable(getattr(part, method, None)):
                    raise Error(f'Alternating has a {type(part).__name__} without the '
                                f'method {method}; pass optimizers of torch.optim')
        self._order = [turn for turn, count in zip(self._turns, counts)
                       for _ in range(count)]

    @property
    def optimizers(self) -> list[Any]:
        """The optimizers, without schedulers."""
        return [turn[0] for turn in self._turns]

    def current(self, step: int) -> Any:
        """Returns the optimizer whose turn it is in the job's step with this number
        (`Optimizer.next_step`, `MicroBatch.step`)."""
        return self._order[step % len(self._order)][0]

    def step(self, step: int) -> None:
        """Steps the optimizer whose turn it is, and then its schedulers."""
        for part in self._order[step % len(self._order)]:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        """Returns the states of all optimizers and schedulers."""
        # Functions of schedulers come from their creation.
        return {'turns': [[turn[0].state_dict(),
                           *({key: value for key, value in part.state_dict().items()
                              if not callable(value)} for part in turn[1:])]
                          for turn in self._turns]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for turn, states in zip(self._turns, state['turns']):
            for part, saved in zip(turn, states):
                part.load_state_dict(saved)
