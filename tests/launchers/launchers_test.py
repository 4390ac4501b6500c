#!/usr/bin/env python3
"""Trains a job with the real launchers of other systems: torchrun, Open MPI and Ray.

    tests/launchers/launchers_test.py [--program PROGRAM] [arguments of unittest]

Each run must end with the same weights as `tributary train`, also if processes are killed
while it trains. A launcher that is not installed is skipped; with Ray in a virtual
environment, run this program with the Python of that environment. Not part of CI, which
has none of the launchers; takes about two minutes.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(PROJECT, 'bazel-bin/deploy/tributary')
if sys.argv[1:2] == ['--program']:
    PROGRAM = os.path.abspath(sys.argv[2])
    del sys.argv[1:3]
sys.path.insert(0, os.path.join(PROJECT, 'examples/ray'))

# Long enough to lose processes while it trains.
JOB = """
model { mlp { hidden: [64, 64] } }
data { random { samples: 4096 shape: 64 classes: 10 } }
batch { global: 64 micro_batches: 8 }
optimizer { sgd { learning_rate: 0.05 momentum: 0.9 } }
steps: 6000
checkpoint { every_steps: 500 }
output { log_every_steps: 20 }
"""
# Loses of these steps are what the tests wait for.
EARLY, LATE = 1000, 3000
# Time limit of one run, for a busy machine.
SECONDS = 300


def find_torchrun():
    """Returns torchrun of this Python's environment, else the one on the PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), 'torchrun')
    return beside if os.path.exists(beside) else shutil.which('torchrun')


TORCHRUN = find_torchrun()


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def processes(words):
    """Returns the processes of the program whose command lines contain all words."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as file:
                line = file.read().decode(errors='replace').split('\0')
        except OSError:
            continue
        if line[0] == PROGRAM and all(word in line for word in words):
            found.append(int(pid))
    return found


class LauncherTest(unittest.TestCase):
    """Runs the job in a new folder, at a new port."""

    @classmethod
    def setUpClass(cls):
        cls.reference_folder = tempfile.mkdtemp()
        job = os.path.join(cls.reference_folder, 'job.textproto')
        with open(job, 'w', encoding='utf-8') as file:
            file.write(JOB)
        run = os.path.join(cls.reference_folder, 'run')
        subprocess.run([PROGRAM, 'train', job, '--workers', '2', '--output', run, '--quiet'],
                       check=True, stdout=subprocess.DEVNULL)
        cls.job = job
        cls.reference = cls.read_weights(run)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.reference_folder)

    def setUp(self):
        self.others = processes([])
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(self.assert_no_process_is_left)
        self.run_folder = os.path.join(self.folder, 'run')
        self.coordinator = f'127.0.0.1:{free_port()}'

    @staticmethod
    def read_weights(run):
        with open(os.path.join(run, 'summary.json'), encoding='utf-8') as file:
            return json.load(file)['weights_sha256']

    def own_processes(self, words=()):
        return [pid for pid in processes(words) if pid not in self.others]

    def assert_no_process_is_left(self):
        deadline = time.monotonic() + 30
        while self.own_processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(self.own_processes(), [])

    def assert_same_weights(self):
        self.assertEqual(self.read_weights(self.run_folder), self.reference)

    def start(self, *command, **environment):
        """Starts a command, which ends at the latest with the test."""
        # Otherwise launchers would pass on the variables of the one that runs this test.
        log = open(os.path.join(self.folder, 'log'), 'ab')
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   env={**os.environ, **environment}, cwd=self.folder)
        log.close()

        def stop():
            if process.poll() is None:
                process.terminate()
                process.wait(60)
        self.addCleanup(stop)
        return process

    def server(self, workers):
        return self.start(PROGRAM, 'server', self.job, '--listen', self.coordinator, '--output',
                          self.run_folder, '--workers', str(workers))

    def expect_end(self, process, code=0):
        self.assertEqual(process.wait(SECONDS), code, self.log())

    def log(self):
        with open(os.path.join(self.folder, 'log'), encoding='utf-8', errors='replace') as file:
            return file.read()[-4000:]

    def await_step(self, step, launcher):
        """Fails if the launcher ends first."""
        path = os.path.join(self.run_folder, 'metrics.jsonl')
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and launcher.poll() is None:
            try:
                with open(path, encoding='utf-8') as file:
                    steps = [json.loads(line).get('step', 0) for line in file if
                             line.endswith('\n')]
            except FileNotFoundError:
                steps = []
            if steps and steps[-1] >= step:
                return
            time.sleep(0.05)
        self.fail(f'step {step} was not reached: {self.log()}')


@unittest.skipUnless(TORCHRUN, 'needs torchrun, of PyTorch')
class TorchrunTest(LauncherTest):

    @staticmethod
    def is_old():
        """Returns true if torchrun belongs to PyTorch 1.13, which Debian has."""
        with open(TORCHRUN, encoding='utf-8') as file:
            python = file.readline()[2:].strip()
        version = subprocess.run([python, '-c', 'import torch; print(torch.__version__)'],
                                 capture_output=True, text=True, check=False).stdout
        return version.startswith('1.13')

    def torchrun(self, *arguments):
        # torchrun listens at MASTER_PORT itself, so server 0 has a different address.
        # PyTorch 1.13 cannot read its own defaults of these flags with Python 3.11.
        old = ['--redirects', '1', '--tee', '1'] if self.is_old() else []
        return self.start(TORCHRUN, '--standalone', '--no_python', '--nproc_per_node', '4',
                          *old, *arguments, PROGRAM, 'worker',
                          TRIBUTARY_COORDINATOR=self.coordinator)

    def test_trains(self):
        server = self.server(workers=4)
        self.expect_end(self.torchrun())
        self.expect_end(server)
        self.assert_same_weights()

    def test_restarts_workers_of_which_one_was_killed(self):
        server = self.server(workers=4)
        launcher = self.torchrun('--max_restarts', '2')
        self.await_step(EARLY, launcher)
        os.kill(self.own_processes(['worker'])[0], signal.SIGKILL)
        self.expect_end(launcher)
        self.expect_end(server)
        self.assert_same_weights()


@unittest.skipUnless(shutil.which('mpirun'), 'needs Open MPI: apt-get install openmpi-bin')
class OpenMpiTest(LauncherTest):
    MPIRUN = ('mpirun', '--allow-run-as-root', '--oversubscribe')

    def test_trains(self):
        server = self.server(workers=4)
        self.expect_end(self.start(*self.MPIRUN, '-np', '4', '-x', 'TRIBUTARY_COORDINATOR',
                                   PROGRAM, 'worker', TRIBUTARY_COORDINATOR=self.coordinator))
        self.expect_end(server)
        self.assert_same_weights()

    def command_with_server(self, *options):
        return (*self.MPIRUN, *options,
                '-np', '1', PROGRAM, 'server', self.job, '--listen', self.coordinator, '--output',
                self.run_folder, '--workers', '4', '--resume', 'auto',
                ':', '-np', '4', PROGRAM, 'worker', '--coordinator', self.coordinator)

    def test_one_command_starts_server_and_workers(self):
        self.expect_end(self.start(*self.command_with_server()))
        self.assert_same_weights()

    def test_the_same_command_resumes_a_job_that_has_lost_a_worker(self):
        launcher = self.start(*self.command_with_server())
        self.await_step(EARLY, launcher)
        os.kill(self.own_processes(['worker'])[0], signal.SIGKILL)
        # mpirun ends all processes when one is lost.
        self.expect_end(launcher, code=128 + signal.SIGKILL)
        self.assertIn('exited on signal 9', self.log())
        self.assert_no_process_is_left()
        self.expect_end(self.start(*self.command_with_server()))
        self.assert_same_weights()


def has_ray():
    try:
        import ray  # noqa: F401
        return True
    except ImportError:
        return False


@unittest.skipUnless(has_ray(), 'needs Ray: pip install ray')
class RayTest(LauncherTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ['RAY_USAGE_STATS_ENABLED'] = '0'
        # Otherwise Ray would write a token to the home folder.
        os.environ['RAY_AUTH_MODE'] = 'disabled'
        # The actors import the module `train`, too.
        os.environ['PYTHONPATH'] = os.path.join(PROJECT, 'examples/ray')
        import ray
        ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False,
                 _node_ip_address='127.0.0.1')

    @classmethod
    def tearDownClass(cls):
        import ray
        ray.shutdown()
        super().tearDownClass()

    def train(self, lose=(), **options):
        """Runs the job, and kills the actors with the names in `lose` in turn."""
        import ray
        import train
        training = train.Training(self.job, self.run_folder, workers=3, servers=2,
                                  program=PROGRAM, **options)
        results = []

        def run():
            try:
                results.append(training.run())
            except train.JobFailed as error:
                results.append(error)
        thread = threading.Thread(target=run)
        thread.poll = lambda: None if thread.is_alive() else 1
        thread.start()
        for name, step in zip(lose, (EARLY, LATE)):
            self.await_step(step, thread)
            ray.kill(training.actors[name])
        thread.join(SECONDS)
        summary = results[0]
        self.assertEqual(summary['weights_sha256'], self.reference)

    def test_trains_with_tls(self):
        self.train()

    def test_replaces_lost_workers(self):
        self.train(lose=['worker-0', 'worker-2'])

    def test_replaces_lost_servers(self):
        self.train(lose=['server-1', 'server-0'], tls=False)

    def test_reports_the_error_of_a_process(self):
        import train
        with self.assertRaisesRegex(train.JobFailed, 'server-0: error: .*no_such_field'):
            train.Training(self.job, self.run_folder, program=PROGRAM,
                           arguments=['--set', 'no_such_field=1']).run()


if __name__ == '__main__':
    unittest.main(verbosity=2)
