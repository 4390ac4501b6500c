"""What `connect` sets up in the process: signals, and how it ends."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import threading
import traceback
from typing import Callable

from .errors import INVALID_USAGE, Error


def _print_error(message: str) -> None:
    """Prints the line that `tributary train` looks for."""
    print('error: ' + ' '.join(message.splitlines()), file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Prints a warning, which `tributary train` shows on its terminal, too."""
    line = ' '.join(message.splitlines())
    print('warning: ' + line, file=sys.stderr, flush=True)
    with contextlib.suppress(KeyError, ValueError, OSError):
        os.write(int(os.environ['TRIBUTARY_WARNING_FD']), (line + '\n').encode())


def keep_freed_memory() -> None:
    """Makes malloc keep what is freed, unless the environment says otherwise. PyTorch frees
    and allocates the same large tensors in each step. Returning their pages to the kernel in
    between means mapping and clearing them again, which costs up to a third of a small
    model's step."""
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc.
    if any(name.startswith('MALLOC_') for name in os.environ) or 'GLIBC_TUNABLES' in os.environ:
        return
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(mmap_threshold, 32 << 20)  # The largest value that glibc accepts.
        mallopt(trim_threshold, (1 << 31) - 1)


def report_uncaught_errors(of: type = Error, others: bool = True) -> None:
    """Makes an uncaught error of type `of` end with one line, without a traceback, and
    with its exit code, and, with `others`, other exceptions with a line for the job's
    user, too."""
    previous = sys.excepthook
    if getattr(previous, 'reports', None) == (of, others):
        return

    def hook(kind, error, trace) -> None:
        if isinstance(error, of):
            if error.exit_code != 0:
                _print_error(str(error))
            else:
                print(error, file=sys.stderr)
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(error.exit_code)
        previous(kind, error, trace)
        if others and issubclass(kind, Exception):
            last = traceback.extract_tb(trace)[-1] if trace else None
            where = f' ({os.path.basename(last.filename)}:{last.lineno})' if last else ''
            _print_error(f'the program has failed: {kind.__name__}: {error}{where}')

    hook.reports = (of, others)
    sys.excepthook = hook


def report_early_end(is_open: Callable[[], bool], remedy: Callable[[], str]) -> None:
    """Makes a program fail that ends without an exception while `is_open`. Its job
    would wait for another worker. The error says what to do, `remedy`."""

    def check() -> None:
        # Python sets it before it calls sys.excepthook, which the program may replace.
        if hasattr(sys, 'last_type') or not is_open():
            return
        _print_error(f'the program has ended before the job; {remedy()}')
        sys.stdout.flush()
        os._exit(INVALID_USAGE)

    atexit.register(check)


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Calls `stop` on another thread when SIGINT or SIGTERM arrives, also while the
    main thread waits in the native library. SIGTERM then does not end the process by
    itself. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    terminates = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if terminates:
        signal.signal(signal.SIGTERM, lambda *_: None)

    def watch() -> None:
        while True:
            if set(os.read(reader, 64)) & {signal.SIGINT, signal.SIGTERM}:
                stop()

    def forget() -> None:
        # A child, such as a worker of DataLoader, would stop its parent.
        signal.set_wakeup_fd(-1)
        if terminates:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    os.register_at_fork(after_in_child=forget)
    threading.Thread(target=watch, name='tributary signals', daemon=True).start()
