"""Applies the program's own update rule, such as an optimizer of `torch.optim`."""

from __future__ import annotations

import collections
import contextlib
import copy
import ctypes
import json
import os
import threading
import traceback
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence

import numpy as np
import torch

from . import _native, _random
from .alternating import Alternating
from .errors import UNKNOWN, Error

if TYPE_CHECKING:
    from ._module import ModuleWorker
    from ._rule_rates import RuleRates

# The functions of the library that may wait until the rule has been applied.
_WAITS = ('worker_next_step', 'step_next_micro_batch', 'step_next_piece',
          'micro_batch_spans')

# Most arrays that a job may have for the state of its rule.
_MOST_STATE_ARRAYS = 16
# The state of a rule begins with it, and is never only zeros.
_MAGIC = b'tribrule'
_ALIGNMENT = 16


class Turn:
    """Lets either the program or the rule, which the library calls on a thread of its
    own, use the module. It is the program's turn except while it waits in the library.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._programs = False
        self._take()

    def _take(self) -> None:
        self._lock.acquire()
        self._programs = True

    def give(self) -> None:
        """Ends the program's turn."""
        if self._programs:
            self._programs = False
            self._lock.release()

    def rules(self) -> threading.Lock:
        """Returns a context in which it is the rule's turn."""
        return self._lock

    def library(self, library: _native.Library) -> _native.Library:
        """Returns a library whose waits give the turn to the rule."""
        library = copy.copy(library)
        for name in _WAITS:
            setattr(library, name, self._waiting(getattr(library, name)))
        return library

    def _waiting(self, function: Callable) -> Callable:
        def call(*arguments: Any) -> Any:
            self.give()
            try:
                return function(*arguments)
            finally:
                self._take()
        return call


class Rule:
    """A rule and the module of `worker`.

    `rule` is an optimizer of `torch.optim`, an object with the same methods `step`,
    `state_dict` and `load_state_dict`, an `Alternating`, or a sequence of an optimizer
    and its schedulers, whose `step` is called in this order.
    """

    def __init__(self, rule: Any, worker: 'ModuleWorker'):
        self._parts = list(rule) if isinstance(rule, (tuple, list)) else [rule]
        self._names = [f'{type(part).__name__}.state_dict()' for part in self._parts]
        self._worker, self._session = worker, worker.session
        self._check()
        self._initial = copy.deepcopy(self._states())
        self._is_initial, self._proven = True, False
        self._capacity = 0
        self._views: dict[tuple, list[Optional[torch.Tensor]]] = {}
        # The rates of a program that steps its schedulers itself, if it has a loop.
        self.rates: Optional['RuleRates'] = None
        self._turn = Turn()
        self._session._library = self._turn.library(self._session._library)
        self._session._give_turn = self._turn.give
        # Kept, because the library calls them.
        self._struct = _native.RuleStruct(
            self._callback(_native.RULE_STATE_CALLBACK, self._load),
            self._callback(_native.RULE_APPLY_CALLBACK, self._apply),
            self._callback(_native.RULE_STATE_CALLBACK, self._save), None)
        error = _native.ErrorStruct()
        if self._session._library.worker_set_rule(
                self._session._open(), ctypes.byref(self._struct), ctypes.byref(error)):
            raise _native.error_of(error)

    def _check(self) -> None:
        for part in self._parts:
            for method in ('step', 'state_dict', 'load_state_dict'):
                if not callable(getattr(part, method, None)):
                    raise Error(f'rule is a {type(part).__name__} without the method '
                                f'{method}; pass an optimizer of torch.optim, or an '
                                'object with step, state_dict and load_state_dict')
        known = {id(tensor) for tensor in self._worker._tensors}
        optimizers = [optimizer for part in self._parts for optimizer in
                      (part.optimizers if isinstance(part, Alternating) else [part])]
        for group in (group for optimizer in optimizers
                      for group in getattr(optimizer, 'param_groups', [])):
            for parameter in group['params']:
                if parameter.requires_grad and id(parameter) not in known:
                    raise Error(f'rule has a parameter of shape {list(parameter.shape)} '
                                'that is not in the module; create the optimizer with '
                                'the parameters of the module')

    def _callback(self, kind: Callable, function: Callable[..., None]) -> Any:
        def call(_: None, *arguments: Any) -> None:
            *values, error = arguments
            try:
                with self._turn.rules():
                    self._session._open()
                    function(*values)
            except BaseException as raised:
                error.contents.code, message = _describe(raised)
                error.contents.message = message.encode()[:2040]
        return kind(call)

    # ---- The state.

    def _states(self) -> list[Any]:
        states = [part.state_dict() for part in self._parts]
        # Functions of schedulers, such as that of OneCycleLR, come from their creation.
        return states[:1] + [{key: value for key, value in state.items()
                              if not callable(value)} for state in states[1:]]

    def _restore(self, states: Sequence[Any]) -> None:
        for part, state in zip(self._parts, states):
            part.load_state_dict(state)

    def _load(self, address: int, size: int) -> None:
        self._capacity = size
        state = (ctypes.c_char * size).from_address(address) if size else b''
        states: Sequence[Any] = ()
        if bytes(state[:len(_MAGIC)]).strip(b'\0'):
            states = _unpack(state)
            self._is_initial = False
            self._restore(states)
        elif not self._is_initial:
            self._restore(copy.deepcopy(self._initial))
        if self.rates is not None:
            self.rates.load(states[len(self._parts):])

    def _packed(self) -> tuple[bytes, list[tuple[int, torch.Tensor]], int]:
        states, names = self._states(), self._names
        if self.rates is not None:
            states, names = [*states, self.rates.save()], [*names, 'the schedulers']
        head, tensors, size = _pack(states, names)
        if size > self._capacity:
            array = 4 * sum(tensor.numel() for tensor in self._worker._tensors)
            arrays = -(-size // array)
            remedy = f'set it to {arrays}' if arrays <= _MOST_STATE_ARRAYS else (
                'the model is too small for it, and needs an optimizer of the job, such as '
                'adamw, in place of the rule')
            raise Error(f'the state of the rule has {size} bytes, but '
                        f'optimizer.program.state_arrays of the job has room for '
                        f'{self._capacity}; {remedy}')
        return head, tensors, size

    def _save(self, address: int, size: int) -> None:
        self._write(address, *self._packed()[:2])

    def _write(self, address: int, head: bytes,
               tensors: list[tuple[int, torch.Tensor]]) -> None:
        ctypes.memmove(address, head, len(head))
        for offset, tensor in tensors:
            data = _bytes_of(tensor)
            ctypes.memmove(address + offset, data.data_ptr(), data.numel())

    def _prove(self) -> None:
        """Checks that the state can be restored, now and not after a loss."""
        head, tensors, size = self._packed()
        state = (ctypes.c_char * size)()
        self._write(ctypes.addressof(state), head, tensors)
        before = self._leaves()
        self._restore(_unpack(state))
        after = self._leaves()
        for path in {**before, **after}:
            if before.get(path) != after.get(path):
                raise Error(f'load_state_dict does not restore {path} of the rule: a '
                            'worker that joins, or that resumes from a checkpoint, would '
                            'compute something else')

    def _leaves(self) -> dict[str, Any]:
        return {path: leaf for name, state in zip(self._names, self._states())
                for path, leaf in _leaves(state, name)}

    # ---- A step.

    def _views_of(self, addresses: Any) -> list[Optional[torch.Tensor]]:
        """Returns tensors over the library's memory. It uses few arenas in turn."""
        tensors = self._worker._tensors
        key = tuple(addresses[:len(tensors)])
        if key not in self._views:
            if len(self._views) >= 8:
                self._views.clear()
            self._views[key] = [
                None if address is None else
                torch.from_numpy(_native.view(address, tuple(tensor.shape), True))
                for address, tensor in zip(key, tensors)]
        return self._views[key]

    def _apply(self, update: Any) -> None:
        update, worker = update.contents, self._worker
        worker.check_unchanged(f'step {update.step}')
        gradients = self._views_of(update.gradients)
        new_weights = self._views_of(update.new_weights)
        tensors = worker._tensors
        kept = [tensor.grad for tensor in tensors]
        self._is_initial = False
        with torch.no_grad(), _device_of(tensors[0]), self._random_numbers(update.step):
            try:
                for tensor, weights, gradient in zip(
                        tensors, self._views_of(update.weights), gradients):
                    if gradient is not None:
                        tensor.data.copy_(weights)
                        tensor.grad = gradient.to(tensor.device)
                with contextlib.nullcontext() if self.rates is None else \
                        self.rates.of_step(update.step):
                    for part in self._parts:
                        if isinstance(part, Alternating):
                            part.step(update.step)
                        else:
                            part.step()
            finally:
                for tensor, gradient in zip(tensors, kept):
                    tensor.grad = gradient
            for tensor, weights, gradient in zip(tensors, new_weights, gradients):
                if gradient is None:
                    tensor.data.copy_(weights)
                else:
                    weights.copy_(tensor)
            if not self._proven:
                self._prove()
                self._proven = True
        worker.weights_replaced()

    @contextlib.contextmanager
    def _random_numbers(self, step: int) -> Iterator[None]:
        """Makes the numbers that the rule draws the same in every worker. In threads,
        which share the generators, it must not draw any."""
        if self._session._thread is not None and self._session._thread.generators:
            yield
            return
        job = self._session.job
        with _random.preserved():
            _random.seed_generators(job.random_seed(step, job.micro_batches))
            yield


@contextlib.contextmanager
def _device_of(tensor: torch.Tensor) -> Iterator[None]:
    """Orders work after that of the program's streams on the module's GPU, and before
    their later work."""
    if not tensor.is_cuda:
        yield
        return
    with torch.cuda.device(tensor.device):
        torch.cuda.synchronize()
        yield
        torch.cuda.synchronize()


def _describe(error: BaseException) -> tuple[int, str]:
    """Returns the code and the message of a rule's failure."""
    if isinstance(error, Error):
        return error.code, ' '.join(str(error).splitlines())
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = ' '.join(f'{type(error).__name__}: {error}'.splitlines())
    return UNKNOWN, (f'the rule has failed: {text} '
                     f'({os.path.basename(last.filename)}:{last.lineno})')


# ---- The format of a state. It comes over the network, so it is JSON and the bytes of
# tensors, which run no code: the magic, the size of the JSON (8 bytes), the JSON, and
# the tensors, each at a multiple of _ALIGNMENT.

_ATOMS = (type(None), bool, int, float, str)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _pack(states: Sequence[Any], names: Sequence[str]
          ) -> tuple[bytes, list[tuple[int, torch.Tensor]], int]:
    """Returns the beginning of the packed states, their tensors with their offsets, and
    their size. Errors name a state by its name."""
    tensors: list[torch.Tensor] = []
    text = json.dumps(['list', [_encode(state, name, tensors)
                                for state, name in zip(states, names)]]).encode()
    head = _MAGIC + len(text).to_bytes(8, 'little') + text
    at, places = len(head), []
    for tensor in tensors:
        at = _aligned(at)
        places.append((at, tensor))
        at += tensor.numel() * tensor.element_size()
    return head, places, at


def _encode(value: Any, path: str, tensors: list[torch.Tensor]) -> Any:
    if type(value) in _ATOMS:
        return value
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        tensors.append(value)
        return ['tensor', str(value.dtype).split('.')[-1], list(value.shape)]
    if isinstance(value, dict):
        kind = 'counter' if isinstance(value, collections.Counter) else 'dict'
        return [kind, [[_encode(key, path, tensors),
                        _encode(item, f'{path}[{key!r}]', tensors)]
                       for key, item in value.items()]]
    if isinstance(value, (list, tuple)):
        kind = 'list' if isinstance(value, list) else 'tuple'
        return [kind, [_encode(item, f'{path}[{number}]', tensors)
                       for number, item in enumerate(value)]]
    raise Error(f'{path} of the rule is of type {type(value).__name__}, which cannot be '
                'saved; use None, bool, int, float, str, tensors, and lists, tuples and '
                'dicts of them')


def _unpack(state: Any) -> Any:
    """Returns what was packed into the bytes `state`. They may be damaged or forged."""
    view = memoryview(np.frombuffer(state, np.uint8))
    try:
        if bytes(view[:len(_MAGIC)]) != _MAGIC:
            raise ValueError('it does not begin as expected')
        begin = len(_MAGIC) + 8
        end = begin + int.from_bytes(view[len(_MAGIC):begin], 'little')
        if end > len(view):
            raise ValueError('it is truncated')
        return _Decoder(view, end).decode(json.loads(bytes(view[begin:end])))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError,
            RuntimeError) as error:
        raise Error('the saved state of the rule cannot be read: '
                    f'{type(error).__name__}: {error}') from error


class _Decoder:

    def __init__(self, view: memoryview, begin: int):
        self._view, self._at = view, begin

    def decode(self, value: Any) -> Any:
        if type(value) in _ATOMS:
            return value
        kind, *content = value
        if kind == 'tensor':
            return self._tensor(*content)
        items = [self.decode(item) for item in content[0]] if kind in ('list', 'tuple') \
            else [(self.decode(key), self.decode(item)) for key, item in content[0]]
        return {'list': list, 'tuple': tuple, 'dict': dict,
                'counter': lambda pairs: collections.Counter(dict(pairs))}[kind](items)

    def _tensor(self, name: str, shape: list[int]) -> torch.Tensor:
        dtype = getattr(torch, name)
        if not isinstance(dtype, torch.dtype) or any(length < 0 for length in shape):
            raise ValueError(f'{name} {shape} is no tensor')
        count = 1
        for length in shape:
            count *= length
        size = count * torch.empty((), dtype=dtype).element_size()
        begin = _aligned(self._at)
        self._at = begin + size
        if self._at > len(self._view):
            raise ValueError('it is truncated')
        # A copy, which is aligned and does not share the library's memory.
        data = torch.frombuffer(bytearray(self._view[begin:self._at] or b'\0'),
                                dtype=torch.uint8)[:size]
        return data.view(dtype).reshape(shape)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yields what a state consists of, with its place."""
    if isinstance(value, torch.Tensor):
        yield path, (value.dtype, tuple(value.shape), _bytes_of(value).numpy().tobytes())
    elif isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _leaves(item, f'{path}[{key!r}]')
    else:
        yield path, repr(value)
