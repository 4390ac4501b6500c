"""Moves weights and gradients between a PyTorch module and the native library."""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np
import torch
from torch.nn.modules.batchnorm import _NormBase

from . import _device_copies
from ._rule import Rule
from .errors import Error
from .items import EvaluationPiece, MicroBatch
from .session import Parameter, Session

# The part of the mean by which servers move parameters of group 'statistics'.
_STATISTICS_RATE = 0.1

# Buffers of the library whose tensors are kept.
_MOST_BUFFERS = 64

NoDecay = Union[str, Iterable[torch.nn.Parameter]]
ParameterGroups = Sequence[Mapping[str, Any]]


class ModuleWorker:
    """The part of a module in a job. Declares the module's parameters."""

    def __init__(self, module: torch.nn.Module, session: Session, no_decay: NoDecay,
                 parameter_groups: ParameterGroups, gpu_memory: bool,
                 rule: Any = None):
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
        self._copies = _device_copies.copies_for(self._tensors[0].device, session,
                                                 gpu_memory)
        if rule is not None and (no_decay != () or parameter_groups != ()):
            raise Error('no_decay and parameter_groups change the optimizer of the job, '
                        'but the program has a rule of its own; use the parameter '
                        'groups of the rule')
        self._rule = None if rule is None else Rule(rule, self)
        session.declare(_declarations(tensors, no_decay, parameter_groups))
        self._accumulators = [self._hook(number, tensor) for number, tensor
                              in enumerate(self._tensors) if self._trained[number]]
        self._flat: Optional[torch.Tensor] = None
        self._views: dict[int, list[torch.Tensor]] = {}
        self._states = self._current_states()
        self._loaded_item = self._batch = None
        self._loaded_place: Optional[tuple[Any, int]] = None
        self._sent: set[int] = set()
        self._gradients: list[torch.Tensor] = []  # Those of the library.
        session._model = self

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

    def _views_of(self, addresses: Sequence[int]) -> list[torch.Tensor]:
        """Returns tensors over the library's memory at the addresses, one for each
        parameter. The library uses few buffers in turn, so each tensor is made once."""
        views = self._views.get(addresses[0])
        if views is None:
            if len(self._views) >= _MOST_BUFFERS:
                self._views.clear()
            views = [self._copies.view(address, tensor.numel()).view(tensor.shape)
                     for address, tensor in zip(addresses, self._tensors)]
            self._views[addresses[0]] = views
        return views

    # ---- Weights.

    def load_weights(self) -> None:
        """Brings the weights of the session's item into the module."""
        item = self.session._item
        if item is None or item is self._loaded_item:
            return
        item._open('forward')
        self._loaded_item = item
        evaluates = isinstance(item, EvaluationPiece)
        if item.aborted:
            return
        # Evaluations of different versions of the weights may be one step. A step that
        # is computed again, from newer weights, begins with a lower number.
        place = None if evaluates else (item.step_object, item.number)
        last, self._loaded_place = self._loaded_place, place
        if last is not None and place is not None and \
                last[0] is place[0] and last[1] < place[1]:
            return
        now = _tensors_of(self.module)
        if any(a is not b for a, b in zip(now.values(), self._tensors)) or \
                len(now) != len(self._tensors):
            raise Error('the module has other parameters than when it was wrapped; '
                        'build it completely before, and do not change it')
        addresses = item._spans.weights
        begin = addresses[0]
        end = addresses[len(self._tensors) - 1] + 4 * self._tensors[-1].numel()
        arena = self._copies.view(begin, (end - begin) // 4)
        if self._flat is None:
            self._attach([(address - begin) // 4 for address in addresses], arena)
        self._copies.begin(item)
        with torch.no_grad():
            self._copies.load(self._flat, arena)
        # The program may report a result that does not depend on the copy.
        if evaluates:
            self._copies.finish()

    def _attach(self, offsets: list[int], arena: torch.Tensor) -> None:
        """Makes the module's tensors views of one tensor, which is laid out like the
        library's weights, so that one copy loads all."""
        for name, before, now in zip(self._names, self._states, self._current_states()):
            if before[0] != now[0]:
                raise Error(f'the program has changed parameter {name} after it was '
                            'wrapped; load weights before')
        self._flat = torch.empty_like(arena, device=self._tensors[0].device)
        for offset, tensor in zip(offsets, self._tensors):
            tensor.data = self._flat[offset:offset + tensor.numel()].view(tensor.shape)
        self._states = self._current_states()

    @contextlib.contextmanager
    def evaluation_mode(self) -> Iterator[None]:
        """Computes in evaluation mode, and without gradients. Then restores the mode."""
        modes = [(child, child.training) for child in self.module.modules()]
        self.module.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            for child, training in modes:
                child.training = training

    # ---- Gradients.

    def _send(self, number: int, gradient: torch.Tensor) -> None:
        """Sends a gradient, which is on the module's device."""
        if gradient.is_sparse:
            gradient = gradient.to_dense()
        self._sent.add(number)
        handle = self._batch._handle
        self._copies.send(gradient, self._gradients[number],
                          lambda: self._library.micro_batch_ready(handle, number))

    def _on_gradient(self, number: int) -> None:
        if self._batch is None:
            return
        parameter = self._tensors[number]
        gradient = parameter.grad
        if gradient is None:  # _backward sends zeros.
            return
        parameter.grad = None
        self._send(number, gradient)

    def _send_statistics(self, count: int) -> None:
        """Gives the servers, which subtract a part of the mean, what makes the new
        weight the mean of what the micro-batches have made of it."""
        weights = self._views_of(self._batch._spans.weights)
        for number, buffer in enumerate(self._tensors):
            if self._trained[number]:
                continue
            weight = weights[number].to(buffer.device)
            difference = weight - buffer.detach()
            # Not counted as a change, since backward does not read the values.
            buffer.data.copy_(weight)
            self._send(number, difference * (count / _STATISTICS_RATE))

    def contribute(self, batch: MicroBatch, loss: float, count: Optional[int]) -> None:
        """Sends the gradients that the parameters have, of the mean over `count`
        samples, and ends the micro-batch."""
        batch._open('step')
        self.check_unchanged(batch)
        samples = self._state_count(batch, count)
        if not batch.aborted:
            with self._sending(batch), torch.no_grad():
                self._send_statistics(samples)
                for number, tensor in enumerate(self._tensors):
                    if not self._trained[number]:
                        continue
                    if tensor.grad is None:
                        self._send_zeros(number)
                    else:
                        self._send(number, tensor.grad * samples)
        batch.finish(loss * samples)

    @contextlib.contextmanager
    def _sending(self, batch: MicroBatch) -> Iterator[None]:
        """Sends gradients of `batch`. At the end, all of them have been copied. After
        an error, no copy is under way."""
        self._batch, self._sent = batch, set()
        self._gradients = self._views_of(batch._spans.gradients)
        self._copies.begin(batch)
        try:
            yield
            self._copies.finish()
        except BaseException:
            self.end_copies()
            raise
        finally:
            self._batch = None

    def end_copies(self) -> None:
        """Waits for the copies that are under way, after which the library's memory may
        be freed. The device may have failed."""
        try:
            self._copies.cancel()
        except RuntimeError:
            pass  # The device has failed; the program's next use of it says so.

    def _send_zeros(self, number: int) -> None:
        self._send(number, torch.zeros_like(self._tensors[number]))

    def _state_count(self, batch: MicroBatch, count: Optional[int]) -> int:
        if count is None:
            return len(batch.indices)
        if int(count) < 0:
            raise Error(f'{batch}: count is {count}, expected 0 or more')
        if not batch.aborted and int(count) != len(batch.indices):
            batch.set_sample_count(int(count))
        return int(count)

    def check_unchanged(self, when: MicroBatch | str) -> None:
        """Raises if the program has changed a parameter."""
        runs = 'servers run the optimizer of the job' if self._rule is None else \
            'worker calls rule.step() itself'
        for name, before, now in zip(self._names, self._states, self._current_states()):
            if before != now:
                raise Error(f'{when}: the program has changed parameter {name}; the '
                            f'{runs}, so remove optimizer.step() and other changes')

    def weights_replaced(self) -> None:
        """Must be called when the rule has replaced the weights of the module."""
        self._states = self._current_states()
        self._loaded_place = None

    def _check_backward(self, batch: MicroBatch, loss: Any, reduction: str) -> None:
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
        if self._loaded_item is not batch:
            refuse('the wrapped module was not called for it')
        self.check_unchanged(batch)

    def _backward(self, batch: MicroBatch, loss: torch.Tensor, count: Optional[int],
                  reduction: str) -> float:
        batch._open('backward')
        self._check_backward(batch, loss, reduction)
        samples = self._state_count(batch, count)
        if batch.aborted:
            batch.finish(0.0)
            return loss.item()
        scale = samples if reduction == 'mean' else 1
        # While backward runs, the library sends gradients only after `finish` if it
        # copies them itself. So `finish` must not wait for the end of backward.
        loss_value = self._copies.read(loss)
        with self._sending(batch):
            with torch.no_grad():
                self._send_statistics(samples)
            for tensor in self._tensors:
                tensor.grad = None
            loss.backward(gradient=torch.full_like(loss, scale))
            with torch.no_grad():
                for number in range(len(self._tensors)):
                    if number not in self._sent:
                        self._send_zeros(number)
        value = loss_value()
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


def _declarations(tensors: dict[str, torch.Tensor], no_decay: NoDecay,
                  parameter_groups: ParameterGroups) -> list[Parameter]:
    exempt = _exempt(tensors, no_decay)
    factors: dict[int, float] = {}
    for number, group in enumerate(parameter_groups):
        for tensor, factor, decays in _members(number, group, tensors):
            if id(tensor) in factors:
                raise Error(f'parameter_groups[{number}] has a parameter of shape '
                            f'{list(tensor.shape)} that another group has, too')
            factors[id(tensor)] = factor
            if decays is not None:
                (exempt.discard if decays else exempt.add)(id(tensor))
    return [Parameter(name, _initial(tensor),
                      'statistics' if not isinstance(tensor, torch.nn.Parameter)
                      else 'no_decay' if id(tensor) in exempt else 'decay',
                      factors.get(id(tensor), 1.0))
            for name, tensor in tensors.items()]


def _exempt(tensors: dict[str, torch.Tensor], no_decay: NoDecay) -> set[int]:
    """Returns the ids of the tensors without weight decay."""
    if not isinstance(no_decay, str):
        return {id(parameter) for parameter in no_decay}
    if no_decay != '1d':
        raise Error(f"no_decay is {no_decay!r}, expected '1d' or parameters")
    return {id(t) for t in tensors.values() if t.dim() <= 1}


def _members(number: int, group: Mapping[str, Any], tensors: dict[str, torch.Tensor]
             ) -> list[tuple[torch.Tensor, float, Optional[bool]]]:
    """Returns the group's trained parameters, with their factor of the learning rate
    and whether they have weight decay (None: as without the group)."""
    where = f'parameter_groups[{number}]'
    known = ('params', 'learning_rate_factor', 'weight_decay')
    unknown = set(group) - set(known)
    if unknown or 'params' not in group:
        raise Error(f'{where} has the keys {sorted(group)}, expected params, and '
                    'perhaps learning_rate_factor and weight_decay; the job states '
                    'the learning rate itself and other options')
    decays = group.get('weight_decay')
    if decays not in (None, True, False):
        raise Error(f'{where} has the weight_decay {decays!r}, expected True, for that '
                    'of the job, or False')
    parameters = group['params']
    if isinstance(parameters, torch.Tensor):
        parameters = [parameters]
    trained = {id(tensor) for tensor in tensors.values()}
    members = []
    for parameter in parameters:
        if id(parameter) in trained:
            members.append((parameter, float(group.get('learning_rate_factor', 1.0)),
                            decays))
        elif parameter.requires_grad:
            raise Error(f'{where} has a parameter of shape {list(parameter.shape)} that '
                        'is not in the module')
    return members
