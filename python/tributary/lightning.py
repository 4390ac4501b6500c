"""Trains a LightningModule as a worker of a job:

    from tributary.lightning import TributaryStrategy

    trainer = Trainer(max_epochs=5, strategy=TributaryStrategy())
    trainer.fit(module, train_loader, validation_loader)

Works with the packages `lightning` and `pytorch_lightning`; if the program has imported
both, with `lightning`. docs/trainers.md describes what differs from DDP.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any, Mapping, Optional

import torch

from . import _trainers
from .errors import Error, Stopped
from .session import Session

if TYPE_CHECKING:
    TributaryStrategy: type

_PACKAGES = ('lightning.pytorch', 'pytorch_lightning')


def __getattr__(name: str) -> Any:
    if name == 'TributaryStrategy':
        return _strategy_class(next((package for package in _PACKAGES
                                     if package in sys.modules), None) or _installed())
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def _installed() -> str:
    for package in _PACKAGES:
        try:
            importlib.import_module(package)
            return package
        except ModuleNotFoundError:
            pass
    raise Error('tributary.lightning needs the package lightning: pip install lightning')


@functools.lru_cache(maxsize=None)
def _strategy_class(package: str) -> type:
    """Returns the strategy for a Trainer of `package`, which is imported."""
    base = importlib.import_module(package + '.strategies').Strategy
    return type('TributaryStrategy', (_Strategy, base), {
        '__doc__': _Strategy.__doc__, '__module__': __name__,
        '_optimizers_of': staticmethod(importlib.import_module(
            package + '.core.optimizer')._init_optimizers_and_lr_schedulers)})


class _Strategy:
    """A strategy of Lightning's Trainer, for a worker of a job.

    Each call of the optimizer gives one micro-batch to the servers. `global_step` and
    `current_epoch` are those of the job, also in a worker that starts later. Each worker
    is a world of one process: it validates on all samples, which gives the same metrics
    in all workers, since they have the same weights. The worker with rank 0 prints, logs
    and saves checkpoints.

    Args:
        session: what `connect` has returned; default: `connect()`.
        evaluate: as for `tributary.Optimizer`; needed if the job itself evaluates, for
            example to stop early.
        options: those of Lightning's `Strategy`.
    """

    strategy_name = 'tributary'

    def __init__(self, session: Optional[Session] = None, *,
                 evaluate: _trainers.Evaluate = None, **options: Any):
        super().__init__(**options)
        from lightning_utilities.core.rank_zero import rank_zero_only
        self.session = _trainers.session_of_program() if session is None else session
        _trainers.check_process(self.session, 'Lightning')
        self.parallel_devices: Optional[list[torch.device]] = None  # Set by Trainer.
        self._evaluate = evaluate
        self._ours: Any = None
        self._loader: Any = None
        rank_zero_only.rank = self.session.rank

    # ---- The world.

    @property
    def root_device(self) -> torch.device:
        devices = self.parallel_devices or [torch.device('cpu')]
        return devices[self.session.local_rank % len(devices)]

    @property
    def is_global_zero(self) -> bool:
        return self.session.is_main

    @property
    def global_rank(self) -> int:
        return self.session.rank

    @property
    def local_rank(self) -> int:
        return self.session.local_rank

    @property
    def world_size(self) -> int:
        return 1

    def model_to_device(self) -> None:
        self.model.to(self.root_device)

    def reduce(self, tensor: Any, *_: Any, **__: Any) -> Any:
        return tensor

    def all_gather(self, tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return tensor

    def broadcast(self, value: Any, src: int = 0) -> Any:
        return value

    def barrier(self, *_: Any, **__: Any) -> None:
        pass

    # ---- The data.

    def process_dataloader(self, dataloader: Any) -> Any:
        dataloader = super().process_dataloader(dataloader)
        trainer = self.lightning_module.trainer
        if not trainer.training:
            return dataloader
        if trainer.limit_train_batches != 1.0 or trainer.overfit_batches:
            raise Error('limit_train_batches, overfit_batches and fast_dev_run cannot be '
                        'used: the job states how many samples an epoch has')
        if isinstance(dataloader, _trainers.TrainerLoader):
            return dataloader
        if not isinstance(dataloader, torch.utils.data.DataLoader):
            raise Error('the training data is a '
                        f'{type(dataloader).__name__}, expected one DataLoader')
        self._loader = _Loader(dataloader, self.session)
        self._loader.check_accumulation(trainer.accumulate_grad_batches,
                                        'accumulate_grad_batches')
        self._loader.started = self._ours is not None and self._ours._started
        return self._loader

    # ---- The optimizer.

    def setup_optimizers(self, trainer: Any) -> None:
        if self._ours is not None:
            raise Error('fit was called before: a job is one training')
        optimizers, configs = self._optimizers_of(self.lightning_module)
        if len(optimizers) != 1:
            raise Error(f'configure_optimizers has returned {len(optimizers)} optimizers, '
                        'expected one')
        _trainers.check_clipping(self.session, trainer.gradient_clip_val,
                                 'gradient_clip_val')
        trainer.gradient_clip_val = None
        ours = _trainers.take_over(optimizers[0], self.lightning_module, self.session,
                                   self._evaluate)
        ours._started = False
        self._ours, self.optimizers, self.lr_scheduler_configs = ours, [ours], configs
        for config in configs:
            _trainers.attach(config.scheduler, ours)

    def optimizer_step(self, optimizer: Any, closure: Any, model: Any = None,
                       **options: Any) -> Any:
        batch = self._ours._batch
        output = super().optimizer_step(optimizer, closure, model, **options)
        if batch is not None:
            self._count(batch.epoch)
        return output

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Restores what schedulers that monitor a metric have decided. All else follows
        from the step of the job."""
        configs = self.lr_scheduler_configs
        if any(config.reduce_on_plateau for config in configs):
            saved = checkpoint['optimizer_states'][0]['param_groups']
            for group, before in zip(self._ours.param_groups, saved):
                group['lr'] = before['lr']
        checkpoint['lr_schedulers'] = [
            saved if config.reduce_on_plateau else config.scheduler.state_dict()
            for config, saved in zip(configs, checkpoint['lr_schedulers'])]

    # ---- Checkpoints.

    def load_checkpoint(self, checkpoint_path: Any, **options: Any) -> dict[str, Any]:
        checkpoint = super().load_checkpoint(checkpoint_path, **options)
        if self._fits():
            checkpoint.pop('loops', None)  # The job knows its step.
        return checkpoint

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True
                              ) -> None:
        if not self._fits():  # The servers have the weights.
            super().load_model_state_dict(checkpoint, strict)

    def _fits(self) -> bool:
        return self.lightning_module.trainer.state.fn.value == 'fit'

    # ---- The loops.

    def on_train_start(self) -> None:
        super().on_train_start()
        trainer, ours = self.lightning_module.trainer, self._ours
        _trainers.check_resumed(ours, trainer.ckpt_path)
        step, epoch = _trainers.position(ours)
        trainer.should_stop = ours.done  # This worker has joined after the last step.
        fit_loop = trainer.fit_loop
        for progress in (fit_loop.epoch_progress.current, fit_loop.epoch_progress.total):
            progress.ready = progress.started = progress.processed = epoch
            progress.completed = epoch
        self._steps().ready = self._steps().completed = step
        fit_loop.epoch_loop._batches_that_stepped = step
        for config in self.lr_scheduler_configs:
            if config.reduce_on_plateau:
                _trainers.check_plateau(ours, trainer.ckpt_path)
                continue
            by_step = config.interval == 'step'
            ours._scheduler_steps.place(
                config.scheduler, (step if by_step else epoch) // config.frequency,
                each_step=by_step and config.frequency == 1)
        # The loader ends an epoch; its length is the number of a step's micro-batches.
        ours._started = self._loader.started = True
        combined = fit_loop._combined_loader
        combined.limits = None
        iter(fit_loop._data_fetcher)
        fit_loop.max_batches = self._loader.expected
        if trainer.val_check_interval == 1.0:
            trainer.val_check_batch = float('inf')  # After the last batch.

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        super().on_train_batch_start(batch, batch_idx)
        fit_loop = self.lightning_module.trainer.fit_loop
        # Lightning would end the epoch after this number.
        fit_loop.max_batches = max(fit_loop.max_batches,
                                   fit_loop.epoch_loop.batch_progress.current.ready + 1)

    def on_train_end(self) -> None:
        super().on_train_end()
        _trainers.end(self._ours, 'the Trainer',
                      stops_early=self.lightning_module.trainer.should_stop)

    def on_exception(self, exception: BaseException) -> None:
        super().on_exception(exception)
        if isinstance(exception, SystemExit) and \
                self.lightning_module.trainer.received_sigterm:
            raise Stopped('this worker was stopped by SIGTERM')  # Its exit code is 75.

    def _steps(self) -> Any:
        epoch_loop = self.lightning_module.trainer.fit_loop.epoch_loop
        if self.lightning_module.automatic_optimization:
            return epoch_loop.automatic_optimization.optim_progress.optimizer.step.total
        return epoch_loop.manual_optimization.optim_step_progress.total

    def _count(self, epoch: int) -> None:
        """Makes Lightning count the steps and epochs of the job."""
        trainer = self.lightning_module.trainer
        fit_loop, epoch_loop = trainer.fit_loop, trainer.fit_loop.epoch_loop
        steps, (step, _) = self._steps(), _trainers.position(self._ours)
        steps.ready = step
        steps.completed = epoch_loop._batches_that_stepped = step - 1  # Before this one.
        for progress in (fit_loop.epoch_progress.current, fit_loop.epoch_progress.total):
            if progress.processed != epoch:  # The job has gone back to an earlier step.
                progress.ready = progress.started = epoch + 1
                progress.processed = progress.completed = epoch
        if _trainers.epoch_ends(self._ours, epoch):
            epoch_loop.batch_progress.is_last_batch = True
            fit_loop.max_batches = epoch_loop.batch_progress.current.ready
        if self._ours.done and fit_loop.epoch_progress.current.processed + 1 != \
                fit_loop.max_epochs:
            fit_loop.min_epochs = epoch_loop.min_steps = None
            trainer.should_stop = True


class _Loader(_trainers.TrainerLoader):
    """Attributes:
        started: whether the loop over the epochs has begun, which this loader ends.
        expected: number of items of an epoch in this worker, if none is lost.
    """

    def __init__(self, loader: torch.utils.data.DataLoader, session: Session):
        super().__init__(loader, session)
        self.started = False
        share = -(-session.job.micro_batches // session.world_size)
        self.expected = super().__len__() * max(1, share)

    def __len__(self) -> int:
        return sys.maxsize if self.started else super().__len__()
