"""Trials of Optuna, each of which trains a job:

    def space(trial):
        return {'optimizer.adamw.learning_rate':
                    trial.suggest_float('learning_rate', 1e-4, 1e-1, log=True)}

    study = optuna.create_study(pruner=optuna.pruners.MedianPruner())
    study.optimize(tributary.optuna.objective('job.textproto', space), n_trials=20)

`tributary tune` runs Optuna's samplers, too, with results that do not depend on the speed
of trials; `objective` is for studies that a program controls itself."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import optuna

from ._trials import TrialJob, metric_of
from .errors import Error, JobFailed
from .launch import JobDescription

Space = Union[Callable[[optuna.trial.BaseTrial], Mapping[str, Any]],
              Mapping[str, optuna.distributions.BaseDistribution]]


def objective(job: JobDescription, space: Space, *,
              metric: Union[str, Sequence[str]] = 'evaluation.loss',
              output: Union[str, os.PathLike, None] = None,
              settings: Optional[Mapping[str, Any]] = None,
              worker_command: Union[str, Sequence[str], None] = None, workers: int = 1,
              servers: int = 1, arguments: Sequence[str] = ()
              ) -> Callable[[optuna.trial.BaseTrial], Any]:
    """Returns an objective for `study.optimize`, which trains the job with the values of
    the trial, in processes on this machine.

    If `metric` is a result of evaluations, each evaluation is reported to the trial, and
    the trial is pruned if its pruner says so: the job stops at a checkpoint, and
    `tributary train --resume` can continue it. With `n_jobs`, give the trials their share
    of the cores: `arguments=['--threads', '1']`.

    The attributes of the trial are `run`, its run folder, and `weights_sha256`, the digest
    of its weights or, of a trial that has failed, `failure`, the reason.

    Args:
        job: path of the job file, or a dict as for `launch`.
        space: returns the fields of the job to change, from the values that it asks the
            trial for; or distributions of Optuna, by the paths of fields.
        metric: what is optimized: a number of summary.json, such as evaluation.accuracy,
            final_loss or parameters. Several for a study with several directions, whose
            trials are not pruned.
        output: the folder for run folders, which are named by the numbers of trials.
            Default: runs/NAME with the name of the study.
        settings: fields of the job to change for all trials.
        worker_command, workers, servers: as for `train`.
        arguments: further arguments of `tributary train`.

    Raises, when it is called with a trial:
        optuna.TrialPruned: the pruner has stopped the trial.
        JobFailed: the job has failed, also if the values are not valid for it. As with all
            exceptions, Optuna then records a failed trial and ends `optimize`, unless it
            has `catch=(tributary.JobFailed,)`.
    """
    jobs = TrialJob(job, settings, worker_command, workers, servers, arguments)
    metrics = [metric] if isinstance(metric, str) else list(metric)
    reported = _evaluation_field(metrics[0]) if len(metrics) == 1 else None

    def run(trial: optuna.trial.BaseTrial) -> Any:
        values = space(trial) if callable(space) else _suggest(trial, space)
        folder = os.path.join(_folder_of(trial, output), f'{trial.number:05d}')
        trial.set_user_attr('run', folder)
        try:
            with jobs.start(folder, values) as running:
                for row in running.evaluations():
                    value = row.get(reported) if reported is not None else None
                    if value is None:
                        continue
                    trial.report(value, row['step'])
                    if trial.should_prune():
                        raise optuna.TrialPruned(
                            f"pruned after step {row['step']}, with {metrics[0]} {value:g}")
                summary = running.summary()
            results = [metric_of(summary, name) for name in metrics]
        except (Error, JobFailed) as error:
            trial.set_user_attr('failure', str(error))
            raise
        trial.set_user_attr('weights_sha256', summary.get('weights_sha256', ''))
        return results[0] if isinstance(metric, str) else results

    return run


def _evaluation_field(metric: str) -> Optional[str]:
    """Returns the name, in metrics.jsonl, of a result of evaluations."""
    kind, _, name = metric.partition('.')
    return f'evaluation_{name}' if kind == 'evaluation' else None


def _folder_of(trial: optuna.trial.BaseTrial,
               output: Union[str, os.PathLike, None]) -> str:
    if output is not None:
        return os.fspath(output)
    study = getattr(trial, 'study', None)  # Of trials that are no FixedTrial.
    return os.path.join('runs', 'optuna' if study is None else study.study_name)


def _suggest(trial: optuna.trial.BaseTrial,
             space: Mapping[str, optuna.distributions.BaseDistribution]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, kind in space.items():
        if isinstance(kind, optuna.distributions.FloatDistribution):
            values[name] = trial.suggest_float(name, kind.low, kind.high, step=kind.step,
                                               log=kind.log)
        elif isinstance(kind, optuna.distributions.IntDistribution):
            values[name] = trial.suggest_int(name, kind.low, kind.high, step=kind.step,
                                             log=kind.log)
        elif isinstance(kind, optuna.distributions.CategoricalDistribution):
            values[name] = trial.suggest_categorical(name, kind.choices)
        else:
            raise Error(f'{name} has {kind!r}, expected a distribution of Optuna')
    return values
