"""Trains a PyTorch module as a worker of a job."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Union

import numpy as np
import torch
from torch.nn.modules.batchnorm import _NormBase

from . import _native
from .errors import Error
from .items import EvaluationPiece, MicroBatch
from .session import Parameter, Session

# The part of the mean by which servers move parameters of group 'statistics'.
_STATISTICS_RATE = 0.1


class DistributedDataParallel(torch.nn.Module):
    """A module whose weights come from a job's servers, which also run the optimizer.

    Wrap the module after `connect`, which seeds its initial values, and call the
    wrapped module in the loops over `session`:

        session = tributary.connect()
        model = tributary.DistributedDataParallel(Net(), session)
        for step in session:
            for batch in step.micro_batches:
                batch.backward(loss_fn(model(x[batch.indices]), y[batch.indices]))
            for piece in step.evaluation:
                ...

    The first call in a step waits for the step's weights, so prepare the input
    before. While `MicroBatch.backward` runs, each gradient is sent as soon as it is
    final. There is no optimizer in the program: `optimizer` of the job file states
    the rule. Use `tributary.load` for the result, since the module holds only the
    weights of the step that this worker has computed last.

    - Parameters are float32, on one device. Those with `requires_grad=False` do not
      take part and keep their values. Tied parameters count once. A parameter that
      the loss does not reach has a gradient of zeros.
    - Parameters should be registered in the order in which forward uses them, so
      that gradients of the last ones leave first.
    - The running statistics of batch norm are averaged over the micro-batches of a
      step. Other buffers must be equal in every worker; they are not exchanged.
    - In an evaluation, the module is in evaluation mode, and without gradients.

    Args:
        module: the module.
        session: what `connect` has returned.
        no_decay: the parameters without weight decay: '1d' for those with at most
            one dimension (biases, and weights of norms), or parameters of the module.
            Default: all have weight decay, as in torch.optim.

    Raises:
        Error: for a module that cannot be trained, naming the parameter.
    """

    def __init__(self, module: torch.nn.Module, session: Session, *,
                 no_decay: Union[str, Iterable[torch.nn.Parameter]] = ()):
        super().__init__()
        self.module = module
        # Not attributes, because torch.nn.Module would register the tensors again.
        self._worker = _Worker(module, session, no_decay)
        module.register_forward_pre_hook(lambda *_: self._worker.load_weights())

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        if not isinstance(self._worker.session._item, EvaluationPiece):
            return self.module(*arguments, **keywords)
        modes = [(child, child.training) for child in self.module.modules()]
        self.module.eval()
        try:
            with torch.no_grad():
                return self.module(*arguments, **keywords)
        finally:
            for child, training in modes:
                child.training = training


class _Worker:
    """Moves weights and gradients between a module and the native library."""

    def __init__(self, module: torch.nn.Module, session: Session,
                 no_decay: Union[str, Iterable[torch.nn.Parameter]]):
        self.module, self.session = module, session
        self._library = session._library
        if session.parameters:
            raise Error('the session has parameters already; wrap one module, which '
                        'may contain others')
        tensors = _tensors_of(module)
        _check(module, tensors)
        self._names = list(tensors)
        self._tensors = list(tensors.values())
        self._trained = [isinstance(tensor, torch.nn.Parameter)
                         for tensor in self._tensors]
        session.declare([Parameter(name, _initial(tensor), group) for name, tensor, group
                         in zip(tensors, self._tensors, _groups(tensors, no_decay))])
        session._model = self
        self._accumulators = [self._hook(number, tensor) for number, tensor
                              in enumerate(self._tensors) if self._trained[number]]
        self._flat: Optional[torch.Tensor] = None
        self._states = self._current_states()
        self._loaded_step = self._loaded_item = self._batch = None
        self._sent: set[int] = set()

    def _hook(self, number: int, parameter: torch.nn.Parameter):
        """Calls _on_gradient when backward has accumulated the gradient. The node
        lives as long as this object has it."""
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        node.register_hook(lambda *_: self._on_gradient(number))
        return node

    def _current_states(self) -> list[tuple[int, int]]:
        """Returns what changes if the program changes a tensor. Forward may change the
        running statistics, but not replace their memory."""
        return [(tensor._version if trained else 0, tensor.data_ptr())
                for tensor, trained in zip(self._tensors, self._trained)]

    # ---- Weights.

    def load_weights(self) -> None:
        """Brings the weights of the session's item into the module."""
        item = self.session._item
        if item is None or item is self._loaded_item:
            return
        item._open('forward')
        self._loaded_item = item
        evaluates = isinstance(item, EvaluationPiece)
        # Evaluations of different versions of the weights may be one step.
        if item.aborted or (not evaluates and item.step_object is self._loaded_step):
            return
        now = _tensors_of(self.module)
        if any(a is not b for a, b in zip(now.values(), self._tensors)) or \
                len(now) != len(self._tensors):
            raise Error('the module has other parameters than when it was wrapped; '
                        'build it completely before, and do not change it')
        addresses = item._spans.weights
        begin = addresses[0]
        end = addresses[len(self._tensors) - 1] + 4 * self._tensors[-1].numel()
        arena = torch.from_numpy(_native.view(begin, ((end - begin) // 4,), True))
        if self._flat is None:
            self._attach([(address - begin) // 4 for address in addresses], arena)
        with torch.no_grad():
            self._flat.copy_(arena)
        self._loaded_step = item.step_object

    def _attach(self, offsets: list[int], arena: torch.Tensor) -> None:
        """Makes the module's tensors views of one tensor, which is laid out like the
        library's weights, so that one copy loads all."""
        self._flat = torch.empty_like(arena, device=self._tensors[0].device)
        for offset, tensor in zip(offsets, self._tensors):
            tensor.data = self._flat[offset:offset + tensor.numel()].view(tensor.shape)
        self._states = self._current_states()

    # ---- Gradients.

    def _gradient(self, number: int) -> torch.Tensor:
        return torch.from_numpy(self._batch._spans.array(number, True))

    def _send(self, number: int) -> None:
        self._sent.add(number)
        self._library.micro_batch_ready(self._batch._handle, number)

    def _on_gradient(self, number: int) -> None:
        if self._batch is None:
            return
        parameter = self._tensors[number]
        gradient = parameter.grad
        if gradient is None:  # _backward sends zeros.
            return
        parameter.grad = None
        self._gradient(number).copy_(
            gradient.to_dense() if gradient.is_sparse else gradient)
        self._send(number)

    def _send_statistics(self, count: int) -> None:
        """Gives the servers, which subtract a part of the mean, what makes the new
        weight the mean of what the micro-batches have made of it."""
        for number, buffer in enumerate(self._tensors):
            if self._trained[number]:
                continue
            weight = torch.from_numpy(
                _native.view(self._batch._spans.weights[number], buffer.shape, True))
            difference = weight - buffer.detach().cpu()
            self._gradient(number).copy_(difference * (count / _STATISTICS_RATE))
            # Not counted as a change, since backward does not read the values.
            buffer.data.copy_(weight)
            self._send(number)

    def _check_backward(self, batch: MicroBatch, loss: Any, count: Any,
                        reduction: str) -> None:
        def refuse(message: str) -> None:
            raise Error(f'{batch}: {message}')

        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            what = f'has shape {list(loss.shape)}' if isinstance(loss, torch.Tensor) \
                else f'is a {type(loss).__name__}'
            refuse(f'the loss {what}, expected a tensor with one element: the mean of '
                   "the samples' losses, or their sum with reduction='sum'")
        if not loss.requires_grad:
            refuse('the loss does not depend on the parameters; compute it with the '
                   'wrapped module, and without torch.no_grad or detach')
        if reduction not in ('mean', 'sum'):
            refuse(f"reduction is {reduction!r}, expected 'mean' or 'sum'")
        if count is not None and int(count) < 0:
            refuse(f'count is {count}, expected 0 or more')
        if self._loaded_item is not batch:
            refuse('the wrapped module was not called for it')
        for name, before, now in zip(self._names, self._states, self._current_states()):
            if before != now:
                refuse(f'the program has changed parameter {name}; the servers run the '
                       'optimizer of the job, so remove optimizer.step() and other '
                       'changes')

    def _backward(self, batch: MicroBatch, loss: torch.Tensor, count: Optional[int],
                  reduction: str) -> float:
        batch._open('backward')
        self._check_backward(batch, loss, count, reduction)
        if batch.aborted:
            batch.finish(0.0)
            return loss.item()
        samples = len(batch.indices) if count is None else int(count)
        if samples != len(batch.indices):
            batch.set_sample_count(samples)
        scale = samples if reduction == 'mean' else 1
        self._batch, self._sent = batch, set()
        try:
            with torch.no_grad():
                self._send_statistics(samples)
            for tensor in self._tensors:
                tensor.grad = None
            loss.backward(gradient=torch.full_like(loss, scale))
            for number in range(len(self._tensors)):
                if number not in self._sent:
                    self._gradient(number).zero_()
                    self._send(number)
        finally:
            self._batch = None
        value = loss.item()
        batch.finish(value * scale)
        return value


def _tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns the trained parameters and the running statistics by their names in the
    state dict, each once, in the order of their modules."""
    tensors: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for prefix, child in module.named_modules():
        own = [(name, parameter) for name, parameter
               in child.named_parameters(recurse=False) if parameter.requires_grad]
        if isinstance(child, _NormBase) and child.running_mean is not None:
            own += [('running_mean', child.running_mean),
                    ('running_var', child.running_var)]
        for name, tensor in own:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                tensors[f'{prefix}.{name}' if prefix else name] = tensor
    return tensors


def _check(module: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    if not any(isinstance(tensor, torch.nn.Parameter) for tensor in tensors.values()):
        raise Error('the module has no parameter with requires_grad=True')
    device = next(iter(tensors.values())).device
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32:
            raise Error(f'parameter {name} has dtype {tensor.dtype}, expected '
                        'torch.float32; use torch.autocast for another precision')
        if tensor.device != device:
            raise Error(f'parameter {name} is on {tensor.device}, but others are on '
                        f'{device}: a worker has one device')
    for name, child in module.named_modules():
        if isinstance(child, _NormBase) and child.running_mean is not None and \
                child.momentum is None:
            raise Error(f'{name} has momentum=None, an average over all steps, which '
                        'depends on the worker; set a momentum')


def _initial(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().numpy()


def _groups(tensors: dict[str, torch.Tensor],
            no_decay: Union[str, Iterable[torch.nn.Parameter]]) -> list[str]:
    if isinstance(no_decay, str):
        if no_decay != '1d':
            raise Error(f"no_decay is {no_decay!r}, expected '1d' or parameters")
        exempt = {id(t) for t in tensors.values() if t.dim() <= 1}
    else:
        exempt = {id(parameter) for parameter in no_decay}
    return ['statistics' if not isinstance(tensor, torch.nn.Parameter)
            else 'no_decay' if id(tensor) in exempt else 'decay'
            for tensor in tensors.values()]
