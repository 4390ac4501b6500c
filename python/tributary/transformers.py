"""Trains with Hugging Face's Trainer as a worker of a job:

    trainer = tributary.transformers.prepare(Trainer(model, arguments, ...))
    trainer.train()

docs/trainers.md describes what differs from Trainer's own processes.
"""

from __future__ import annotations

import sys
from typing import Any, Optional

import torch
import transformers

from . import _trainers
from .accelerate import set_rank
from .errors import Error
from .session import Session


def prepare(trainer: transformers.Trainer, session: Optional[Session] = None, *,
            evaluate: _trainers.Evaluate = None) -> transformers.Trainer:
    """Makes a `Trainer`, also one of a derived class, a worker of the job. Returns it.

    Each call of the optimizer gives one micro-batch to the servers. `state.global_step`
    and `state.epoch` are those of the job, also in a worker that starts later. Each
    worker evaluates all samples, which gives the same metrics in all workers, since they
    have the same weights. The worker with rank 0 prints, logs and saves checkpoints.

    Args:
        trainer: the trainer, before its `train`.
        session: what `connect` has returned; default: `connect()`.
        evaluate: as for `tributary.Optimizer`; needed if the job itself evaluates, for
            example to stop early.

    Raises:
        Error: if the Trainer is of a version of `transformers` that is not known.
    """
    if isinstance(trainer, _Trainer):
        return trainer
    if not hasattr(trainer, '_run_epoch') or not hasattr(trainer, '_init_training_state'):
        raise Error(f'transformers {transformers.__version__} is not known: tributary.'
                    'transformers needs version 5')
    if trainer.args.n_gpu > 1:
        raise Error(f'the Trainer uses {trainer.args.n_gpu} GPUs, but a worker has one: '
                    'set CUDA_VISIBLE_DEVICES')
    session = _trainers.session_of_program() if session is None else session
    set_rank(session)
    trainer.__class__ = type(type(trainer).__name__, (_Trainer, type(trainer)), {})
    trainer.session, trainer._ours, trainer._evaluate_piece = session, None, evaluate
    trainer.state.is_world_process_zero = trainer.is_world_process_zero()
    trainer.state.is_local_process_zero = trainer.is_local_process_zero()
    callbacks = trainer.callback_handler.callbacks
    flow = next((number for number, callback in enumerate(callbacks) if isinstance(
        callback, transformers.trainer_callback.DefaultFlowCallback)), 0)
    counter = _Counter(trainer)
    callbacks[flow:flow + 1] = [counter, callbacks[flow], _Once(counter)]
    _trainers.check_clipping(session, trainer.args.max_grad_norm, 'max_grad_norm')
    return trainer


class _Counter(transformers.TrainerCallback):
    """Makes Trainer count the steps and epochs of the job."""

    def __init__(self, trainer: Any):
        self._trainer = trainer
        self._step = self._calls = 0
        self._loss: Any = None  # The sum of the losses before the step.
        self.advanced = True  # Whether the last call has completed a step.

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._step = state.global_step

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.advanced:
            self._loss, self._calls = self._trainer._tr_loss.clone(), 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        ours = self._trainer._ours
        step, _ = _trainers.position(ours)
        steps, self._step = step - self._step, step
        self.advanced = steps > 0
        self._calls += 1
        if self.advanced:  # Trainer divides the sum by the number of steps.
            losses = self._trainer._tr_loss
            losses.copy_(self._loss + (losses - self._loss) * (steps / self._calls))
        state.global_step = step
        state.epoch = step / ours.session.job.steps_per_epoch
        if _trainers.epoch_ends(ours, self._trainer._epoch):
            control.should_epoch_stop = True
        if ours.done:
            control.should_training_stop = True


class _Once(transformers.TrainerCallback):
    """Takes back what DefaultFlowCallback wants for a step that it has seen before."""

    def __init__(self, counter: _Counter):
        self._counter = counter

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not self._counter.advanced:
            control.should_log = control.should_evaluate = control.should_save = False


class _Trainer:
    """What `prepare` adds to a Trainer."""

    def train(self, *arguments: Any, **keywords: Any) -> Any:
        if self._ours is not None:
            raise Error('train was called before: a job is one training')
        result = super().train(*arguments, **keywords)
        self._end()
        return result

    def _load_best_model(self) -> None:
        self._end()  # It brings the last weights into the model.
        super()._load_best_model()

    def _end(self) -> None:
        # A Trainer that trains as many steps as the job ends with it or, by a callback,
        # before it.
        _trainers.end(self._ours, 'the Trainer',
                      stops_early=self.control.should_training_stop)

    # ---- The data.

    def get_train_dataloader(self) -> Any:
        # Else Accelerate would read one batch ahead.
        self.accelerator.prepare = lambda loader: loader
        try:
            loader = super().get_train_dataloader()
        finally:
            del self.accelerator.prepare
        loader = _trainers.TrainerLoader(loader, self.session)
        loader.check_accumulation(self.args.gradient_accumulation_steps,
                                  'gradient_accumulation_steps')
        return loader

    def set_initial_training_values(self, *arguments: Any) -> Any:
        values = super().set_initial_training_values(*arguments)
        if values[-1] != self.session.job.steps:
            raise Error(f'the Trainer trains {values[-1]} steps, but the job '
                        f'{self.session.job.steps}: make num_train_epochs or max_steps '
                        'and the job equal')
        return values

    # ---- The optimizer.

    def create_optimizer(self, *arguments: Any) -> Any:
        if self._ours is None:
            super().create_optimizer(*arguments)
            self._ours = _trainers.take_over(self.optimizer, self.model, self.session,
                                             self._evaluate_piece)
            self.optimizer = self._ours
            if self.lr_scheduler is not None:
                _trainers.attach(self.lr_scheduler, self._ours)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        # Not that of Accelerate around it.
        return super().create_scheduler(num_training_steps, self._ours)

    def _prepare_for_training(self, max_steps: int, train_dataloader: Any,
                              resume_from_checkpoint: Any) -> Any:
        result = super()._prepare_for_training(max_steps, train_dataloader,
                                               resume_from_checkpoint)
        if self._monitors_metric():
            _trainers.check_plateau(self._ours, resume_from_checkpoint)
        else:
            self._ours._scheduler_steps.place(
                self.lr_scheduler, _trainers.position(self._ours)[0], each_step=True)
        return result

    def _monitors_metric(self) -> bool:
        return isinstance(self.lr_scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)

    def _clip_grad_norm(self, model: Any) -> None:
        """The job clips the gradients of a step."""

    # ---- The loop.

    def _init_training_state(self, *arguments: Any, **keywords: Any) -> tuple[int, int]:
        checkpoint = keywords.get('resume_from_checkpoint',
                                  arguments[3] if len(arguments) > 3 else None)
        super()._init_training_state(*arguments, **keywords)
        self.create_optimizer()
        _trainers.check_resumed(self._ours, checkpoint)
        step, epoch = _trainers.position(self._ours)
        self.state.global_step = step
        self.state.epoch = step / self.session.job.steps_per_epoch
        return epoch, 0

    def _run_epoch(self, **arguments: Any) -> None:
        self._epoch = _trainers.position(self._ours)[1]
        # The loader ends an epoch, whose length depends on the other workers.
        arguments.update(
            resume_from_checkpoint=None, steps_trained_in_current_epoch=0,
            num_update_steps_per_epoch=sys.maxsize,
            steps_in_epoch=sys.maxsize * self.args.gradient_accumulation_steps)
        super()._run_epoch(**arguments)

    # ---- Checkpoints: the servers have weights and optimizer, and know the step.

    def _save_checkpoint(self, *arguments: Any, **keywords: Any) -> None:
        if self.is_world_process_zero():
            super()._save_checkpoint(*arguments, **keywords)

    def _load_from_checkpoint(self, *_: Any, **__: Any) -> None:
        pass

    def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None:
        if self._monitors_metric():
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_rng_state(self, checkpoint: Any) -> None:
        pass
