"""Moves weights and gradients between a PyTorch module and the native library."""

from __future__ import annotations

import contextlib
import fnmatch
import gc
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np
import torch
from torch.nn.modules.batchnorm import _NormBase

from . import _device_copies, _native, _process
from ._rule import Rule
from ._untrained import Untrained
from .errors import Error
from .items import EvaluationPiece, MicroBatch
from .session import Parameter, Session

# The part of the mean by which servers move parameters of group 'statistics'.
_STATISTICS_RATE = 0.1

# Buffers of the library whose tensors are kept.
_MOST_BUFFERS = 64

NoDecay = Union[str, Iterable[torch.nn.Parameter]]
ParameterGroups = Sequence[Mapping[str, Any]]
Buffers = Mapping[str, str]


class ModuleWorker:
    """The part of a module in a job. Declares the module's parameters."""

    def __init__(self, module: torch.nn.Module, session: Session, no_decay: NoDecay,
                 parameter_groups: ParameterGroups, gpu_memory: bool,
                 buffers: Buffers = {}, rule: Any = None):
        self.module, self.session = module, session
        self._library = session._library
        if session.parameters:
            raise Error('the session has parameters already; wrap one module, which '
                        'may contain others')
        if not isinstance(module, torch.nn.Module):
            raise Error(f'the first argument is a {type(module).__name__}, expected the '
                        'module itself: pass net, not net.parameters(); the job states '
                        'the optimizer')
        self._averaged = _averaged_buffers(module, buffers)
        tensors = _tensors_of(module, self._averaged)
        _check(module, tensors)
        self._local_buffers = _local_buffers(module, tensors, buffers)
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
        parameters = _declarations(module, tensors, no_decay, parameter_groups)
        self._untrained = Untrained(
            module, [name for parameter in parameters
                     for name in (parameter.name, *parameter.aliases)], session)
        session.declare(parameters)
        self._accumulators = [self._hook(number, tensor) for number, tensor
                              in enumerate(self._tensors) if self._trained[number]]
        self._flat: Optional[torch.Tensor] = None
        # Tensors of other types than float32, and their values in _flat.
        self._converted: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._views: dict[int, list[torch.Tensor]] = {}
        self._states = self._current_states()
        self._loaded_item = self._batch = None
        self._loaded_place: Optional[tuple[Any, int]] = None
        self._knows_loss = False  # Whether a loss was checked for a scaler.
        self._sent: set[int] = set()
        self._gradients: list[torch.Tensor] = []  # Those of the library.
        session._library.worker_keep_last_weights(session._open())
        session._model = self

    def tensors(self) -> list[torch.Tensor]:
        """Returns the tensors of the session's parameters."""
        return list(self._tensors)

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
        now = _tensors_of(self.module, self._averaged)
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
            for tensor, values in self._converted:
                tensor.data.copy_(values)
        # The program may report a result that does not depend on the copy.
        if evaluates:
            self._copies.finish()

    def load_last_weights(self) -> None:
        """Brings the weights with which the job has ended into the module."""
        addresses = self.session._spans.weights
        if not self._library.worker_last_weights(self.session._open(), addresses):
            return
        with torch.no_grad():
            for address, tensor in zip(addresses, self._tensors):
                values = _native.view(address, tuple(tensor.shape), writable=True)
                tensor.data.copy_(torch.from_numpy(values))
        self._states = self._current_states()

    def _attach(self, offsets: list[int], arena: torch.Tensor) -> None:
        """Makes the module's tensors views of one tensor, which is laid out like the
        library's weights, so that one copy loads all."""
        for name, before, now in zip(self._names, self._states, self._current_states()):
            if before[0] != now[0]:
                raise Error(f'the program has changed parameter {name} after it was '
                            'wrapped; load weights before')
        self._flat = torch.empty_like(arena, device=self._tensors[0].device)
        for offset, tensor in zip(offsets, self._tensors):
            values = self._flat[offset:offset + tensor.numel()].view(tensor.shape)
            if tensor.dtype == torch.float32:
                tensor.data = values
            else:
                self._converted.append((tensor, values))
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

    def _send(self, number: int, gradient: torch.Tensor, scale: float = 1) -> None:
        """Sends a gradient, which is on the module's device, times `scale`."""
        if gradient.is_sparse:
            gradient = gradient.to_dense()
        gradient = gradient.float()
        self._sent.add(number)
        handle = self._batch._handle
        self._copies.send(gradient, self._gradients[number], scale,
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

    def _warn_of_local_buffers(self) -> None:
        """Says which buffers forward changes in each worker on its own."""
        changed = [name for name, (buffer, version) in self._local_buffers.items()
                   if buffer._version != version]
        self._local_buffers = {}
        if changed and self.session.is_main:
            _process.warn(
                f"forward changes the buffer{'s' if len(changed) > 1 else ''} "
                f"{', '.join(changed)}, of which each worker has its own values: pass "
                f"buffers={{{changed[0]!r}: 'average'}}, or 'local' if this is right")

    def _send_statistics(self, count: int) -> None:
        """Gives the servers, which subtract a part of the mean, what makes the new
        weight the mean of what the micro-batches have made of it."""
        if self._local_buffers:
            self._warn_of_local_buffers()
        weights = self._views_of(self._batch._spans.weights)
        for number, buffer in enumerate(self._tensors):
            if self._trained[number]:
                continue
            weight = weights[number].to(buffer.device)
            difference = weight - buffer.detach().float()
            # Not counted as a change, since backward does not read the values.
            buffer.data.copy_(weight)
            self._send(number, difference * (count / _STATISTICS_RATE))

    def contribute(self, batch: MicroBatch, loss: Optional[float], count: Optional[int],
                   scale: float = 1) -> None:
        """Sends the gradients that the parameters have, times `scale`: that of the mean
        over `count` samples. Ends the micro-batch, whose mean loss is `loss`, or None if
        it is not known."""
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
                        self._send(number, tensor.grad, samples * scale)
                batch._send_row_gradients(samples * scale)
        batch.finish(None if loss is None else loss * samples)

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
        if not self._knows_loss:
            self._knows_loss = True  # The search takes long.
            if _is_scaled(loss):
                refuse('the loss is scaled by a GradScaler, which is not needed: the '
                       'parameters are float32; call batch.backward(loss), and remove '
                       'the scaler')

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
            batch._row_gradients.clear()
            loss.backward(gradient=torch.full_like(loss, scale))
            with torch.no_grad():
                for number in range(len(self._tensors)):
                    if number not in self._sent:
                        self._send_zeros(number)
        value = loss_value()
        batch.finish(value * scale)
        return value


def _declared_as(name: str, buffers: Buffers) -> Optional[str]:
    return next((kind for pattern, kind in buffers.items()
                 if fnmatch.fnmatchcase(name, pattern)), None)


def _averaged_buffers(module: torch.nn.Module, buffers: Buffers) -> frozenset[str]:
    """Returns the names of the buffers that `buffers` declares as averaged."""
    names = dict(module.named_buffers())
    for pattern, kind in buffers.items():
        if kind not in ('average', 'local'):
            raise Error(f"buffers[{pattern!r}] is {kind!r}, expected 'average' or 'local'")
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise Error(f'buffers[{pattern!r}]: the module has no such buffer')
    averaged = [name for name in names if _declared_as(name, buffers) == 'average']
    for name in averaged:
        if not names[name].is_floating_point():
            raise Error(f'buffer {name} has dtype {names[name].dtype}, of which there is no '
                        "average: declare it as 'local'")
    return frozenset(averaged)


def _local_buffers(module: torch.nn.Module, tensors: dict[str, torch.Tensor],
                   buffers: Buffers) -> dict[str, tuple[torch.Tensor, int]]:
    """Returns the buffers about which nothing is declared, and their versions."""
    return {name: (buffer, buffer._version) for name, buffer in module.named_buffers()
            if name not in tensors and _declared_as(name, buffers) is None
            # Batch norm counts calls, which nothing reads with a momentum.
            and not name.endswith('num_batches_tracked')}


def _is_scaled(loss: torch.Tensor) -> bool:
    """Returns whether the loss is what the scaler of mixed precision returns, its
    product with the scaler's scale."""
    scale = getattr(loss.grad_fn, '_saved_other', None)
    if not isinstance(scale, torch.Tensor):
        return False
    kind = getattr(torch.amp, 'GradScaler', torch.cuda.amp.GradScaler)
    # Not isinstance, which other objects may answer with code of their own.
    scales = [getattr(scaler, '_scale', None) for scaler in gc.get_objects()
              if issubclass(type(scaler), kind)]
    return any(isinstance(known, torch.Tensor) and known.data_ptr() == scale.data_ptr()
               for known in scales)


def _tensors_of(module: torch.nn.Module,
                averaged: frozenset[str] = frozenset()) -> dict[str, torch.Tensor]:
    """Returns the trained parameters, the running statistics and the buffers
    `averaged` by their names in the state dict, each once, in the order of their
    modules."""
    tensors: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for prefix, child in module.named_modules():
        own = [(name, parameter) for name, parameter
               in child.named_parameters(recurse=False) if parameter.requires_grad]
        if isinstance(child, _NormBase) and child.running_mean is not None:
            own += [('running_mean', child.running_mean),
                    ('running_var', child.running_var)]
        if averaged:
            own += [(name, buffer) for name, buffer
                    in child.named_buffers(recurse=False)
                    if (f'{prefix}.{name}' if prefix else name) in averaged]
        for name, tensor in own:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                tensors[f'{prefix}.{name}' if prefix else name] = tensor
    return tensors


def _aliases_of(module: torch.nn.Module, tensors: dict[str, torch.Tensor]
                ) -> dict[str, tuple[str, ...]]:
    """Returns the further names that the state dict has for the tensors."""
    names: dict[int, list[str]] = {id(tensor): [] for tensor in tensors.values()}
    for prefix, child in module.named_modules(remove_duplicate=False):
        # named_parameters would leave out a name if the module has the tensor twice.
        own = {**child._parameters, **child._buffers}
        for name, tensor in own.items():
            if id(tensor) in names:
                names[id(tensor)].append(f'{prefix}.{name}' if prefix else name)
    return {name: tuple(alias for alias in names[id(tensor)] if alias != name)
            for name, tensor in tensors.items()}


def _check(module: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    if not any(isinstance(tensor, torch.nn.Parameter) for tensor in tensors.values()):
        raise Error('the module has no parameter with requires_grad=True')
    device = next(iter(tensors.values())).device
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise Error(f'parameter {name} has dtype {tensor.dtype}, expected a '
                        'floating-point type')
        if tensor.device != device:
            raise Error(f'parameter {name} is on {tensor.device}, but others are on '
                        f'{device}: a worker has one device')
    for name, child in module.named_modules():
        if isinstance(child, _NormBase) and child.running_mean is not None and \
                child.momentum is None:
            raise Error(f'{name} has momentum=None, an average over all steps, which '
                        'depends on the worker; set a momentum')


def _initial(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().float().contiguous().numpy()


def _declarations(module: torch.nn.Module, tensors: dict[str, torch.Tensor],
                  no_decay: NoDecay, parameter_groups: ParameterGroups
                  ) -> list[Parameter]:
    aliases = _aliases_of(module, tensors)
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
                      factors.get(id(tensor), 1.0), aliases[name])
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
