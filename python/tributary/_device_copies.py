"""Copies between a module and the native library's memory."""

from __future__ import annotations

import collections
import contextlib
from typing import Any, Callable, Optional, Protocol

import torch

from . import _native
from .errors import Error
from .items import EvaluationPiece, MicroBatch
from .session import Session


class Backend(Protocol):
    """What `DeviceCopies` needs of CUDA. Streams and events are those of PyTorch."""

    def new_stream(self, device: torch.device) -> Any: ...

    def current_stream(self, device: torch.device) -> Any: ...

    def copy(self, stream: Any, to: torch.Tensor, source: torch.Tensor) -> Any:
        """Queues a copy on the stream. Returns an event, which follows the copy. The
        memory of `source`, if it is on the device, is not reused before that."""

    def order(self, stream: Any, after: Any) -> None:
        """Makes later work of `stream` wait for the present work of `after`."""

    def library_stream(self, address: int, device: torch.device) -> Any:
        """Returns the native library's stream at this address."""

    def view(self, address: int, size: int, device: torch.device) -> torch.Tensor:
        """Returns a tensor over float32 memory of the device."""


class CudaBackend:

    def new_stream(self, device: torch.device) -> torch.cuda.Stream:
        return torch.cuda.Stream(device)

    def current_stream(self, device: torch.device) -> torch.cuda.Stream:
        return torch.cuda.current_stream(device)

    def copy(self, stream: torch.cuda.Stream, to: torch.Tensor,
             source: torch.Tensor) -> torch.cuda.Event:
        is_current = stream == torch.cuda.current_stream(stream.device)
        with torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)
            if source.is_cuda and not is_current:
                source.record_stream(stream)
            return stream.record_event()

    def order(self, stream: torch.cuda.Stream, after: torch.cuda.Stream) -> None:
        stream.wait_stream(after)

    def library_stream(self, address: int, device: torch.device) -> torch.cuda.Stream:
        return torch.cuda.ExternalStream(address, device)

    def view(self, address: int, size: int, device: torch.device) -> torch.Tensor:
        return torch.as_tensor(_native.GpuArray(address, (size,)), device=device)


def _copy_scaled(gradient: torch.Tensor, to: torch.Tensor, scale: float) -> None:
    if scale == 1:
        to.copy_(gradient)
    else:
        torch.mul(gradient, scale, out=to)


class HostCopies:
    """Copies the weights to a module on the CPU, and gradients from it. The classes
    below have the same methods for a module on a GPU. Use one thread at a time."""

    def begin(self, item: MicroBatch | EvaluationPiece) -> None:
        """Must be called before the other methods are used for an item."""

    def view(self, address: int, size: int) -> torch.Tensor:
        """Returns a tensor over float32 memory of the library."""
        return torch.from_numpy(_native.view(address, (size,), True))

    def load(self, to: torch.Tensor, weights: torch.Tensor) -> None:
        """Starts to copy the library's weights to the module. Later work of the current
        stream sees them. The library may reuse its memory after `finish` or
        `cancel`."""
        to.copy_(weights)

    def send(self, gradient: torch.Tensor, to: torch.Tensor, scale: float,
             done: Callable[[], None]) -> None:
        """Starts to copy a gradient, which the current stream computes, times `scale`
        to the library's memory `to`. Calls `done` when the library may read it: now, in
        a later call of `send`, or in `finish`."""
        _copy_scaled(gradient, to, scale)
        done()

    def read(self, loss: torch.Tensor) -> Callable[[], float]:
        """Returns a function that waits until a loss is known, but not for later work of
        the current stream, and returns it."""
        return loss.item

    def finish(self) -> None:
        """Waits for all copies that the library does not wait for itself."""

    def cancel(self) -> None:
        """Like `finish`, without calling `done` for the gradients."""


class _CudaCopies(HostCopies):
    """What the copies of a module on a GPU have in common."""

    def __init__(self, device: torch.device, backend: Backend):
        self._device, self._backend = device, backend
        self._loaded: Optional[Any] = None  # The event of the last copy of weights.

    def load(self, to: torch.Tensor, weights: torch.Tensor) -> None:
        self._loaded = self._backend.copy(self._backend.current_stream(self._device),
                                          to, weights)

    def read(self, loss: torch.Tensor) -> Callable[[], float]:
        if loss.device != self._device:
            return loss.item
        value = torch.empty_like(loss, device='cpu', pin_memory=loss.is_cuda)
        copied = self._backend.copy(self._backend.current_stream(self._device), value,
                                    loss.detach())

        def await_value() -> float:
            copied.synchronize()
            return value.item()
        return await_value

    def finish(self) -> None:
        if self._loaded is not None:
            self._loaded.synchronize()
            self._loaded = None

    def cancel(self) -> None:
        self.finish()


class GpuCopies(_CudaCopies):
    """Copies within the memory of a GPU, where the library has its weights and
    gradients (`Session.use_gpu`). The library's stream waits for the copies."""

    def __init__(self, device: torch.device, backend: Backend):
        super().__init__(device, backend)
        # The stream that uses the gradients; None during an evaluation.
        self._library_stream: Optional[Any] = None

    def begin(self, item: MicroBatch | EvaluationPiece) -> None:
        address = getattr(item, 'gpu_stream', None)
        self._library_stream = None
        if address is not None:
            self._library_stream = self._backend.library_stream(address, self._device)
            # The library may be loading weights.
            self._backend.order(self._backend.current_stream(self._device),
                                self._library_stream)

    def view(self, address: int, size: int) -> torch.Tensor:
        return self._backend.view(address, size, self._device)

    def load(self, to: torch.Tensor, weights: torch.Tensor) -> None:
        super().load(to, weights)
        if self._library_stream is not None:
            self._backend.order(self._library_stream,
                                self._backend.current_stream(self._device))

    def send(self, gradient: torch.Tensor, to: torch.Tensor, scale: float,
             done: Callable[[], None]) -> None:
        _copy_scaled(gradient, to, scale)
        self._backend.order(self._library_stream,
                            self._backend.current_stream(self._device))
        done()


class PinnedCopies(_CudaCopies):
    """Copies between a GPU and the library's host memory.

    The memory should be pinned (`Session.pin_for_gpu`); otherwise copies block. Copies
    of gradients run on a stream of their own, while the GPU computes the other
    gradients.
    """

    def __init__(self, device: torch.device, backend: Backend):
        super().__init__(device, backend)
        self._stream = backend.new_stream(device)
        # Event of a gradient's copy, and what to call then.
        self._copying: collections.deque[tuple[Any, Callable[[], None]]] = \
            collections.deque()

    def send(self, gradient: torch.Tensor, to: torch.Tensor, scale: float,
             done: Callable[[], None]) -> None:
        if scale != 1:
            gradient = gradient * scale
        self._backend.order(self._stream, self._backend.current_stream(self._device))
        self._copying.append((self._backend.copy(self._stream, to, gradient), done))
        while self._copying and self._copying[0][0].query():
            self._copying.popleft()[1]()

    def finish(self) -> None:
        while self._copying:
            event, done = self._copying.popleft()
            event.synchronize()
            done()
        super().finish()

    def cancel(self) -> None:
        while self._copying:
            self._copying.popleft()[0].synchronize()
        super().finish()


def copies_for(device: torch.device, session: Session, gpu_memory: bool) -> HostCopies:
    """Returns the copies for a module on `device`. Call it before the module's
    parameters are declared. `gpu_memory` permits `Session.use_gpu`."""
    if session._on_gpu and not (device.type == 'cuda' and gpu_memory):
        raise Error('session.use_gpu was called, but '
                    + ('gpu_memory is False' if device.type == 'cuda'
                       else 'the module is on the CPU'))
    if device.type != 'cuda':
        return HostCopies()
    backend = CudaBackend()
    # After an error, the worker has logged a warning, which `tributary train` shows.
    with contextlib.suppress(Error):
        if gpu_memory:
            session.use_gpu(device.index)
            return GpuCopies(device, backend)
    with contextlib.suppress(Error):
        session.pin_for_gpu(device.index)
    return PinnedCopies(device, backend)
