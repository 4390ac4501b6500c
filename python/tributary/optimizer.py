"""Lets an existing training loop take part in a job."""

from __future__ import annotations

import functools
import math
import threading
from typing import Any, Callable, Iterator, Optional

import torch

from . import _schedulers
from ._module import Buffers, ModuleWorker, NoDecay, ParameterGroups
from ._rule_rates import RuleRates
from .errors import Error
from .items import EvaluationPiece, MicroBatch
from .session import Session, connect

# The optimizer of the loop of each thread: `optimizer`.
_thread = threading.local()


class Optimizer(torch.optim.Optimizer):
    """Takes the place of an optimizer of `torch.optim` in an existing loop:

        session = tributary.connect()
        model = make_model()
        optimizer = tributary.Optimizer(model, session)
        loader = session.loader(DataLoader(dataset, batch_size=32, shuffle=True))
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss = loss_fn(model(x), y)
                loss.backward()
                optimizer.step()

    Each call of `step` gives the gradients that the parameters have to the servers, as
    one micro-batch of the job, waits until the next micro-batch is assigned to this
    worker, and brings its weights into the module. The servers run the optimizer, with
    the rule of the job file, when they have all micro-batches of a step. So with as many
    workers as micro-batches, each call is a step; with fewer workers, a step takes
    several calls. After the last step, the module has the job's last weights.

    With `session.loader`, the samples of a step, and therefore the weights, have the
    same bits for any number of workers, also if workers are killed. A loop that chooses
    its samples itself keeps that each micro-batch counts exactly once in its step, and
    that all workers compute a step from the same weights, but its result depends on the
    number of workers.

    It is a `torch.optim.Optimizer`:

    - `param_groups` have the learning rate `lr`: that of the job, times the factor of
      the group. Schedulers of `torch.optim.lr_scheduler`, or the program, may change it,
      for all groups in proportion; each step uses the rate that its workers have. A
      scheduler that is stepped after each `step` counts the steps of the job, also in a
      worker that joins later. The job must then have no `schedule` of its own. Other
      options are those of the job.
    - `state` is empty: the servers have it. With `rule`, `param_groups` and `state` are
      those of the rule.
    - `GradScaler` works, if the job has `on_nonfinite: SKIP`.
    - Gradients may be added up over several calls of `backward`, clipped or changed
      before `step`. `clip_norm` of the job clips the gradient of the whole step.

    After the job's end, `done` is true, and `step` does nothing. A program that ends
    before has failed.

    Attributes:
        session: the session.
        done: whether the job has ended.

    Args:
        module: the module; see `DistributedDataParallel`, also for the errors. Create
            it after `connect`, so that all workers begin with the same weights.
            With `all_reduce`, a worker whose initial weights differ from those of
            the first worker ends with an error.
        session: what `connect` has returned; default: `connect()`.
        no_decay, parameter_groups, gpu_memory, buffers: as for
            `DistributedDataParallel`.
        evaluate: computes and reports one `EvaluationPiece`. It is called with the
            module in evaluation mode, and without gradients. Needed if the job
            evaluates.
        rule: as for `DistributedDataParallel`.
    """

    # GradScaler then leaves it to `step` to unscale the gradients.
    _step_supports_amp_scaling = True

    def __init__(self, module: torch.nn.Module, session: Optional[Session] = None, *,
                 no_decay: NoDecay = (), parameter_groups: ParameterGroups = (),
                 gpu_memory: bool = True, buffers: Buffers = {},
                 evaluate: Optional[Callable[[EvaluationPiece], None]] = None,
                 rule: Any = None):
        self._rule: Optional[torch.optim.Optimizer] = None
        self._own: dict[str, Any] = {}
        self.session = connect() if session is None else session
        if self.session.job.evaluates and evaluate is None:
            raise Error('the job evaluates, but the program does not: pass evaluate=... '
                        'to tributary.Optimizer, or set evaluation { disabled: true } '
                        'in the job')
        self.session._remedy = ('repeat the loop until the attribute done of the Optimizer '
                                'is true')
        self._module, self._evaluate = module, evaluate
        self._worker = ModuleWorker(module, self.session, no_decay, parameter_groups,
                                    gpu_memory, buffers, rule)
        super().__init__(*_groups(self._worker, self.session))
        self._scheduler_steps = _schedulers.SchedulerSteps()
        self._use(rule[0] if isinstance(rule, (tuple, list)) else rule)
        self._options = [_options_of(group) for group in self.param_groups]
        self._rates = _StatedRates(self) if self._rule is None else \
            RuleRates(self, self._scheduler_steps)
        if isinstance(self._rates, RuleRates):
            self._worker._rule.rates = self._rates
        # What backward was called for, and the factor of each, if it is a product.
        self._losses: list[tuple[torch.Tensor, Any]] = []
        self._opt_called = True  # Schedulers count the steps of the job.
        _thread.optimizer = self
        _record_losses()
        self._batches = self._micro_batches()
        self._batch: Optional[MicroBatch] = None
        self.session._loop = self
        self._advance()

    def _use(self, rule: Any) -> None:
        """Shows the groups and the state of the program's own optimizer."""
        if isinstance(rule, torch.optim.Optimizer):
            self._rule, self.defaults = rule, rule.defaults
            rule._scheduler_steps = self._scheduler_steps

    # Properties, because load_state_dict of the rule replaces its objects.
    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self._own['param_groups'] if self._rule is None else self._rule.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self._own['param_groups'] = groups

    @property
    def state(self) -> dict[Any, Any]:
        return self._own['state'] if self._rule is None else self._rule.state

    @state.setter
    def state(self, state: dict[Any, Any]) -> None:
        self._own['state'] = state

    @property
    def done(self) -> bool:
        return self._batch is None

    @property
    def next_step(self) -> int:
        """Number of the job's step, from 0, to which `step` gives its next micro-batch;
        after the job's end, the number of its steps. Loops over steps read their
        position here, since it also holds in a worker that joins later."""
        if self._batch is not None:
            return self._batch.step
        return self._scheduler_steps.next or self.session.job.steps

    def step(self, closure: Optional[Callable[[], torch.Tensor]] = None, *,
             loss: Any = None, count: Optional[int] = None, **scaled: Any) -> Any:
        """Gives the gradients to the servers, and waits for the next weights.

        Args:
            closure: computes the gradients and returns the loss, as in `torch.optim`.
            loss: the mean loss of the samples, a number or a tensor with one element,
                for the metrics of the job. Default: the sum of what `backward` was
                called for since the last `step`.
            count: the number of losses in the mean, if it differs from the number of
                samples of the micro-batch; see `MicroBatch.backward`.

        Returns:
            The loss that was passed or that `closure` has returned.

        Raises:
            Error: if the job or this worker has failed, and `Stopped` if it was
                stopped.
        """
        scaler = scaled.pop('grad_scaler', None)
        if scaled:
            raise TypeError(f'step() got an unexpected argument {next(iter(scaled))!r}')
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        losses, self._losses = self._losses, []
        if self._batch is None:
            return loss
        scale = self._gradient_scale(scaler)
        value = float(loss) if loss is not None else \
            self._sum_of(losses, scaler) if losses else None
        batch = self._batch
        if not batch._row_gradients and \
                all(tensor.grad is None for tensor in self._worker.tensors()):
            raise Error(f'{batch}: no parameter has a gradient: call backward of the loss '
                        'before step')
        self._scheduler_steps.before(batch)
        self._rates.state(batch)
        self._worker.contribute(batch, value, count, scale)
        self._advance()
        self._scheduler_steps.after(batch, self._batch)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        if self._batch is not None:
            self._batch._row_gradients.clear()

    # PyTorch's schedulers then do not wrap step, to see whether it was called.
    step._wrapped_by_lr_sched = True

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if self._rule is not None:
            self._rule.load_state_dict(state_dict)
            return
        groups = state_dict['param_groups']
        if len(groups) != len(self.param_groups):
            raise ValueError(f'the state has {len(groups)} parameter groups, expected '
                             f'{len(self.param_groups)}')
        # Those of the program's optimizer may be the same objects.
        for group, saved in zip(self.param_groups, groups):
            group.update({name: value for name, value in saved.items() if name != 'params'})

    def _gradient_scale(self, scaler: Any) -> float:
        """Returns by what the gradients must be multiplied."""
        found = getattr(self, 'found_inf', None)
        grad_scale = getattr(self, 'grad_scale', None)
        if scaler is not None:  # Of PyTorch before 2.0.
            found = sum(scaler._check_inf_per_device(self).values())
            grad_scale = scaler._get_scale_async()
        if found is not None and float(found) > 0 and \
                self.session.job.spec.get('on_nonfinite') != 'SKIP':
            raise Error('GradScaler has found a gradient that is not finite: set '
                        'on_nonfinite: SKIP in the job, so that all workers skip the '
                        'step')
        return 1.0 if grad_scale is None else 1.0 / float(grad_scale)

    def _sum_of(self, losses: list[tuple[torch.Tensor, Any]], scaler: Any) -> float:
        """Returns the sum of what `backward` was called for, without the scale of a
        GradScaler, which has multiplied each by it."""
        if scaler is None and not hasattr(self, 'found_inf'):
            return float(sum(loss for loss, _ in losses))
        return sum(float(loss) / (1.0 if scale is None else float(scale))
                   for loss, scale in losses)

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
            raise Error(f'{piece}: pass evaluate=... to tributary.Optimizer')
        self._worker.load_weights()
        with self._worker.evaluation_mode():
            self._evaluate(piece)


class _StatedRates:
    """The learning rates of the steps, which are those of `param_groups`."""

    def __init__(self, optimizer: Optimizer):
        self._optimizer = optimizer
        self._initial = [float(group['lr']) for group in optimizer.param_groups]
        spec = optimizer.session.job.spec
        schedule = spec.get('schedule', {})
        # Why the program has no rate of its own.
        self._fixed = ''
        self._states = 'program' not in spec['optimizer']
        if schedule.get('decay', 'CONSTANT') != 'CONSTANT' or \
                int(schedule.get('warmup_steps', 0)):
            self._fixed = 'the job has a schedule: remove one of them'
        elif 'local_steps' in spec.get('exchange', {}).get(
                'parameter_server', {}).get('consistency', {}):
            self._fixed = 'in mode local_steps, the job has the only schedule'
        # Of the steps that this worker has computed: a step that is computed again,
        # because a server was lost, has the same rate.
        self._stated: dict[int, float] = {}

    def state(self, batch: MicroBatch) -> None:
        """States the rate of the micro-batch's step."""
        if not self._states:
            return  # The rule of the program has rates of its own.
        rate = self._stated.get(batch.step)
        if rate is None:
            if self._optimizer._scheduler_steps.unknown(batch):
                return  # The other workers know.
            rate = self._current()
            if rate is None:
                return
            self._stated[batch.step] = rate
            self._stated.pop(batch.step - 100000, None)
        batch.set_learning_rate(rate)

    def _current(self) -> Optional[float]:
        groups, options = self._optimizer.param_groups, self._optimizer._options
        rates = [float(group['lr']) for group in groups]
        for group, before in zip(groups, options):
            if _options_of(group) != before:
                raise Error('the program has changed options of param_groups other than '
                            'lr, which are those of the job')
        if self._fixed and rates == self._initial:
            return None
        if self._fixed:
            raise Error(f'the program changes the learning rate, but {self._fixed}')
        ratio = rates[0] / self._initial[0]
        if any(not math.isclose(rate, ratio * initial, rel_tol=1e-6, abs_tol=1e-30)
               for rate, initial in zip(rates, self._initial)):
            raise Error('the learning rates of param_groups have not changed in '
                        'proportion; servers have one schedule for all groups')
        return ratio * _rate_of(self._optimizer.session)


def _options_of(group: dict[str, Any]) -> Any:
    """Returns what a program must not change."""
    return group.get('weight_decay')


def _rule_of(session: Session) -> dict[str, Any]:
    """Returns the options of the job's optimizer."""
    return next((options for options in session.job.spec['optimizer'].values()
                 if isinstance(options, dict)), {})


def _rate_of(session: Session) -> float:
    return float(_rule_of(session).get('learning_rate', 0.0))


def _groups(worker: ModuleWorker, session: Session
            ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns groups of parameters that have the same options, and the defaults. The
    group with the job's own learning rate is the first."""
    rate, decay = _rate_of(session), float(_rule_of(session).get('weight_decay', 0.0))
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}
    for parameter, tensor in zip(session.parameters, worker.tensors()):
        if parameter.group != 'statistics':
            key = (parameter.learning_rate_factor, parameter.group == 'decay')
            groups.setdefault(key, []).append(tensor)
    ordered = sorted(groups.items(), key=lambda item: item[0][0] != 1)
    return ([{'params': tensors, 'lr': rate * factor, 'weight_decay': decay if decays
              else 0.0} for (factor, decays), tensors in ordered],
            {'lr': rate, 'weight_decay': decay})


@functools.lru_cache(maxsize=None)
def _record_losses() -> None:
    """Makes `backward` tell the loop's optimizer of the loss, for the metrics."""
    original = torch.Tensor.backward

    @functools.wraps(original)
    def backward(self: torch.Tensor, *arguments: Any, **keywords: Any) -> None:
        optimizer = getattr(_thread, 'optimizer', None)
        if optimizer is not None and self.numel() == 1 and not optimizer.done:
            optimizer._losses.append(
                (self.detach(), getattr(self.grad_fn, '_saved_other', None)))
        original(self, *arguments, **keywords)

    torch.Tensor.backward = backward
