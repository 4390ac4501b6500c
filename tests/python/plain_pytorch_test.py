"""The promises for a PyTorch module, against plain PyTorch and under kill -9.

A short version for CI; `./tributary test --long python` runs the long one. These
variables change its length:

    TRIBUTARY_STEPS  steps of each job
    TRIBUTARY_KILLS  processes that are killed in each job

TRIBUTARY_DEVICE is the device of the networks, `cpu` or `cuda`; TRIBUTARY_TEXT is the
text that the GPT learns.
"""

import itertools
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
import unittest

import tributary
from tributary import _native

import support

STEPS = int(os.environ.get('TRIBUTARY_STEPS', '20'))
KILLS = int(os.environ.get('TRIBUTARY_KILLS', '2'))
# For workers and for plain PyTorch. Without the last variable, cuBLAS is not
# deterministic.
VARIABLES = {'EXAMPLES': support.EXAMPLES,
             'DEVICE': os.environ.get('TRIBUTARY_DEVICE', 'cpu'),
             'TEXT': os.environ.get('TRIBUTARY_TEXT', '/usr/share/common-licenses/GPL-3'),
             'CUBLAS_WORKSPACE_CONFIG': ':4096:8'}
WORKER = os.path.join(support.WORKERS, 'plain_pytorch.py')
RULES = {
    'sgd': 'sgd { learning_rate: 0.02 momentum: 0.9 weight_decay: 0.001 }',
    'adamw': 'adamw { learning_rate: 0.001 beta2: 0.99 epsilon: 1e-8 weight_decay: 0.1 }',
}
DATA = {'digits': 'train_samples: 4000',
        'text': 'train_samples: 1000 units_per_sample: 32'}


class Launcher:
    """`tributary train`, which its user starts again when it was killed."""

    def __init__(self, arguments, log):
        self._command = [_native.program(), 'train', *arguments, '--resume', 'auto',
                         '--max-restarts', '1000']
        self._log = log
        self.start()

    def start(self):
        with open(self._log, 'a', encoding='utf-8') as log:
            self._process = subprocess.Popen(self._command, stderr=log)

    def code(self):
        """The exit code, or None while it runs."""
        return self._process.poll()

    def kill(self, target):
        """Kills the launcher, or the server or the worker that runs longest; returns
        whether there was one."""
        if target == 'launcher':
            self._process.kill()
            self._process.wait()
            self.start()
            return True
        with open(f'/proc/{self._process.pid}/task/{self._process.pid}/children',
                  encoding='utf-8') as file:
            children = [int(child) for child in file.read().split()]
        for child in children:  # The oldest is the first.
            try:
                with open(f'/proc/{child}/cmdline', encoding='utf-8') as file:
                    is_worker = WORKER in file.read()
                if is_worker == (target == 'worker'):
                    os.kill(child, signal.SIGKILL)
                    return True
            except (FileNotFoundError, ProcessLookupError):
                continue
        return False


@support.needs_torch
class PlainPyTorchTest(support.JobTest):

    def prepare(self, network, rule):
        """Writes the job file."""
        self.network, self.rule = network, rule
        self.job = self.write_job('job', f"""
            model {{ external {{ name: "{network}" config: '{{"network": "{network}"}}' }} }}
            data {{ external {{ {DATA[network]} }} }}
            optimizer {{ {RULES[rule]} }}
            batch {{ global: 32 micro_batches: 4 }}
            steps: {STEPS}
            checkpoint {{ every_steps: 5 }}
            output {{ log_every_steps: 1 }}""")

    def run_job(self, run, workers, environment=None):
        return self.train(run, self.job, WORKER, workers,
                          environment={**VARIABLES, **(environment or {})})

    def plain_losses(self, records):
        plain = subprocess.run(
            [sys.executable, WORKER, self.network, self.rule, records, str(STEPS)],
            check=True, capture_output=True, text=True,
            env={**os.environ, **VARIABLES})
        return json.loads(plain.stdout)

    def steps_of(self, run):
        """The newest step of a run, 0 before the first."""
        try:
            steps = tributary.read_metrics(os.path.join(self.folder, run))['step']
        except (tributary.Error, KeyError, ValueError):  # Just being replaced.
            return 0
        return int(steps[-1]) if len(steps) else 0

    def run_and_kill(self, run, workers):
        """Runs the job, kills processes at random moments, and returns the summary
        and how often each kind of process was killed."""
        moments = random.Random(f'{self.network} {self.rule}')
        kills = {'worker': 0, 'server': 0, 'launcher': 0}
        steps = sorted(moments.sample(range(1, STEPS - 2), KILLS))
        pending = list(zip(steps, itertools.cycle(kills)))
        folder = os.path.join(self.folder, run)
        # The job waits there until the process is killed.
        gates = os.path.join(self.folder, 'gates')
        os.mkdir(gates)
        for step in steps:
            with open(os.path.join(gates, str(step + 2)), 'w', encoding='utf-8'):
                pass
        variables = [f'{name}={value}' for name, value in VARIABLES.items()]
        command = shlex.join(['/usr/bin/env', *variables, 'GATES=' + gates,
                              sys.executable, WORKER])
        launcher = Launcher([self.job, '--output', folder, '--workers', str(workers),
                             '--worker-command', command],
                            os.path.join(self.folder, run + '.log'))
        while launcher.code() != 0:
            if launcher.code() is not None:
                with open(os.path.join(self.folder, run + '.log'),
                          encoding='utf-8') as log:
                    self.fail(log.read())
            if pending and self.steps_of(run) >= pending[0][0]:
                time.sleep(moments.random() / 50)
                if launcher.kill(pending[0][1]):
                    step, target = pending.pop(0)
                    kills[target] += 1
                    os.remove(os.path.join(gates, str(step + 2)))
            time.sleep(0.01)
        self.assertEqual(sum(kills.values()), KILLS)
        with open(os.path.join(folder, 'summary.json'), encoding='utf-8') as file:
            return json.load(file), kills

    def check(self, network, rule):
        self.prepare(network, rule)
        records = os.path.join(self.folder, 'records')
        os.mkdir(records)
        one = self.run_job('one', 1, {'RECORDS': records})
        self.assertEqual(one['steps'], STEPS)
        ours = tributary.read_metrics(os.path.join(self.folder, 'one'))['loss']
        plain = self.plain_losses(records)
        self.assertEqual(len(ours), len(plain))
        difference = max(abs(a - b) / b for a, b in zip(ours, plain))
        print(f'{network} {rule}: losses {plain[0]:.4f} to {plain[-1]:.4f}, largest '
              f'relative difference {difference:.2g}; {one["weights_sha256"]}',
              flush=True)
        self.assertLess(plain[-1], plain[0])
        self.assertLess(difference, 1e-4)
        for workers in (2, 4):
            more = self.run_job(str(workers), workers)
            self.assertEqual(more['weights_sha256'], one['weights_sha256'])
        killed, kills = self.run_and_kill('killed', 2)
        print(f'{network} {rule}: killed {kills}, {killed["weights_sha256"]}', flush=True)
        self.assertEqual(killed['weights_sha256'], one['weights_sha256'])

    def test_cnn_with_sgd(self):
        self.check('digits', 'sgd')

    def test_cnn_with_adamw(self):
        self.check('digits', 'adamw')

    def test_gpt_with_sgd(self):
        self.check('text', 'sgd')

    def test_gpt_with_adamw(self):
        self.check('text', 'adamw')


if __name__ == '__main__':
    unittest.main()
