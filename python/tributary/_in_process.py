"""A whole job in this process, whose workers are threads."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import traceback
from _thread import start_new_thread
from typing import Any, Callable, Mapping, Optional, Sequence

from . import _native, _random
from .errors import CANCELLED, UNKNOWN, Error, JobFailed

# Threads of `train` that call a worker function have a `worker`.
_thread = threading.local()


class WorkerThread:
    """What `connect` finds on the thread of a worker.

    Attributes:
        handle: the worker of the native library.
        generators: of the job's workers.
        session: that of `connect`, if it was called.
    """

    def __init__(self, handle: int, generators: Optional[_random.SharedGenerators]):
        self.handle, self.generators = handle, generators
        self.session = None

    def close(self) -> None:
        """Ends the thread's part in the job."""
        if self.session is not None:
            self.session.close()
        if self.generators is not None:
            self.generators.leave()


def current_worker() -> Optional[WorkerThread]:
    return getattr(_thread, 'worker', None)


def _options(job: str, output: str, servers: int, workers: int,
             devices: Sequence[str], settings: Mapping[str, Any]
             ) -> _native.RunOptionsStruct:
    def texts(values: Sequence[str]):
        return (ctypes.c_char_p * len(values))(*(value.encode() for value in values))

    sets = [f'{path}={value}' for path, value in settings.items()]
    options = _native.RunOptionsStruct()
    setattr(options, 'text' if '\n' in job else 'file', job.encode())
    options.set, options.set_count = texts(sets), len(sets)
    options.output_directory = output.encode()
    options.servers, options.workers = servers, workers
    options.devices, options.device_count = texts(devices), len(devices)
    return options


class _Run:
    """One job. Its callbacks run on threads of the native library."""

    def __init__(self, options: _native.RunOptionsStruct, worker: Optional[Callable],
                 on_step: Optional[Callable[[Any], None]]):
        self._library = _native.library()
        self._worker = worker
        self._on_step = on_step
        self._generators = _random.SharedGenerators() \
            if worker is not None and options.workers > 1 else None
        self._lock = threading.Lock()
        self._workers: list[WorkerThread] = []
        # The first exceptions of the worker function and of on_step.
        self._cause: Optional[BaseException] = None
        self._stopped_by: Optional[BaseException] = None
        self._error = _native.ErrorStruct()
        # The callbacks, and what the options point to, must live as long as the job.
        self._options = options
        options.on_message = _native.MESSAGE_CALLBACK(self._show)
        if worker is not None:
            options.worker = _native.WORKER_CALLBACK(self._compute)
        if on_step is not None:
            options.on_step = _native.STEP_CALLBACK(self._step)
        self._handle = self._library.run_create(ctypes.byref(options))

    def train(self) -> None:
        # On another thread, because Ctrl-C can end only waits of Python itself. After
        # an interrupted Thread.join, Python takes the thread for ended, and an
        # interrupted Thread.start leaves open whether the thread has begun.
        first: dict[str, str] = {}
        ended = threading.Event()
        interrupt: Optional[BaseException] = None
        # A further Ctrl-C waits, too: the job is freed when it has ended.
        while True:
            try:
                if interrupt is None:
                    start_new_thread(self._train, (first, ended))
                elif first.setdefault('is', 'interrupt') == 'interrupt':
                    break
                else:
                    self._library.run_stop(self._handle)
                ended.wait()
                break
            except BaseException as raised:
                interrupt = interrupt or raised
        self._library.run_free(self._handle)
        if interrupt is not None:
            raise interrupt
        if self._stopped_by is not None:
            raise self._stopped_by
        error = self._error
        if error.code:
            failure = _native.error_of(error)
            raise JobFailed(str(failure), failure.exit_code) from self._cause

    def _train(self, first: dict[str, str], ended: threading.Event) -> None:
        # After an interrupt that came first, the job may be freed already.
        if first.setdefault('is', 'job') == 'job':
            self._library.run_train(self._handle, ctypes.byref(self._error))
            ended.set()

    def _show(self, _: None, text: bytes) -> None:
        print(text.decode(errors='replace'), file=sys.stderr, flush=True)

    def _step(self, _: None, metrics: Any) -> None:
        try:
            self._on_step({name: getattr(metrics.contents, name)
                           for name, _ in metrics.contents._fields_})
        except BaseException as error:
            if self._stopped_by is None:
                self._stopped_by = error
            self._library.run_stop(self._handle)

    def _compute(self, _: None, handle: int, error: Any) -> None:
        worker = _thread.worker = WorkerThread(handle, self._generators)
        try:
            self._worker()
            if worker.session is None:
                raise Error('the worker function has returned without calling '
                            'tributary.connect()')
            if worker.session._is_open():
                raise Error('the worker function has returned before the job has ended; '
                            + worker.session._remedy)
        except BaseException as raised:
            code, message = _describe(raised)
            error.contents.code = code
            error.contents.message = message.encode()[:2040]
            if code != CANCELLED:
                with self._lock:
                    self._cause = self._cause or raised
        finally:
            worker.close()
            # The library may still call the rule of its session.
            self._workers.append(worker)
            del _thread.worker


def _describe(error: BaseException) -> tuple[int, str]:
    """Returns the code and the message of a worker's failure."""
    if isinstance(error, Error):
        # An error without a code would look like success.
        return error.code or UNKNOWN, ' '.join(str(error).splitlines())
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f'{os.path.basename(last.filename)}:{last.lineno}'
    text = ' '.join(f'{type(error).__name__}: {error}'.splitlines())
    return UNKNOWN, f'the worker function has failed: {text} ({where})'


def train(job: str, output: str, worker: Optional[Callable], workers: int, servers: int,
          devices: Sequence[str], settings: Mapping[str, Any],
          on_step: Optional[Callable[[Any], None]]) -> None:
    """See `tributary.train`."""
    options = _options(job, output, servers, workers, devices, settings)
    with _random.preserved():
        _Run(options, worker, on_step).train()
