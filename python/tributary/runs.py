"""Starting jobs, and reading what they leave in their run folder."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np

from . import _in_process, _native, _process
from .errors import NOT_FOUND, Error, JobFailed

if TYPE_CHECKING:
    import torch

_DTYPES = {'F64': np.float64, 'F32': np.float32, 'F16': np.float16, 'I64': np.int64,
           'I32': np.int32, 'I16': np.int16, 'I8': np.int8, 'U64': np.uint64,
           'U32': np.uint32, 'U16': np.uint16, 'U8': np.uint8, 'BOOL': np.bool_,
           'BF16': np.uint16}


def train(job: Union[str, os.PathLike], output: Union[str, os.PathLike, None] = None, *,
          worker_command: Union[str, Sequence[str], None] = None,
          workers: Optional[int] = None, servers: Optional[int] = None,
          settings: Optional[Mapping[str, Any]] = None,
          arguments: Sequence[str] = (), in_process: bool = False,
          worker: Optional[Callable[[], None]] = None,
          devices: Sequence[str] = (),
          on_step: Optional[Callable[[dict[str, Any]], None]] = None
          ) -> dict[str, Any]:
    """Trains a job on this machine.

    Starts the program `tributary train`, whose progress goes to stderr, or, with
    `in_process`, trains in this process: without child processes and sockets, with
    threads as servers and workers, also in a notebook and under pytest. Returns when
    the job has ended.

    Threads of Python compute concurrently only while they are in code that releases
    the interpreter's lock, as most operations of PyTorch and NumPy do. They have one
    generator of random numbers: if the worker function draws any, for example for
    dropout, the workers compute one micro-batch at a time.

    Args:
        job: path of the job file; with `in_process`, a text with several lines is the
            job itself.
        output: the run folder, which must be new or empty. Default: a new folder in
            `runs`.
        worker_command: starts a worker: a shell command, or its arguments. A path
            that ends in '.py' alone is run with this Python. Default: the workers
            of Tributary, for its own models. Not with `in_process`.
        workers, servers: numbers of processes or threads; default: 2 and 1.
        settings: fields of the job to change, such as {'steps': 100}.
        arguments: further arguments; `tributary train --help` lists them. Not with
            `in_process`.
        in_process: whether to train in this process.
        worker: with `in_process`, what each worker does: a function that does what the
            program of `worker_command` would do, beginning with `tributary.connect()`.
            It is called on a thread for each worker, so it must not change objects
            that others use. Default: as for `worker_command`.
        devices: with `in_process` and without `worker`, the device of each worker,
            such as ['cuda:0', 'cuda:1'].
        on_step: with `in_process`, called on another thread after each step, with
            {'step', 'loss', 'learning_rate', 'samples', 'seconds'}; the loss is NaN if
            it is not known. An exception ends the job.

    Returns:
        The run's summary.json; docs/metrics.md describes it.

    Raises:
        JobFailed: with the error of the job. With `in_process`, the exception of the
            worker function, if one was raised, is its cause. If the program does not
            catch it, Python prints the error without a traceback, and the exit code is
            that of `tributary train`.
    """
    output = os.fspath(output) if output is not None else _new_folder(os.fspath(job))
    if in_process:
        _train_in_process(os.fspath(job), os.fspath(output), worker_command, workers,
                          servers, settings, arguments, worker, devices, on_step)
    elif worker is not None or devices or on_step is not None:
        raise Error('worker, devices and on_step need in_process=True')
    else:
        _train_in_processes(os.fspath(job), os.fspath(output), worker_command, workers,
                            servers, settings, arguments)
    with open(os.path.join(output, 'summary.json'), encoding='utf-8') as file:
        return json.load(file)


def _new_folder(job: str) -> str:
    name = 'job' if '\n' in job else os.path.splitext(os.path.basename(job))[0]
    return os.path.join('runs', f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")


def _train_in_process(job: str, output: str, worker_command: Any, workers: Optional[int],
                      servers: Optional[int], settings: Optional[Mapping[str, Any]],
                      arguments: Sequence[str], worker: Optional[Callable],
                      devices: Sequence[str], on_step: Optional[Callable]) -> None:
    if worker_command is not None or arguments:
        raise Error('worker_command and arguments are for processes: pass a function as '
                    'worker, or leave in_process out')
    if isinstance(devices, str):
        raise Error(f'devices is {devices!r}, expected a list of names')
    if devices and (worker is not None or workers not in (None, len(devices))):
        raise Error('devices names the device of each worker of Tributary: leave out '
                    'worker and workers')
    if os.path.isdir(output) and os.listdir(output):
        raise Error(f'{output} is not empty; choose another output, or remove it')
    _in_process.train(job, output, worker, workers or len(devices) or 2, servers or 1,
                      devices, settings or {}, on_step)


def command_of(job: str, output: str, worker_command: Union[str, Sequence[str], None],
               workers: Optional[int], servers: Optional[int],
               settings: Optional[Mapping[str, Any]],
               arguments: Sequence[str]) -> list[str]:
    """Returns the command `tributary train` with these flags; see `train`."""
    command = [_native.program(), 'train', job, '--output', output]
    if worker_command is not None:
        if not isinstance(worker_command, str):
            worker_command = shlex.join(worker_command)
        elif worker_command.endswith('.py') and os.path.exists(worker_command):
            worker_command = shlex.join([sys.executable, worker_command])
        command += ['--worker-command', worker_command]
    for flag, value in (('--workers', workers), ('--servers', servers)):
        if value is not None and flag not in arguments:
            command += [flag, str(value)]
    for path, value in (settings or {}).items():
        command += ['--set', f'{path}={value}']
    return [*command, *arguments]


def _train_in_processes(job: str, output: str, worker_command: Any,
                        workers: Optional[int], servers: Optional[int],
                        settings: Optional[Mapping[str, Any]],
                        arguments: Sequence[str]) -> None:
    command = command_of(job, output, worker_command, workers, servers, settings, arguments)
    error = 'it ended without a message'
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding='utf-8',
                          errors='replace') as process:
        for line in process.stderr:
            if line.startswith('error: '):
                error = line[len('error: '):].strip()  # Shown with the exception.
            else:
                sys.stderr.write(line)
    if process.returncode != 0:
        _report_uncaught_failures()
        raise JobFailed(error, process.returncode)


@functools.lru_cache(maxsize=None)
def _report_uncaught_failures() -> None:
    _process.report_uncaught_errors(JobFailed, others=False)


def read_metrics(run: Union[str, os.PathLike]) -> dict[str, np.ndarray]:
    """Reads the metrics of a run, also while it is running.

    Args:
        run: the run folder.

    Returns:
        The columns of metrics.jsonl by name ('step', 'loss', 'evaluation_loss', ...):
        float64 arrays with one value for each line, and NaN where a line has none for
        the column. A column that no line has is absent, such as 'loss' if no worker
        reports one.
    """
    path = os.path.join(run, 'metrics.jsonl')
    if not os.path.exists(path):
        raise Error(f'{path} does not exist: {run} is not the folder of a run',
                    NOT_FOUND)
    with open(path, encoding='utf-8') as file:
        rows = [row for row in map(parse_line, file) if row is not None]
    names = dict.fromkeys(name for row in rows for name, value in row.items()
                          if isinstance(value, (int, float)))
    return {name: np.array([row.get(name, np.nan) for row in rows], np.float64)
            for name in names}


def parse_line(line: str) -> Optional[dict[str, Any]]:
    """Returns a line of metrics.jsonl; None if it is not complete."""
    # The last line may be incomplete while the run writes it, and a full disk may
    # have cut a line of an older release.
    if not line.endswith('\n'):
        return None
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def load(run: Union[str, os.PathLike],
         module: Optional['torch.nn.Module'] = None) -> dict[str, Any]:
    """Reads the final weights of a run.

    Args:
        run: the run folder, or a safetensors file.
        module: a module like the one that was trained, into which the weights are
            loaded: the whole state dict, with frozen parameters and buffers.
            Buffers that differed between the workers have the values of one of them,
            usually that with rank 0. What the run does not contain keeps its values.

    Returns:
        The weights by name: tensors of PyTorch if `module` is given, otherwise NumPy
        arrays; bfloat16 as float32.

    Raises:
        Error: if there is no model, if it is damaged, or if it does not fit the module.
    """
    path = os.fspath(run)
    if os.path.isdir(path):
        path = os.path.join(path, 'final', 'model.safetensors')
    if not os.path.exists(path):
        raise Error(f'{path} does not exist: the run has not ended, or {run} is not the '
                    'folder of a run', NOT_FOUND)
    weights = _read_safetensors(path)
    if module is None:
        return weights
    import torch
    state = {name: torch.from_numpy(array) for name, array in weights.items()}
    known = module.state_dict()
    for name, tensor in state.items():
        if name not in known:
            raise Error(f'{path} has a parameter {name}, which the module does not have')
        # A parameter without dimensions is saved with one.
        state[name] = tensor.reshape(known[name].shape) \
            if tensor.numel() == known[name].numel() == 1 else tensor
        if state[name].shape != known[name].shape:
            raise Error(f'parameter {name} has shape {list(tensor.shape)} in {path}, but '
                        f'{list(known[name].shape)} in the module')
    module.load_state_dict(state, strict=False)
    return state


def _read_safetensors(path: str) -> dict[str, np.ndarray]:
    """Reads a file of https://huggingface.co/docs/safetensors."""
    with open(path, 'rb') as file:
        content = file.read()
    try:
        begin = 8 + int.from_bytes(content[:8], 'little')
        header = json.loads(content[8:begin])
        tensors = {}
        spans = []
        for name, entry in header.items():
            if name == '__metadata__':
                continue
            first, last = (begin + offset for offset in entry['data_offsets'])
            spans.append((first, last, name))
            values = np.frombuffer(content[first:last], _DTYPES[entry['dtype']])
            if entry['dtype'] == 'BF16':  # Which NumPy lacks: the upper half of float32.
                values = (values.astype(np.uint32) << 16).view(np.float32)
            tensors[name] = values.reshape(entry['shape']).copy()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Error(f'{path} is not a safetensors file: {error!r}') from error
    expected = header.get('__metadata__', {}).get('tensors_sha256')
    digest = hashlib.sha256()
    for first, last, name in sorted(spans) if expected else ():
        digest.update(name.encode() + b'\0' + content[first:last])
    if expected and digest.hexdigest() != expected:
        raise Error(f'{path}: the tensors do not match their digest; the file is damaged')
    return tensors
