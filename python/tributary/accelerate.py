"""Trains a loop with Accelerate as a worker of a job:

    accelerator = tributary.accelerate.Accelerator()
    model, optimizer, loader, scheduler = accelerator.prepare(
        model, optimizer, loader, scheduler)

docs/trainers.md describes what differs from Accelerate's own processes.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional

import accelerate
import torch
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import send_to_device

from . import _trainers
from .errors import Error
from .loading import EpochLoader
from .session import Session


def set_rank(session: Session, past: bool = False) -> None:
    """Makes this process, which Accelerate sees as its only one, the main process if its
    rank is 0, and the local main process if it is the first one on its machine. In a
    `past` epoch, it is neither."""
    _trainers.check_process(session, 'Accelerate')
    if PartialState().num_processes > 1:
        raise Error('Accelerate has joined other processes: start the program with '
                    '`tributary train`, not with torchrun or `accelerate launch`')
    least = 1 if past else 0
    for state in (PartialState(), AcceleratorState()):
        state.process_index = max(session.rank, least)
        state.local_process_index = max(session.local_rank, least)


class Accelerator(accelerate.Accelerator):
    """An `accelerate.Accelerator` whose optimizer is that of the job.

    `prepare` replaces the optimizer by that of the job, and makes the `DataLoader` with
    `shuffle=True`, the training data, read the samples that the job assigns to this
    worker. Other loaders are read completely by each worker, so that metrics are the
    same in all workers. The worker with rank 0 is the main process, and that with local
    rank 0 the local main process; `num_processes` is 1, and `gather` returns its
    argument. After `prepare`, a scheduler counts as in Accelerate's own processes: one
    step for each micro-batch of the job's step, or one for each step with
    `split_batches`.

    In a worker that starts later, the iterations over past epochs are empty, and the
    worker is neither the main nor a local main process in them.

    Args:
        session: what `connect` has returned; default: `connect()`.
        evaluate: as for `tributary.Optimizer`; needed if the job itself evaluates, for
            example to stop early.
        others: those of `accelerate.Accelerator`.
    """

    def __init__(self, *arguments: Any, session: Optional[Session] = None,
                 evaluate: _trainers.Evaluate = None, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self.session = _trainers.session_of_program() if session is None else session
        self._module: Optional[torch.nn.Module] = None
        self._evaluate = evaluate
        self._ours: Any = None
        self._train_loader: Optional[_Loader] = None
        self._has_warned = False
        set_rank(self.session)

    def prepare(self, *objects: Any, device_placement: Optional[list[bool]] = None) -> Any:
        # The optimizer needs the module on its device.
        places = device_placement or [None] * len(objects)
        done = {number: super(Accelerator, self).prepare(item, device_placement=[place])
                for number, (item, place) in enumerate(zip(objects, places))
                if isinstance(item, torch.nn.Module)}
        for module in done.values():
            if any(parameter.requires_grad for parameter in module.parameters()):
                self._module = module
        rest = [number for number in range(len(objects)) if number not in done]
        if rest:
            prepared = super().prepare(*[objects[number] for number in rest],
                                       device_placement=[places[n] for n in rest])
            done.update(zip(rest, prepared if len(rest) > 1 else [prepared]))
        results = tuple(done[number] for number in range(len(objects)))
        return results if len(results) > 1 else results[0]

    def prepare_data_loader(self, data_loader: Any, *arguments: Any, **keywords: Any) -> Any:
        if isinstance(data_loader, EpochLoader):
            return data_loader
        if not isinstance(data_loader.sampler, torch.utils.data.RandomSampler):
            return super().prepare_data_loader(data_loader, *arguments, **keywords)
        if self._train_loader is not None:
            raise Error('several DataLoaders have shuffle=True, expected one: that of '
                        'the training data')
        self._train_loader = _Loader(data_loader, self)
        self._train_loader.check_accumulation(self.gradient_accumulation_steps,
                                              'gradient_accumulation_steps')
        return self._train_loader

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer,
                          device_placement: Optional[bool] = None) -> Any:
        if getattr(optimizer, '_is_accelerate_prepared', False):
            return super().prepare_optimizer(optimizer, device_placement)
        if self._ours is not None:
            raise Error('prepare has got several optimizers, expected one')
        if self._module is None:
            raise Error('prepare needs the model before, or together with, its optimizer')
        self._ours = _trainers.take_over(optimizer, self._module, self.session,
                                         self._evaluate)
        self._replaced = optimizer
        self._ours._scheduler_steps.calls_per_step = \
            1 if self.split_batches else self.session.job.micro_batches
        self.session._remedy = (
            'let the loop read all epochs of the loader of prepare; a loop that ends after '
            'a number of steps needs as many workers as micro-batches')
        return super().prepare_optimizer(self._ours, device_placement)

    def prepare_scheduler(self, scheduler: Any) -> Any:
        if self._ours is not None and getattr(scheduler, 'optimizer', None) in (
                self._replaced, self._ours):
            _trainers.attach(scheduler, self._ours)
        return super().prepare_scheduler(scheduler)

    def backward(self, loss: torch.Tensor, **keywords: Any) -> None:
        if self._ours is not None and self._train_loader is None:
            raise Error('prepare has got no training data: a DataLoader with shuffle=True')
        super().backward(loss, **keywords)

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2) -> Any:
        """Returns the norm of the gradients. The job clips those of a step."""
        if self._ours is None:
            return super().clip_grad_norm_(parameters, max_norm, norm_type)
        if not self._has_warned:
            self._has_warned = True
            _trainers.check_clipping(self.session, max_norm, 'clip_grad_norm_: max_norm')
        return super().clip_grad_norm_(parameters, float('inf'), norm_type)

    def get_state_dict(self, model: torch.nn.Module, *arguments: Any, **keywords: Any
                       ) -> dict[str, Any]:
        # The parameters are views of one tensor, which Accelerate would take for tied.
        return {name: value.clone() if isinstance(value, torch.Tensor) else value for
                name, value in super().get_state_dict(model, *arguments, **keywords).items()}

    def save_state(self, *arguments: Any, **keywords: Any) -> Any:
        """Saves the state, in the main process."""
        if not self.is_main_process:
            return None
        return super().save_state(*arguments, **keywords)

    def load_state(self, input_dir: Optional[str] = None, *arguments: Any,
                   **keywords: Any) -> None:
        """Loads what is not in the job: registered objects, but not weights, optimizers,
        schedulers and random numbers, which follow from the job's step."""
        if self._ours is None:
            super().load_state(input_dir, *arguments, **keywords)
            return
        _trainers.check_resumed(self._ours, input_dir or 'of load_state')
        kept = self._models, self._optimizers, self._schedulers
        self._models, self._optimizers, self._schedulers = [], [], []
        try:
            super().load_state(input_dir, *arguments, **keywords)
        finally:
            self._models, self._optimizers, self._schedulers = kept

    def end_training(self) -> None:
        """Ends trackers. After a loop that has ended early, ends the job, for all
        workers; see `Session.end_job`."""
        super().end_training()
        if self._ours is None or self._ours.done:
            return
        _trainers.warn(self.session, 'the loop has ended after step '
                       f'{self._ours.next_step} of {self.session.job.steps}, and the job '
                       'with it')
        self.session.end_job()

    def skip_first_batches(self, dataloader: Any, num_batches: int = 0) -> Any:
        if isinstance(dataloader, EpochLoader):
            return dataloader  # The job knows its step.
        return super().skip_first_batches(dataloader, num_batches)


class _Loader(_trainers.AccumulatingLoader):
    """Places the samples on the device."""

    def __init__(self, loader: torch.utils.data.DataLoader, accelerator: Accelerator):
        super().__init__(loader, accelerator.session)
        self._accelerator = accelerator

    def __iter__(self) -> Iterator[Any]:
        session, loop = self._session, self._session._loop
        past = loop is not None and (loop._batch is None or loop._batch.epoch > self._epoch)
        # What the main process does after an epoch was done when the epoch ended.
        set_rank(session, past)
        for batch in super().__iter__():
            yield send_to_device(batch, self._accelerator.device)

    def set_epoch(self, epoch: int) -> None:
        """Does nothing: the job knows its epoch."""
