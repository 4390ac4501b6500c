"""Lets an existing training loop take part in a job."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional

import torch

from ._module import ModuleWorker, NoDecay, ParameterGroups
from .errors import Error
from .items import EvaluationPiece, MicroBatch
from .session import Session, connect


class Optimizer:
    """Takes the place of an optimizer of `torch.optim` in an existing loop:

        session = tributary.connect()
        model = make_model()
        optimizer = tributary.Optimizer(model, session)
        while not optimizer.done:
            for x, y in loader:
                optimizer.zero_grad()
                loss = loss_fn(model(x), y)
                loss.backward()
                optimizer.step(loss=loss)

    Each call of `step` gives the gradients to the servers as one micro-batch of the
    job, waits until the next micro-batch is assigned to this worker, and brings its
    weights into the module. The servers run the optimizer, with the rule and the
    schedule of the job file, when they have all micro-batches of a step. So with one
    worker and `micro_batches: 1`, each call is a step; with more micro-batches, or
    fewer workers, a step takes several calls.

    The promise is looser than that of `DistributedDataParallel`. Each micro-batch
    counts exactly once in its step, whatever fails, and all workers compute a step from
    the same weights. But the loop chooses the samples, so the result depends on the
    number of workers, on their speed and on failures, and is not reproducible; give
    workers different samples, for example by shuffling. A micro-batch that is computed
    again after a failure may have other samples, and `epochs` of the job are only
    a number of steps.

    - All samples of the loop's batch have the same weight. The batch should have
      `session.job.batch // session.job.micro_batches` samples.
    - The gradients are those that the parameters have when `step` is called, so the
      loop may clip them or add up several; to clip the gradient of the whole step, use
      `clip_norm` of the job. They leave when `step` is called, not during backward.
    - After the job's end, `done` is true, and `step` does nothing. A program that ends
      before has failed.
    - Schedulers and gradient scalers of PyTorch cannot be used with it.

    Attributes:
        session: the session.
        done: whether the job has ended.

    Args:
        module: the module; see `DistributedDataParallel`, also for the errors. Create
            it after `connect`, so that all workers begin with the same weights.
            With `all_reduce`, a worker whose initial weights differ from those of
            the first worker ends with an error.
        session: what `connect` has returned; default: `connect()`.
        no_decay, parameter_groups, gpu_memory: as for `DistributedDataParallel`.
        evaluate: computes and reports one `EvaluationPiece`. It is called with the
            module in evaluation mode, and without gradients. Needed only if the job
            evaluates.
        rule: as for `DistributedDataParallel`.
    """

    def __init__(self, module: torch.nn.Module, session: Optional[Session] = None, *,
                 no_decay: NoDecay = (), parameter_groups: ParameterGroups = (),
                 gpu_memory: bool = True,
                 evaluate: Optional[Callable[[EvaluationPiece], None]] = None,
                 rule: Any = None):
        self.session = connect() if session is None else session
        self.session._remedy = 'repeat the loop until the done of Optimizer is true'
        self._module, self._evaluate = module, evaluate
        self._worker = ModuleWorker(module, self.session, no_decay, parameter_groups,
                                    gpu_memory, rule)
        self._batches = self._micro_batches()
        self._batch: Optional[MicroBatch] = None
        self._advance()

    @property
    def done(self) -> bool:
        return self._batch is None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of the module's parameters."""
        self._module.zero_grad(set_to_none)

    def step(self, closure: Optional[Callable[[], torch.Tensor]] = None, *,
             loss: Any = None, count: Optional[int] = None) -> Any:
        """Gives the gradients to the servers, and waits for the next weights.

        Args:
            closure: computes the gradients and returns the loss, as in `torch.optim`.
            loss: the mean loss of the samples, a number or a tensor with one element,
                for the metrics of the job. Without it, they contain 0.
            count: the number of losses in the mean, if it differs from the number of
                samples of a micro-batch; see `MicroBatch.backward`.

        Returns:
            The loss.

        Raises:
            Error: if the job or this worker has failed, and `Stopped` if it was
                stopped.
        """
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._batch is not None:
            self._worker.contribute(self._batch, 0.0 if loss is None else float(loss),
                                    count)
            self._advance()
        return loss

    def _advance(self) -> None:
        self._batch = None  # If there is an error.
        self._batch = next(self._batches, None)
        if self._batch is not None:
            self._worker.load_weights()

    def _micro_batches(self) -> Iterator[MicroBatch]:
        for step in self.session:
            yield from step.micro_batches
            for piece in step.evaluation:
                self._compute(piece)

    def _compute(self, piece: EvaluationPiece) -> None:
        if self._evaluate is None:
            raise Error(f'{piece}: the job evaluates, but the program does not: pass '
                        'evaluate=... to tributary.Optimizer, or leave '
                        'evaluation_samples out of the job')
        self._worker.load_weights()
        with self._worker.evaluation_mode():
            self._evaluate(piece)
