"""Jobs that a Python program describes and starts itself."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from . import _in_process, _process
from .errors import Error, JobFailed
from .session import Session, connect

# Arguments of `tributary train`, as JSON, with which the program was started.
ARGUMENTS = 'TRIBUTARY_LAUNCH_ARGUMENTS'
# One of these is set in a worker: by `tributary train`, or by torchrun.
_WORKER_VARIABLES = ('TRIBUTARY_COORDINATOR', 'MASTER_ADDR')

JobDescription = Union[str, os.PathLike, Mapping[str, Any]]


def job_text(job: Mapping[str, Any], name: str) -> str:
    """Returns a job file, in JSON, for the dict `job` of `launch`."""
    spec = dict(job)
    external = {key: spec.pop(key) for key in ('train_samples', 'evaluation_samples', 'unit')
                if key in spec}
    data = spec.get('data', {})
    if external and isinstance(data, Mapping):
        spec['data'] = {'external': {**external, **data.get('external', {})}}
    if 'micro_batches' in spec or 'batch' in spec:
        batch = spec.get('batch', {})
        spec['batch'] = dict(batch) if isinstance(batch, Mapping) else {'global': batch}
        if 'micro_batches' in spec:
            spec['batch']['micro_batches'] = spec.pop('micro_batches')
    model = {'name': name}
    if 'config' in spec:
        model['config'] = json.dumps(spec.pop('config'))
    spec.setdefault('model', {'external': model})
    spec.setdefault('name', name)
    if 'optimizer' not in spec:
        spec['optimizer'] = {'program': {}}
        spec.setdefault('exchange', {'all_reduce': {}})
    try:
        return json.dumps(spec, indent=1) + '\n'
    except TypeError as error:
        raise Error(f'the job has a value that is no number, text, list or dict: {error}') \
            from error


def launch(main: Callable[[], Any], *, job: JobDescription, workers: Optional[int] = None,
           servers: Optional[int] = None, output: Union[str, os.PathLike, None] = None,
           settings: Optional[Mapping[str, Any]] = None, arguments: Sequence[str] = (),
           in_process: Optional[bool] = None) -> dict[str, Any]:
    """Trains a job on this machine, whose workers call `main`:

        def main():
            model = Net()
            optimizer = tributary.Optimizer(model)
            ...

        if __name__ == '__main__':
            tributary.launch(main, workers=4, job=dict(
                train_samples=60000, batch=256, micro_batches=4, epochs=5,
                optimizer=dict(adamw=dict(learning_rate=1e-3))))

    `python3 train.py` then starts servers and workers, as torchrun starts processes: the
    workers run the same program, with the same arguments, and in them, `launch` calls
    `main` and ends the process. In a notebook, they are threads of this process, and
    `main` must not change objects that others use. `tributary train train.py` starts the
    program with arguments of `tributary train`, such as `--workers 8`, which take
    precedence. Call it once, at the end of the program.

    `launch` has called `connect` before it calls `main`: `tributary.connect()` returns the
    session, and so does `Optimizer.session`.

    Args:
        main: what a worker does.
        job: the job: path of a job file, or a dict with the fields of a job file. A dict
            may have `train_samples`, `evaluation_samples` and `unit` of data.external,
            `batch` as a number of samples, `micro_batches`, and `config`, a dict that
            `Session.job.config` returns. Without `optimizer`, the job has that of the
            program: `rule` of `Optimizer`.
        workers, servers: numbers of processes; default: 2 and 1.
        output: the run folder, which must be new or empty; default: a new folder in
            `runs`.
        settings: fields of the job to change, such as {'steps': 100}.
        arguments: further arguments of `tributary train`.
        in_process: whether to train in this process. Default: in a notebook.

    Returns:
        The run's summary.json; docs/metrics.md describes it. In a worker, `launch` does
        not return.

    Raises:
        JobFailed: with the error of the job; see `train`.
    """
    from .runs import train
    if _in_process.current_worker() is None and \
            any(os.environ.get(name) for name in _WORKER_VARIABLES):
        _work(main)
        sys.stdout.flush()
        raise SystemExit(0)
    command = _own_command()
    if in_process is None:
        in_process = command is None
    if not in_process:
        _process.report_uncaught_errors(others=False)
    name = 'notebook' if command is None else \
        os.path.splitext(os.path.basename(command[1 if len(command) < 3 or
                                                  command[1] != '-m' else 2]))[0]
    more = json.loads(os.environ.get(ARGUMENTS, '[]'))
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(job, Mapping):
            path = os.path.join(folder, f'{name}.json')
            with open(path, 'w', encoding='utf-8') as file:
                file.write(job_text(job, name))
        else:
            path = os.fspath(job)
        keywords: dict[str, Any] = {'workers': workers, 'servers': servers,
                                    'settings': settings}
        if in_process:
            keywords.update(in_process=True, worker=lambda: _work(main))
        elif command is None:
            raise Error('a notebook has no program that workers could run: leave out '
                        'in_process=False')
        else:
            keywords.update(worker_command=command, arguments=[*arguments, *more])
        try:
            return train(path, output, **keywords)
        except JobFailed as error:
            # The user knows of no such file.
            message = str(error)
            if isinstance(job, Mapping) and message.startswith(path + ': '):
                message = 'job' + message[len(path):]
            raise JobFailed(message, error.exit_code) from error.__cause__


def _work(main: Callable[[], Any]) -> None:
    session: Session = connect()
    session._launched = True
    main()
    if session._is_open():
        raise Error('main has returned before the job has ended; ' + session._remedy)


def _own_command() -> Optional[list[str]]:
    """Returns the command that runs this program again; None in a notebook."""
    module = sys.modules.get('__main__')
    spec = getattr(module, '__spec__', None)
    if spec is not None and spec.name:
        name = spec.name[:-len('.__main__')] if spec.name.endswith('.__main__') \
            else spec.name
        return [sys.executable, '-m', name, *sys.argv[1:]]
    path = getattr(module, '__file__', None)
    if path is None:
        return None
    return [sys.executable, os.path.abspath(path), *sys.argv[1:]]
