"""Copies between a GPU and the native library's memory, through pinned memory."""

from __future__ import annotations

import collections
import warnings
from typing import Any, Callable, Optional, Protocol

import torch


class Backend(Protocol):
    """What `DeviceCopies` needs of CUDA. Streams and events are those of PyTorch."""

    def allocate(self, count: int) -> torch.Tensor:
        """Returns `count` floats of pinned host memory."""

    def new_stream(self, device: torch.device) -> Any: ...

    def current_stream(self, device: torch.device) -> Any: ...

    def copy(self, stream: Any, to: torch.Tensor, source: torch.Tensor) -> Any:
        """Queues a copy on the stream. Returns an event, which follows the copy. The
        memory of `source`, if it is on the device, is not reused before that."""

    def order(self, stream: Any, after: Any) -> None:
        """Makes later work of `stream` wait for the present work of `after`."""


class CudaBackend:

    def allocate(self, count: int) -> torch.Tensor:
        try:
            return torch.empty(count, pin_memory=True)
        except RuntimeError as error:
            warnings.warn(f'cannot pin {4 * count} bytes of memory, so copies between '
                          f'the host and the GPU are slower: {error}')
            return torch.empty(count)

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

    The copies go through pinned memory of their own, because the library's memory
    moves from step to step. Copies of gradients run on a stream of their own, while
    the device computes the other gradients. Use one thread at a time.
    """

    def __init__(self, device: torch.device, count: int, backend: Backend):
        """`count`: floats from the first to behind the last parameter."""
        self._device, self._backend = device, backend
        self._weights = backend.allocate(count)
        self._gradients = backend.allocate(count)
        self._stream = backend.new_stream(device)
        self._loaded: Optional[Any] = None
        # Event, what it has copied, where that belongs, and what to call then.
        self._copying: collections.deque[
            tuple[Any, torch.Tensor, torch.Tensor, Callable[[], None]]] = \
            collections.deque()

    def load(self, to: torch.Tensor, weights: torch.Tensor) -> None:
        """Copies the library's weights. Later work of the current stream sees them.
        The library may reuse its memory afterwards."""
        if self._loaded is not None:
            self._loaded.synchronize()  # The previous copy reads self._weights.
        self._weights.copy_(weights)
        self._loaded = self._backend.copy(self._backend.current_stream(self._device),
                                          to, self._weights)

    def send(self, gradient: torch.Tensor, offset: int, to: torch.Tensor,
             done: Callable[[], None]) -> None:
        """Starts to copy a gradient, which the current stream computes, to the
        library's memory `to`; `offset` is its place among all parameters. Calls
        `done` when the copy is complete: in a later call of `send` or in `finish`."""
        staged = self._gradients[offset:offset + to.numel()].view(to.shape)
        self._backend.order(self._stream, self._backend.current_stream(self._device))
        event = self._backend.copy(self._stream, staged, gradient)
        self._copying.append((event, staged, to, done))
        while self._copying and self._copying[0][0].query():
            self._hand_over()

    def finish(self) -> None:
        """Waits for all copies of gradients."""
        while self._copying:
            self._copying[0][0].synchronize()
            self._hand_over()

    def cancel(self) -> None:
        """Forgets the gradients that were not handed over."""
        self._copying.clear()

    def _hand_over(self) -> None:
        _, staged, to, done = self._copying.popleft()
        to.copy_(staged)
        done()


def device_copies(device: torch.device, count: int) -> Optional[DeviceCopies]:
    """Returns the copies for a GPU, or None for a device whose tensors the library's
    memory is copied to and from directly."""
    return DeviceCopies(device, count, CudaBackend()) if device.type == 'cuda' else None
