"""The jobs of trials: what the integrations of Optuna and Ray Tune share."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from .errors import Error, JobFailed
from .launch import JobDescription, job_text
from .runs import command_of, parse_line

# How often the metrics of a job are read.
_POLL_SECONDS = 0.05


class TrialJob:
    """The job that trials change, and how its processes are started. Can be pickled, and
    used on another machine.

    Args:
        job: path of the job file, or a dict as for `launch`.
        settings: fields of the job to change for all trials.
        worker_command, workers, servers, arguments: as for `train`.
    """

    def __init__(self, job: JobDescription, settings: Optional[Mapping[str, Any]],
                 worker_command: Union[str, Sequence[str], None], workers: int,
                 servers: int, arguments: Sequence[str]):
        if isinstance(job, Mapping):
            name = str(job.get('name', 'job'))
            self._name, self._text = name + '.json', job_text(job, name)
            self.origin = 'the job'
        else:
            path = os.fspath(job)
            self._name, self.origin = os.path.basename(path), path
            try:
                with open(path, encoding='utf-8') as file:
                    self._text = file.read()
            except OSError as error:
                raise Error(f'cannot read the job file: {error}') from error
        self.workers = workers
        self.arguments = list(arguments)
        self._settings = dict(settings or {})
        self._worker_command = worker_command
        self._servers = servers
        # Paths in jobs and commands are relative to it. Ray starts trials elsewhere.
        self._folder = os.getcwd()

    def start(self, output: str, settings: Mapping[str, Any],
              arguments: Sequence[str] = (), text: Optional[str] = None) -> 'RunningJob':
        """Starts the job in the folder `output`. `text` takes the place of the job file
        and its settings."""
        if text is None:
            settings = {**self._settings, **settings}
        return RunningJob(self, os.path.abspath(output), settings, arguments,
                          self._text if text is None else text)

    def resolve(self, settings: Mapping[str, Any]) -> str:
        """Returns the text of the job with these settings and all defaults."""
        with tempfile.TemporaryDirectory() as folder:
            job = self.start(os.path.join(folder, 'run'), settings, ['--print-config'])
            with job:
                printed = job.read()
                job.wait()
        # Comments and an empty line come first.
        return printed.partition('\n\n')[2]

    def command(self, job: str, output: str, settings: Mapping[str, Any],
                arguments: Sequence[str]) -> list[str]:
        return command_of(job, output, self._worker_command, self.workers, self._servers,
                          settings, ['--quiet', *self.arguments, *arguments])

    def write(self, folder: str, text: str) -> str:
        """Writes a job file with the name of the job's, and returns its path."""
        path = os.path.join(folder, self._name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    @property
    def folder(self) -> Optional[str]:
        """The working folder of the processes; None if this machine does not have it."""
        return self._folder if os.path.isdir(self._folder) else None


class RunningJob:
    """A job in processes of its own. Use it in a `with` statement, which stops it at a
    checkpoint unless it has ended."""

    def __init__(self, job: TrialJob, output: str, settings: Mapping[str, Any],
                 arguments: Sequence[str], text: str):
        self._output, self._job = output, job
        self._error = 'it ended without a message'
        # Removed when the job has ended.
        self._temporary = tempfile.TemporaryDirectory()
        self._path = job.write(self._temporary.name, text)
        self._metrics = os.path.join(output, 'metrics.jsonl')
        resumes = has_flag([*job.arguments, *arguments], '--resume')
        self._earlier = None if resumes else _state_of(self._metrics)
        self._process = subprocess.Popen(
            job.command(self._path, output, settings, arguments), cwd=job.folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding='utf-8',
            errors='replace')
        self._printed: list[str] = []
        self._threads = [threading.Thread(target=read, daemon=True)
                         for read in (self._read_output, self._read_errors)]
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:  # Ctrl-C, before `with` has begun.
            self._process.terminate()
            raise

    def __enter__(self) -> 'RunningJob':
        return self

    def __exit__(self, *_: Any) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._await()
        self._temporary.cleanup()

    def _await(self) -> int:
        code = self._process.wait()
        for thread in self._threads:
            thread.join()
        return code

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            self._printed.append(stream.read())

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                if line.startswith('error: '):
                    error = line[len('error: '):].strip()
                    self._error = error.replace(self._path, self._job.origin)
                elif line.startswith('warning: '):
                    sys.stderr.write(line)

    def evaluations(self) -> Iterator[dict[str, Any]]:
        """Yields the lines of metrics.jsonl about evaluations, each step once, as soon as
        they are written, until the job has ended."""
        metrics = _GrowingFile(self._metrics)
        last = -1
        ended = False
        while not ended:
            # Looked at first, so that no line is missed.
            ended = self._process.poll() is not None
            # The program may still refuse, or replace, the results of an earlier run.
            lines = [] if _state_of(self._metrics) == self._earlier \
                else metrics.read_lines()
            for row in filter(None, map(parse_line, lines)):
                # A job that goes back to a checkpoint evaluates a step again.
                if 'evaluation_loss' in row and row['step'] > last:
                    last = row['step']
                    yield row
            if not ended:
                try:
                    self._process.wait(_POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    pass

    def read(self) -> str:
        """Returns what the program has printed until its end."""
        self._await()
        return self._printed[0]

    def wait(self) -> None:
        """Returns when the job has ended. Raises JobFailed if it has failed."""
        code = self._await()
        if code != 0:
            raise JobFailed(self._error, code)

    def summary(self) -> dict[str, Any]:
        """Waits, and returns the contents of summary.json."""
        self.wait()
        with open(os.path.join(self._output, 'summary.json'), encoding='utf-8') as file:
            return json.load(file)


def has_flag(arguments: Sequence[str], flag: str) -> bool:
    """Returns whether `arguments` have `flag VALUE` or `flag=VALUE`."""
    return any(argument.partition('=')[0] == flag for argument in arguments)


def _state_of(path: str) -> Optional[tuple[int, int, int]]:
    """Returns what changes when a file is written to or replaced; None without it."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class _GrowingFile:
    """Reads what is appended to a file, which may be replaced."""

    def __init__(self, path: str):
        self._path = path
        self._inode, self._offset = -1, 0

    def read_lines(self) -> list[str]:
        """Returns the complete lines that were added since the last call; all lines if
        another file has taken the place of the one before."""
        try:
            with open(self._path, 'rb') as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._inode, self._offset = status.st_ino, 0
                file.seek(self._offset)
                added = file.read()
        except FileNotFoundError:
            return []
        complete = added[:added.rfind(b'\n') + 1]
        self._offset += len(complete)
        return complete.decode(errors='replace').splitlines(keepends=True)


class JobFields:
    """The fields of a resolved job, by path. `text` is what `TrialJob.resolve` returns."""

    def __init__(self, text: str):
        self._values: dict[str, str] = {}
        path: list[str] = []
        for line in text.splitlines():
            name, _, value = line.strip().partition(' ')
            if value == '{':
                path.append(name)
            elif name == '}':
                path.pop()
            elif name.endswith(':'):
                self._values['.'.join([*path, name[:-1]])] = value

    def get(self, path: str, default: str = '') -> str:
        return self._values.get(path, default)

    def has(self, path: str) -> bool:
        """Returns whether a field of the message at `path` is set."""
        return any(field.startswith(path + '.') for field in self._values)

    def number(self, path: str) -> int:
        """Returns an integer; 0 if the field is absent."""
        return int(self.get(path, '0'))


def with_steps(text: str, steps: int) -> str:
    """Returns the text of a resolved job with another number of steps."""
    return re.sub(r'^steps: \d+$', f'steps: {steps}', text, flags=re.MULTILINE)


def metric_of(summary: Mapping[str, Any], metric: str) -> float:
    """Returns a number of summary.json, such as `evaluation.loss`; NaN for one that is
    not finite."""
    value: Any = summary
    for name in metric.split('.'):
        value = value.get(name, _MISSING) if isinstance(value, Mapping) else _MISSING
    if value is None:
        return float('nan')
    if not isinstance(value, (int, float)):
        raise Error(f'the run has no metric {metric}; it has '
                    f"{', '.join(sorted(_numbers(summary)))}")
    return float(value)


_MISSING = object()


def _numbers(values: Mapping[str, Any], prefix: str = '') -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f'{prefix}{name}.')
        elif isinstance(value, (int, float)):
            yield prefix + name
