"""What the tests of the Python package share."""

import contextlib
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest

import tributary

EXAMPLES = os.path.abspath('examples/python')
WORKERS = os.path.abspath('tests/python/workers')


def has_torch():
    # Importing it would take a second in each process.
    return importlib.util.find_spec('torch') is not None


needs_torch = unittest.skipUnless(
    has_torch(), "needs PyTorch, for example Debian's package python3-torch")


class JobTest(unittest.TestCase):
    """Trains jobs in a new folder."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ['TEST_TMPDIR'])

    def write_job(self, name, text):
        path = os.path.join(self.folder, name + '.textproto')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def train(self, run, job, worker, workers=1, settings=None, environment=None,
              servers=None, spares=0, arguments=()):
        """Returns the summary. `environment`: variables for the workers."""
        variables = [f'{name}={value}' for name, value in (environment or {}).items()]
        command = shlex.join(['/usr/bin/env', *variables, sys.executable, worker])
        return tributary.train(job, os.path.join(self.folder, run), workers=workers,
                               worker_command=command, settings=settings, servers=servers,
                               arguments=['--spares', str(spares), *arguments])

    def log(self, run, worker=0):
        path = os.path.join(self.folder, run, 'logs', f'worker-{worker}.log')
        with open(path, encoding='utf-8') as file:
            return file.read()

    def run_example(self, name):
        """Runs an example that starts its job, and returns the log of its first worker."""
        done = subprocess.run([sys.executable, os.path.join(EXAMPLES, name)],
                              cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        run, = os.listdir(os.path.join(self.folder, 'runs'))
        return self.log(os.path.join('runs', run))

    def assert_fails(self, words, run, job, worker, **options):
        """Checks that the job fails with a message that contains all words."""
        with self.fails_with(words) as raised:
            self.train(run, job, worker, **options)
        return raised.exception

    def assert_fails_in_process(self, words, run, job, worker, **options):
        """The same in threads of this process, which need no second to import PyTorch."""
        with self.fails_with(words):
            tributary.train(job, os.path.join(self.folder, run), in_process=True,
                            worker=worker, workers=1, **options)

    @contextlib.contextmanager
    def fails_with(self, words):
        with self.assertRaises(tributary.JobFailed) as raised:
            yield raised
        for word in words:
            self.assertIn(word, str(raised.exception))
        self.assertNotIn('\n', str(raised.exception))


def external_job(config=None, samples=64, evaluation=0, more=''):
    """Returns a job file with an external model; its seed is the default."""
    text = json.dumps(config or {}).replace("'", "\\'")
    return f"""
        name: "test"
        model {{ external {{ name: "test" config: '{text}' }} }}
        data {{ external {{ train_samples: {samples} evaluation_samples: {evaluation} }} }}
        output {{ log_every_steps: 1 }}
        {more}"""


def counted_job(test, more=''):
    """Writes a job of 12 steps for workers/counted.py, and returns its path."""
    return test.write_job('counted', external_job(
        {'count': os.path.join(test.folder, 'count')}, evaluation=32, more=f"""
            optimizer {{ sgd {{ learning_rate: 1 }} }}
            batch {{ global: 16 micro_batches: 1 }} steps: 12
            evaluation {{ every_steps: 4 }} {more}"""))


def counted(test):
    """Returns what the workers have computed: learning rates, steps and micro-batches."""
    with open(os.path.join(test.folder, 'count'), encoding='utf-8') as file:
        return [(float(rate), int(step), int(number)) for rate, step, number in
                map(str.split, file)]
