"""Sessions with NumPy, against the program."""

import contextlib
import ctypes
import io
import json
import os
import pydoc
import queue
import signal
import subprocess
import sys
import threading
import types
import unittest
from unittest import mock

import numpy as np

import tributary
from tributary import _native

import support

LINEAR = os.path.join(support.WORKERS, 'linear.py')
JOB = """
    optimizer { sgd { learning_rate: 0.1 } }
    batch { global: 16 micro_batches: 4 }
    steps: 30
    evaluation { every_steps: 10 batch: 8 }
"""


class SessionTest(support.JobTest):

    def job(self, **config):
        return self.write_job('job', support.external_job(config, samples=100,
                                                          evaluation=40, more=JOB))

    def test_the_result_does_not_depend_on_the_number_of_workers(self):
        one = self.train('one', self.job(), LINEAR)
        self.assertEqual(one['steps'], 30)
        self.assertLess(one['evaluation']['loss'], 0.2)
        self.assertGreater(one['evaluation']['accuracy'], 0.1)
        for workers in (2, 4):
            more = self.train(str(workers), self.job(), LINEAR, workers)
            self.assertEqual(more['weights_sha256'], one['weights_sha256'])
            self.assertEqual(more['evaluation'], one['evaluation'])

    def test_several_servers_and_local_steps(self):
        settings = {'exchange.parameter_server.consistency.local_steps.inner_steps': 5}
        one = self.train('one', self.job(), LINEAR, settings=settings)
        two = self.train('two', self.job(), LINEAR, 2, settings=settings, servers=2)
        self.assertEqual(one['weights_sha256'], two['weights_sha256'])

    def test_a_loss_that_nobody_reports_is_absent(self):
        modes = {'servers': {}, 'all_reduce': {'exchange': '{all_reduce {}}'},
                 'local_steps': {'exchange.parameter_server.consistency.local_steps.'
                                 'inner_steps': 5}}
        for mode, settings in modes.items():
            with self.subTest(mode):
                output = io.StringIO()
                with contextlib.redirect_stderr(output):
                    summary = self.train(mode, self.job(mistake='no loss'), LINEAR, 2,
                                         settings=settings)
                self.assertEqual(summary['steps'], 30)
                self.assertNotIn('final_loss', summary)
                self.assertLess(summary['evaluation']['loss'], 0.5)
                metrics = tributary.read_metrics(os.path.join(self.folder, mode))
                self.assertNotIn('loss', metrics)
                self.assertIn('samples_per_second', metrics)
                self.assertIn('step 30/30', output.getvalue())
                self.assertNotIn('| loss', output.getvalue())

    def test_tls(self):
        folder = os.path.join(self.folder, 'tls')
        subprocess.run([_native.program(), 'certs', folder], check=True,
                       capture_output=True)
        one = self.train('one', self.job(), LINEAR)
        run = os.path.join(self.folder, 'secured')
        secured = tributary.train(
            self.job(), run, worker_command=[sys.executable, LINEAR],
            arguments=['--tls-dir', folder, '--set', 'exchange.transport=WIRE'])
        self.assertEqual(one['weights_sha256'], secured['weights_sha256'])

    def test_freed_memory_is_kept(self):
        worker = os.path.join(support.WORKERS, 'freed_memory.py')
        kept = {}
        for name, environment in {'kept': {}, 'own': {'MALLOC_TRIM_THRESHOLD_': '131072'}}.items():
            self.train(name, self.job(), worker, environment=environment)
            kept[name] = int(self.log(name).split('kept ')[1].split()[0])
        self.assertGreaterEqual(kept['kept'], 16 << 20)
        # The user's environment sets malloc up.
        self.assertLess(kept['own'], 16 << 20)

    def test_a_worker_that_is_terminated_leaves(self):
        whole = self.train('whole', self.job(), LINEAR)
        environment = {'MARKER': os.path.join(self.folder, 'marker')}
        output = io.StringIO()
        with contextlib.redirect_stderr(output):
            terminated = self.train('terminated', self.job(mistake='terminated'), LINEAR,
                                    environment=environment)
        self.assertIn('worker-0 failed: stopped by request; restarting it', output.getvalue())
        self.assertEqual(terminated['weights_sha256'], whole['weights_sha256'])

    def test_mistakes_are_named(self):
        sys.path.insert(0, support.WORKERS)
        import linear
        # tests/library has those that are not special in Python.
        for mistake, words in {
                'not finished': ['of step 3', 'batch.backward'],
                'not reported': ['evaluation of samples', 'piece.report'],
                'dtype': ['weight', 'float64, expected float32'],
                'gradient shape': ['ValueError', '(1,4)', '(linear.py:'],
                'gradient replaced': ['TypeError', '(linear.py:'],
                'no declaration': ['no parameters']}.items():
            with self.subTest(mistake):
                self.assert_fails_in_process(words, mistake, self.job(mistake=mistake),
                                             linear.main)
        error = self.assert_fails(['weight has no gradient', 'step 3'], 'process',
                                  self.job(mistake='forgotten gradient'), LINEAR)
        self.assertEqual(error.exit_code, 2)
        self.assert_fails(['ValueError', 'read-only', 'linear.py:'], 'write',
                          self.job(mistake='write'), LINEAR)
        self.assertIn('Traceback', self.log('write'))


class OwnLauncherTest(support.JobTest):
    """Processes that `tributary train` has not started, for example by Slurm."""

    def test_the_job_goes_on_without_a_worker_that_has_failed(self):
        job = self.write_job('job', support.external_job(
            {'mistake': 'exception'}, samples=100, more=JOB))
        program, run = _native.program(), os.path.join(self.folder, 'failed')
        server = subprocess.Popen(
            [program, 'server', job, '--listen', '127.0.0.1:0', '--workers', '2',
             '--output', run], stderr=subprocess.PIPE, text=True)
        for line in server.stderr:
            if 'listens on ' in line:
                break
        address = line.split()[-1]
        workers = [subprocess.Popen(
            [sys.executable, LINEAR], stderr=subprocess.PIPE, text=True,
            env={**os.environ, 'TRIBUTARY_COORDINATOR': address,
                 'TRIBUTARY_RANK': str(rank)}) for rank in range(2)]
        _, failure = workers[1].communicate()
        self.assertIn('error: the program has failed: RuntimeError: a mistake of worker 1',
                      failure)
        self.assertEqual(workers[1].returncode, 1)
        _, log = workers[0].communicate()
        self.assertEqual(workers[0].returncode, 0, log)
        _, log = server.communicate()
        self.assertEqual(server.returncode, 0, log)
        with open(os.path.join(run, 'summary.json'), encoding='utf-8') as file:
            summary = json.load(file)
        self.assertEqual(summary['workers_lost'], 1)
        whole = self.train('whole', job, LINEAR)
        self.assertEqual(summary['weights_sha256'], whole['weights_sha256'])


class ConnectTest(unittest.TestCase):

    def test_needs_a_job(self):
        with self.assertRaisesRegex(tributary.Error, 'not started as a worker of a job'):
            tributary.connect()

    def test_an_uncaught_error_is_one_line(self):
        result = subprocess.run(
            [sys.executable, '-c', 'import tributary; from tributary import _process\n'
             '_process.report_uncaught_errors()\n'
             'raise tributary.Error("the reason")'], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (2, 'error: the reason\n'))

    def test_a_program_that_starts_after_the_job_is_done_succeeds(self):
        # The native library refuses to connect with this code.
        result = subprocess.run(
            [sys.executable, '-c', 'import tributary\n'
             'def done(*_):\n'
             '    raise tributary.Error("the job is done", tributary.errors.OUT_OF_RANGE)\n'
             'tributary.session.Session = done\n'
             'tributary.connect("127.0.0.1:1")'], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, 'the job is done\n'))

    def test_a_wrong_address_is_named(self):
        with self.assertRaisesRegex(tributary.Error, 'nowhere'):
            tributary.connect('nowhere')

    def test_ctrl_c_ends_a_wait_for_the_server(self):
        # Nothing listens on this address, so connect tries for a minute.
        program = subprocess.Popen(
            [sys.executable, '-c',
             'import tributary\n'
             'print("ready", flush=True)\n'
             'tributary.connect("127.0.0.1:1")'],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(program.stdout.readline(), 'ready\n')
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate()
        self.assertEqual(program.returncode, -signal.SIGINT)
        self.assertIn('KeyboardInterrupt', errors)


class ItemTest(unittest.TestCase):

    def piece(self):
        piece = tributary.EvaluationPiece.__new__(tributary.EvaluationPiece)
        piece.indices = np.arange(2, 4)
        return piece

    def test_samples_are_loaded_by_their_indices(self):
        samples = self.piece().load('abcdef', collate=''.join)
        self.assertEqual(samples, 'cd')

    @support.needs_torch
    def test_samples_are_collated_like_those_of_a_data_loader(self):
        x, y = self.piece().load([(np.full(3, i), i) for i in range(5)])
        self.assertEqual((x.shape, y.tolist()), ((2, 3), [2, 3]))


class LocalRankTest(unittest.TestCase):

    def local_rank(self, **variables):
        session = tributary.Session.__new__(tributary.Session)
        session._thread = None
        with mock.patch.dict(os.environ, variables, clear=True):
            return session.local_rank

    def test_is_that_of_the_launcher(self):
        self.assertEqual(self.local_rank(), 0)
        others = {'LOCAL_RANK': '2', 'SLURM_LOCALID': '3', 'OMPI_COMM_WORLD_LOCAL_RANK': '4'}
        self.assertEqual(self.local_rank(TRIBUTARY_LOCAL_RANK='1', **others), 1)
        # As the program does, it takes an empty variable for one that is not set.
        self.assertEqual(self.local_rank(TRIBUTARY_LOCAL_RANK='', **others), 2)
        self.assertEqual(self.local_rank(SLURM_LOCALID='3'), 3)
        self.assertEqual(self.local_rank(OMPI_COMM_WORLD_LOCAL_RANK='4'), 4)

    def test_a_wrong_number_is_an_error(self):
        for value in ('one', '-1', '1.0', ' '):
            with self.subTest(value), self.assertRaisesRegex(tributary.Error, 'LOCAL_RANK'):
                self.local_rank(LOCAL_RANK=value)


class InterruptedConnectionTest(unittest.TestCase):

    def interrupted(self, joins):
        """Returns the worker that is freed. If `joins`, there is a connection before the
        interrupt."""
        freed, connects = queue.Queue(), threading.Event()

        def connect(_, handle, error):
            if not joins:
                connects.wait()
            handle._obj.value = 7
            return 0

        def join(thread):
            if joins:
                wait(thread)
            raise KeyboardInterrupt

        session, wait = tributary.Session.__new__(tributary.Session), threading.Thread.join
        session._library = types.SimpleNamespace(worker_connect=connect,
                                                 worker_free=freed.put)
        with mock.patch.object(threading.Thread, 'join', join), \
                self.assertRaises(KeyboardInterrupt):
            session._connect(None)
        connects.set()
        return freed.get(timeout=60).value

    def test_leaves_the_job_as_soon_as_it_is_there(self):
        self.assertEqual(self.interrupted(joins=False), 7)
        self.assertEqual(self.interrupted(joins=True), 7)


class ForkTest(unittest.TestCase):

    def test_a_forked_process_closes_only_its_copy_of_a_session(self):
        session, calls = tributary.Session.__new__(tributary.Session), []
        session._library = types.SimpleNamespace(
            worker_rank=lambda _: 3, worker_workers=lambda _: 4,
            worker_stop=calls.append, worker_free=calls.append)
        session._handle, session._thread = 1, None
        session._model, session._give_turn = None, lambda: calls.append('turn')
        session._process = os.getppid()
        session._lock = threading.Lock()
        with session._lock:  # By a thread of the parent, when it forked.
            session.close()
        self.assertEqual(calls, [])
        self.assertEqual((session.rank, session.world_size), (3, 4))
        with self.assertRaisesRegex(tributary.Error, 'closed'):
            session._open()


class HelpTest(unittest.TestCase):

    def test_has_the_version_of_the_program(self):
        line = subprocess.run([_native.program(), '--version'], check=True,
                              capture_output=True, text=True).stdout
        self.assertEqual(tributary.__version__, line.split()[1])

    def test_messages_have_the_names_of_this_package(self):
        self.assertEqual(
            _native.in_python('SetSampleCount was called after Ready or Add; x'),
            'set_sample_count was called after ready; x')
        self.assertEqual(_native.in_python('iterate over step->micro_batches()'),
                         'iterate over step.micro_batches')
        # Names of users.
        self.assertEqual(_native.in_python('parameter "Report" of ReadyMade'),
                         'parameter "Report" of ReadyMade')

    def test_describes_the_package(self):
        text = pydoc.plain(pydoc.render_doc(tributary))
        for words in ('class Session', 'class MicroBatch', 'connect(', 'read_metrics('):
            self.assertIn(words, text)
        self.assertEqual('class DistributedDataParallel' in text, support.has_torch())

    def test_says_when_pytorch_is_missing(self):
        result = subprocess.run(
            [sys.executable, '-c', 'import sys; sys.modules["torch"] = None\n'
             'import tributary; tributary.DistributedDataParallel'],
            capture_output=True, text=True)
        self.assertIn('tributary.DistributedDataParallel needs PyTorch', result.stderr)


class NativeTest(unittest.TestCase):

    def test_structs_have_the_sizes_of_c_api_h(self):
        sizes = [ctypes.sizeof(struct) for struct in
                 (_native.ErrorStruct, _native.JobStruct, _native.ParameterStruct,
                  _native.MicroBatchStruct, _native.PieceStruct)]
        self.assertEqual(sizes, [2048, 80, 56, 48, 16])

    def test_the_library_exports_only_its_interface(self):
        # PyTorch brings other versions of the libraries that are linked into it.
        path = os.path.join(_native._FOLDER, 'libtributary_c.so')
        symbols = subprocess.run(['nm', '-D', '--defined-only', '--extern-only', path],
                                 check=True, capture_output=True, text=True).stdout
        names = {line.split()[-1] for line in symbols.splitlines()}
        self.assertEqual(names, {'tributary_' + name for name in _native._FUNCTIONS})


if __name__ == '__main__':
    unittest.main()
