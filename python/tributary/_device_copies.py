"""Copies between a GPU and the native library's memory."""

from __future__ import annotations

import collections
from typing import Any, Callable, Optional, Protocol

import torch


class Backend(Protocol):
    """What `DeviceCopies` needs of CUDA. Streams and events are those of PyTorch."""

    def new_stream(self, device: torch.device) -> Any: ...

    def current_stream(self, device: torch.device) -> Any: ...

    def copy(self, stream: Any, to: torch.Tensor, source: torch.Tensor) -> Any:
        """Queues a copy on the stream. Returns an event, which follows the copy. The
        memory of `source`, if it is on the device, is not reused before that."""

    def order(self, stream: Any, after: Any) -> None:
        """Makes later work of `stream` wait for the present work of `after`."""


class CudaBackend:

    def new_stream(self, device: torch.device) -> torch.cuda.Stream:
        return torch.cuda.Stream(device)

    def current_stream(self, device: torch.device) -> torch.cuda.Stream:
        return torch.cuda.current_stream(device)

    def copy(self, stream: torch.cuda.Stream, to: torch.Tensor,
             source: torch.Tensor) -> torch.cuda.Event:
        with torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)
            if source.is_cuda:
                source.record_stream(stream)
            return stream.record_event()

    def order(self, stream: torch.cuda.Stream, after: torch.cuda.Stream) -> None:
        stream.wait_stream(after)


class DeviceCopies:
    """Copies the weights to a device and gradients from it.

    The library's memory should be pinned (`Session.pin_for_gpu`); otherwise copies
    block. Copies of gradients run on a stream of their own, while the device computes
    the other gradients. Use one thread at a time.
    """

    def __init__(self, device: torch.device, backend: Backend):
        self._device, self._backend = device, backend
        self._stream = backend.new_stream(device)
        self._loaded: Optional[Any] = None  # The event of the last copy of weights.
        # Event of a gradient's copy, and what to call then.
        self._copying: collections.deque[tuple[Any, Callable[[], None]]] = \
            collections.deque()

    def load(self, to: torch.Tensor, weights: torch.Tensor) -> None:
        """Starts to copy the library's weights. Later work of the current stream sees
        them. The library may reuse its memory after `finish` or `cancel`."""
        self._loaded = self._backend.copy(self._backend.current_stream(self._device),
                                          to, weights)

    def send(self, gradient: torch.Tensor, to: torch.Tensor,
             done: Callable[[], None]) -> None:
        """Starts to copy a gradient, which the current stream computes, to the
        library's memory `to`. Calls `done` when the copy is complete: in a later call
        of `send` or in `finish`."""
        self._backend.order(self._stream, self._backend.current_stream(self._device))
        self._copying.append((self._backend.copy(self._stream, to, gradient), done))
        while self._copying and self._copying[0][0].query():
            self._copying.popleft()[1]()

    def finish(self) -> None:
        """Waits for all copies."""
        while self._copying:
            event, done = self._copying.popleft()
            event.synchronize()
            done()
        self._await_weights()

    def cancel(self) -> None:
        """Waits for all copies, without calling `done` for the gradients."""
        while self._copying:
            self._copying.popleft()[0].synchronize()
        self._await_weights()

    def _await_weights(self) -> None:
        if self._loaded is not None:
            self._loaded.synchronize()
            self._loaded = None


def device_copies(device: torch.device) -> Optional[DeviceCopies]:
    """Returns the copies for a GPU, or None for a device whose tensors the library's
    memory is copied to and from directly."""
    return DeviceCopies(device, CudaBackend()) if device.type == 'cuda' else None
