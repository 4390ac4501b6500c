"""Random numbers that do not depend on which worker computes a micro-batch."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
from typing import Any, Iterator, Optional

import numpy as np

from .errors import Error


def prepare_torch(threads: int, deterministic: bool) -> None:
    """Sets what decides bits in PyTorch, if the program has imported it."""
    torch = sys.modules.get('torch')
    if torch is None:
        return
    torch.set_num_threads(threads)
    if deterministic:
        # cuBLAS reads it when the first product is computed.
        os.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8')
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False


def seed_generators(seed: int) -> None:
    """Seeds `random`, NumPy's global generator and PyTorch's generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch = sys.modules.get('torch')
    if torch is not None:
        torch.manual_seed(seed % 2**63)


def _states() -> tuple[Any, ...]:
    """Returns what changes when a generator draws a number."""
    kind, keys, *rest = np.random.get_state()
    states = (random.getstate(), kind, keys.tobytes(), *rest)
    torch = sys.modules.get('torch')
    if torch is not None:
        states += (torch.get_rng_state().numpy().tobytes(),)
        if torch.cuda.is_initialized():
            states += tuple(state.numpy().tobytes()
                            for state in torch.cuda.get_rng_state_all())
    return states


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Restores what `prepare_torch` and `seed_generators` change."""
    torch = sys.modules.get('torch')
    own, of_numpy = random.getstate(), np.random.get_state()
    if torch is not None:
        state, threads = torch.get_rng_state(), torch.get_num_threads()
        deterministic = torch.are_deterministic_algorithms_enabled()
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        benchmark = torch.backends.cudnn.benchmark
    try:
        yield
    finally:
        random.setstate(own)
        np.random.set_state(of_numpy)
        if torch is not None:
            torch.set_rng_state(state)
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
            torch.backends.cudnn.benchmark = benchmark


class SharedGenerators:
    """Keeps random numbers apart that the workers of one process draw: `random`, NumPy
    and PyTorch have one generator for all threads.

    Workers create their modules one after another. Then the first micro-batch is
    computed alone. If it draws random numbers, so are all others; otherwise they are
    computed concurrently, and none is allowed to draw a number.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: Optional[int] = None
        self._draws: Optional[bool] = None
        self._drew = False  # Before `reseed`, in the first micro-batch.
        self._unused: tuple[Any, ...] = ()

    def enter(self) -> None:
        """Waits until no other thread uses the generators."""
        self._lock.acquire()
        self._holder = threading.get_ident()

    def leave(self) -> None:
        """Lets others use the generators, if this thread may."""
        if self._holder == threading.get_ident():
            self._holder = None
            self._lock.release()

    @contextlib.contextmanager
    def micro_batch(self, seed: int) -> Iterator[None]:
        """Computes a micro-batch, with seeded generators if it needs them."""
        self.enter()
        alone = self._draws is not False
        try:
            if alone:
                seed_generators(seed)
                before = _states() if self._draws is None else None
            else:
                self.leave()
            yield
            if not alone:
                self._check_unused()
            elif before is not None:
                self._learn(before)
        finally:
            self.leave()

    def reseed(self, seed: int) -> None:
        """Seeds the generators again, in a micro-batch with this seed."""
        if self._holder != threading.get_ident():
            self._check_unused()
            return
        if self._draws is None:
            used = _states()
            seed_generators(seed)
            self._drew = self._drew or _states() != used
        else:
            seed_generators(seed)

    def _learn(self, before: tuple[Any, ...]) -> None:
        self._unused = before
        self._draws = self._drew or _states() != before
        if self._draws:
            print('warning: the workers compute one micro-batch at a time, because the '
                  'program draws random numbers (for example for dropout), for which '
                  'all threads have one generator; use worker_command for workers that '
                  'compute concurrently', file=sys.stderr, flush=True)

    def _check_unused(self) -> None:
        if _states() != self._unused:
            raise Error('the program has drawn random numbers, but not in its first '
                        'micro-batch, so that their values depend on the order of the '
                        'threads; set workers=1, or use worker_command, which starts '
                        'processes')
