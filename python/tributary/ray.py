"""Trials of Ray Tune, each of which trains a job:

    tuner = ray.tune.Tuner(
        tributary.ray.trainable('job.textproto'),
        param_space={'optimizer.adamw.learning_rate': ray.tune.loguniform(1e-4, 1e-1)},
        tune_config=ray.tune.TuneConfig(
            metric='evaluation_loss', mode='min', num_samples=20,
            scheduler=ray.tune.schedulers.ASHAScheduler()))
    results = tuner.fit()

A trial that Ray pauses, moves or clones continues from a checkpoint of the job, so no step
is computed twice."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ray import tune

from ._trials import JobFields, TrialJob, has_flag, with_steps
from .errors import Error
from .launch import JobDescription

# The file of a checkpoint of Ray with the number of steps; the folder beside it is a
# checkpoint of the job.
_STATE = 'tributary.json'
_CHECKPOINT = 'checkpoint'
# The end of the name of a copy with which a run begins.
_BEGIN = '-begin'
# Schedules of the learning rate that depend on the number of the job's steps.
_DECAYS_TO_END = ('LINEAR', 'COSINE', 'POLYNOMIAL', 'ONE_CYCLE')


def trainable(job: JobDescription, *,
              settings: Union[Callable[[Mapping[str, Any]], Mapping[str, Any]],
                              Mapping[str, Any], None] = None,
              steps_per_iteration: Optional[int] = None,
              worker_command: Union[str, Sequence[str], None] = None, workers: int = 1,
              servers: int = 1, arguments: Sequence[str] = ()) -> type[tune.Trainable]:
    """Returns a class for `ray.tune.Tuner`, whose trials train the job.

    Each iteration of a trial trains the job for the next `steps_per_iteration` steps, in
    processes on the machine where Ray has placed the trial, and evaluates it. It reports
    `steps`, `loss`, the results of the evaluation (`evaluation_loss`,
    `evaluation_accuracy`, `evaluation_NAME` for those that the program has named) and
    `weights_sha256`, the digest of the weights. A trial is done after the job's last step, or
    when its program calls `Session.end_job`.
    The weights have the bits of a job that was not interrupted.

    A checkpoint of a trial is a checkpoint of the job. Schedulers that pause trials
    (HyperBand), change them (population-based training) or give them other resources
    continue with it, on any machine that reaches Ray's storage.

    Each worker has its share of the CPUs of the trial: one, unless
    `ray.tune.with_resources` says otherwise.

    Args:
        job: path of the job file, which is read now, or a dict as for `launch`. It must
            have `steps`, and evaluations, but not `stop_when`. Paths in it are relative
            to the current folder.
        settings: fields of the job to change for all trials; or a function that returns
            the fields for the configuration of a trial. Without a function, the names in
            the configuration are paths of fields.
        steps_per_iteration: default: `evaluation.every_steps` of the job.
        worker_command: as for `train`. Programs find the number of steps so far, not that
            of the whole trial, in `Session.job.steps`.
        workers, servers: as for `train`.
        arguments: further arguments of `tributary train`.

    A trial whose job fails has the error `JobFailed`.
    """
    function = settings if callable(settings) else dict
    common = {} if callable(settings) else settings
    return type('TributaryTrainable', (_JobTrainable,), {
        '_job': TrialJob(job, common, worker_command, workers, servers, arguments),
        '_settings_of': staticmethod(function),
        '_steps_per_iteration': steps_per_iteration})


class _JobTrainable(tune.Trainable):
    """A trial. Its folder has a run folder for each beginning: at step 0, or at a
    checkpoint of Ray."""

    # Of the class that `trainable` returns.
    _job: TrialJob
    _settings_of: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    _steps_per_iteration: Optional[int]

    def setup(self, config: dict[str, Any]) -> None:
        self._folder = tempfile.mkdtemp(prefix='tributary-', dir=self.logdir)
        self._runs = 0
        self._begin(None, 0)
        self._configure(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._begin(None, 0)
        self._configure(new_config)
        return True

    def _configure(self, config: Mapping[str, Any]) -> None:
        text = self._job.resolve(self._settings_of(config))
        fields = JobFields(text)
        self._text, self._steps = text, fields.number('steps')
        if self._steps == 0:
            raise Error('trials have a number of steps: set steps in the job')
        if fields.has('stop_when'):
            # It does not see that an iteration is not the whole job.
            raise Error("Ray's schedulers decide when trials end: remove stop_when from "
                        'the job, or set stop of ray.tune.RunConfig in its place')
        self._each = self._steps_per_iteration or fields.number('evaluation.every_steps')
        if self._each <= 0:
            raise Error('set evaluation.every_steps in the job, or steps_per_iteration')
        rounds = fields.number('exchange.parameter_server.local_steps.inner_steps')
        if rounds > 1 and self._each % rounds:
            raise Error(f'an iteration has {self._each} steps, expected a multiple of the '
                        f'{rounds} steps of a round (inner_steps of the job)')
        self._settings = {}
        # The learning rate of a step is that of the whole trial.
        if fields.get('schedule.decay') in _DECAYS_TO_END and \
                not fields.number('schedule.decay_steps'):
            self._settings['schedule.decay_steps'] = self._steps
        if fields.get('checkpoint.every_steps') == '0' and \
                float(fields.get('checkpoint.every_seconds', '0')) == 0:
            self._settings['checkpoint.every_steps'] = self._each

    def _begin(self, checkpoint: Optional[str], steps: int) -> None:
        """The next iteration continues this checkpoint in a new run folder."""
        self._checkpoint, self._done = checkpoint, steps
        self._runs += 1
        self._run = os.path.join(self._folder, f'run-{self._runs}')

    def step(self) -> dict[str, Any]:
        steps = min(self._done + self._each, self._steps)
        arguments = ['--resume', self._checkpoint or 'auto']
        if self._checkpoint is not None:
            # Population-based training has changed the configuration.
            arguments.append('--allow-job-changes')
        resources = self.trial_resources
        cpus = int(resources.required_resources.get('CPU', 0)) if resources else 0
        if not has_flag(self._job.arguments, '--threads'):
            arguments += ['--threads', str(max(1, cpus // self._job.workers))]
        with self._job.start(self._run, self._settings, arguments,
                             with_steps(self._text, steps)) as job:
            summary = job.summary()
        # Fewer if the program has ended the job; see Session.end_job.
        self._checkpoint, self._done = None, summary['steps']
        evaluation = summary.get('evaluation') or {}
        return {
            'steps': self._done, 'loss': summary.get('final_loss'),
            **{f'evaluation_{name}': value for name, value in evaluation.items()
               if name != 'step'},
            'weights_sha256': summary.get('weights_sha256', ''),
            tune.result.DONE: self._done < steps or steps == self._steps}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        with open(os.path.join(checkpoint_dir, _STATE), 'w', encoding='utf-8') as file:
            json.dump({'steps': self._done}, file)
        if self._done > 0:
            _copy(self._newest(), os.path.join(checkpoint_dir, _CHECKPOINT))

    def _newest(self) -> str:
        """The checkpoint of the steps so far."""
        return self._checkpoint or os.path.join(
            self._run, 'checkpoints', f'step-{self._done:08d}')

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        with open(os.path.join(checkpoint_dir, _STATE), encoding='utf-8') as file:
            steps = json.load(file)['steps']
        self._begin(None, steps)
        if steps > 0:
            # Ray may remove its folder.
            self._checkpoint = self._run + _BEGIN
            _copy(os.path.join(checkpoint_dir, _CHECKPOINT), self._checkpoint)

    def cleanup(self) -> None:
        # Metrics and logs stay in the folder of the trial.
        for run in os.scandir(self._folder):
            for name in ('checkpoints', 'final', 'best'):
                shutil.rmtree(os.path.join(run.path, name), ignore_errors=True)
            if run.name.endswith(_BEGIN):
                shutil.rmtree(run.path, ignore_errors=True)


def _copy(source: str, target: str) -> None:
    """Copies a folder whose files never change: without their contents where possible."""
    def copy(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
    shutil.copytree(source, target, copy_function=copy)
