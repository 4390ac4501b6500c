"""What the integrations of Lightning, Transformers and Accelerate share."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional

import torch

from . import _in_process, _process
from . import optimizer as _optimizer
from . import session as _session
from .errors import Error
from .items import EvaluationPiece
from .loading import EpochLoader
from .optimizer import Optimizer
from .session import Session, connect


# Computes and reports a piece of the job's evaluation; see `Optimizer`.
Evaluate = Optional[Callable[[EvaluationPiece], None]]


def session_of_program() -> Session:
    """Returns the session of this process, and joins the job if there is none."""
    thread = _in_process.current_worker()
    current = _session._process_session if thread is None else thread.session
    return current if current is not None and current._is_open() else connect()


def warn(session: Session, message: str) -> None:
    """Warns once, by one of the workers."""
    if session.is_main:
        _process.warn(message)


def check_process(session: Session, package: str) -> None:
    """Raises an error for several workers in one process."""
    if session._thread is not None and session.world_size > 1:
        raise Error(f'{package} has one state for all threads of a process: start the '
                    'workers as processes, with in_process=False')


class AccumulatingLoader(EpochLoader):
    """An `EpochLoader` for programs that count the items between steps."""

    def check_accumulation(self, count: int, option: str) -> None:
        """Raises an error unless each micro-batch has `count` items of equal size."""
        job = self._session.job
        samples = job.batch // job.micro_batches
        if count != self._parts:
            raise Error(f'{option} is {count}, but a micro-batch of {samples} samples '
                        f'(batch.global / batch.micro_batches of the job) has '
                        f'{self._parts} batches of {self.batch_size}: set '
                        f'{option}={self._parts}, or another batch size')
        if count > 1 and (job.train_samples % job.batch or samples % self.batch_size):
            raise Error(f'{option}={count} needs parts of equal size: make train_samples '
                        f'({job.train_samples}) a multiple of batch.global ({job.batch}), '
                        f'and batch.global / batch.micro_batches ({samples}) one of the '
                        f'batch size ({self.batch_size})')


class TrainerLoader(AccumulatingLoader):
    """Each of whose iterations is what is left of the job's current epoch, so that none
    is empty before the job has ended."""

    def __iter__(self) -> Iterator[Any]:
        loop = self._session._loop
        if loop is not None and loop._batch is not None:
            self._epoch = loop._batch.epoch
        yield from super().__iter__()


def take_over(theirs: torch.optim.Optimizer, module: torch.nn.Module, session: Session,
              evaluate: Evaluate) -> Optimizer:
    """Returns the optimizer of the job that takes the place of `theirs`, an optimizer of
    `torch.optim` for the parameters of `module`. It has the same `param_groups`."""
    _check_parameters(theirs, module)
    kinds = session.job.spec.get('optimizer', {})
    if 'program' in kinds:
        return Optimizer(module, session, rule=theirs, evaluate=evaluate)
    warn(session, f'the servers run the optimizer of the job ({next(iter(kinds))}) in '
         f'place of {type(theirs).__name__}, of which only the parameter groups and '
         'learning rates are used')
    rate = _optimizer._rate_of(session)
    factors = _factors(theirs.param_groups, rate)
    decays = [float(group.get('weight_decay', 0.0)) > 0 for group in theirs.param_groups]
    groups = [{'params': group['params'], 'learning_rate_factor': factor,
               **({'weight_decay': decay} if any(decays) else {})}
              for group, factor, decay in zip(theirs.param_groups, factors, decays)]
    ours = Optimizer(module, session, parameter_groups=groups, evaluate=evaluate)
    ours.param_groups = theirs.param_groups
    ours._options = [_optimizer._options_of(group) for group in ours.param_groups]
    ours._rates._initial = [rate * factor for factor in factors]
    for group, initial in zip(ours.param_groups, ours._rates._initial):
        # So that equal rates are equal numbers.
        if abs(group['lr'] - initial) <= 1e-9 * initial:
            group['lr'] = initial
    return ours


def _check_parameters(theirs: torch.optim.Optimizer, module: torch.nn.Module) -> None:
    known = {id(parameter) for group in theirs.param_groups for parameter in group['params']}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and id(parameter) not in known:
            raise Error(f'the optimizer has no parameter {name}: add it, or set its '
                        'requires_grad to False')


def _factors(groups: list[dict[str, Any]], rate: float) -> list[float]:
    """Returns by what the job's learning rate is multiplied, by group."""
    # Schedulers have changed `lr`, for example to the first of a warmup.
    initial = [float(group.get('initial_lr', group['lr'])) for group in groups]
    base = next((value for value in initial if abs(value - rate) <= 1e-9 * rate), initial[0])
    if base <= 0:
        raise Error(f'the optimizer has the learning rate {base}, expected one above 0')
    return [value / base for value in initial]


def attach(scheduler: Any, ours: Optimizer) -> None:
    """Makes a scheduler of the optimizer that was replaced one of `ours`."""
    for part in getattr(scheduler, '_schedulers', ()):
        attach(part, ours)
    scheduler.optimizer = ours
    ours._scheduler_steps.add(scheduler)


def position(ours: Optimizer) -> tuple[int, int]:
    """Returns the number of the next step, and its epoch."""
    steps = ours.next_step
    if ours.done:
        return steps, -(-steps // ours.session.job.steps_per_epoch)
    return steps, ours._batch.epoch


def epoch_ends(ours: Optimizer, epoch: int) -> bool:
    """Returns whether this worker has no further micro-batch of `epoch`."""
    return ours._batch is None or ours._batch.epoch > epoch


def check_resumed(ours: Optimizer, checkpoint: Any) -> None:
    """Raises an error if a job that begins is to continue a checkpoint of a program."""
    if checkpoint is not None and position(ours)[0] == 0:
        raise Error(f'the checkpoint {checkpoint} cannot be resumed by a new job, whose '
                    'servers have the weights: resume the job, with `tributary train '
                    '--resume auto`, or load only the weights, before the training')


def check_plateau(ours: Optimizer, checkpoint: Any) -> None:
    """Raises an error if a worker begins later, with a scheduler that monitors a metric."""
    if checkpoint is None and position(ours)[0] > 0:
        raise Error('a worker that begins later does not know what ReduceLROnPlateau has '
                    'decided before: resume the job and the program from checkpoints')


def end(ours: Optimizer, trainer: str, stops_early: bool) -> None:
    """Ends the job if a callback of the program has stopped the training, otherwise
    raises an error if the program stops before the job."""
    if stops_early and not ours.done:
        ours.session.end_job()
    if not ours.done:
        step, job = position(ours)[0], ours.session.job
        raise Error(f'{trainer} has stopped after step {step} of {job.steps} of the job: '
                    'give both the same length')


def check_clipping(session: Session, norm: Optional[float], option: str) -> None:
    """Warns if the program clips gradients otherwise than the job. It clips those of
    one micro-batch, and the job those of the step, as DDP does."""
    clip_norm = float(session.job.spec.get('clip_norm', 0.0))
    if norm and abs(float(norm) - clip_norm) > 1e-9:
        warn(session, f'{option}={norm} is not used: the job clips the gradients of a '
             f'step with clip_norm: {clip_norm:g}')
