"""Jobs whose servers and workers are threads of this process."""

import contextlib
import copy
import io
import json
import os
import signal
import sys
import threading
import traceback
import unittest
from unittest import mock

import numpy as np

import tributary
from tributary import _in_process, _native

import support

sys.path.insert(0, support.EXAMPLES)

JOB = support.external_job(samples=100, evaluation=40, more="""
    optimizer { sgd { learning_rate: 0.1 } }
    batch { global: 16 micro_batches: 4 }
    steps: 30
    evaluation { every_steps: 10 batch: 8 }
""")
NOISE = 0.1


def linear(draws=lambda batch: False, fails_at=-1):
    """Returns a worker function that fits a line to points with noise."""

    def worker():
        session = tributary.connect()
        x = np.random.normal(size=100).astype(np.float32)
        session.declare([tributary.Parameter(
            'weight', np.random.normal(size=1).astype(np.float32))])
        for step in session:
            for batch in step.micro_batches:
                if step.number == fails_at:
                    raise ValueError('a mistake\nin two lines')
                noise = np.random.normal(0, NOISE) if draws(batch) else 0
                error = batch.weights[0] * x[batch.indices] - 3 * x[batch.indices] - noise
                batch.gradients[0][:] = (error * x[batch.indices]).sum()
                batch.ready(0)
                batch.finish((error ** 2 / 2).sum())
            for piece in step.evaluation:
                piece.report(float(piece.weights[0][0]) * len(piece.indices), 0)

    return worker


def interrupt_main():
    """Is Ctrl-C."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def interrupt_train():
    """Is Ctrl-C when the main thread waits for the end of the job."""
    def functions():
        frame = sys._current_frames()[threading.main_thread().ident]
        return [frame.f_code.co_name for frame, _ in traceback.walk_stack(frame)]

    while functions()[:3] != ['wait', 'wait', 'train']:
        pass
    interrupt_main()


class InProcessTest(support.JobTest):

    def run_job(self, name, worker, workers=1, job=JOB, **options):
        """Returns the summary, and what was written to stderr."""
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown):
            summary = tributary.train(job, os.path.join(self.folder, name), worker=worker,
                                      workers=workers, in_process=True, **options)
        return summary, shown.getvalue()

    def fails(self, name, worker, workers=1, **options):
        with self.assertRaises(tributary.JobFailed) as raised:
            self.run_job(name, worker, workers, **options)
        self.assertNotIn('\n', str(raised.exception))
        return raised.exception

    def test_the_result_does_not_depend_on_the_number_of_workers(self):
        one, shown = self.run_job('one', linear())
        self.assertEqual(one['steps'], 30)
        self.assertLess(abs(one['evaluation']['loss'] - 3), 1)
        self.assertEqual(shown, '')
        for workers in (2, 4):
            more, shown = self.run_job(str(workers), linear(), workers, servers=2)
            self.assertEqual(more['weights_sha256'], one['weights_sha256'])
            self.assertEqual(shown, '')

    def test_threads_are_workers_of_one_machine(self):
        numbers, compute = [], linear()

        def worker():
            compute()
            numbers.append(tributary._in_process.current_worker().session.local_rank)

        self.run_job('run', worker, workers=3)
        self.assertEqual(sorted(numbers), [0, 1, 2])

    def test_random_numbers_do_not_depend_on_the_number_of_workers(self):
        one, shown = self.run_job('one', linear(lambda _: True))
        self.assertEqual(shown, '')
        without, _ = self.run_job('without', linear())
        self.assertNotEqual(one['weights_sha256'], without['weights_sha256'])
        for workers in (2, 4):
            more, shown = self.run_job(str(workers), linear(lambda _: True), workers)
            self.assertEqual(more['weights_sha256'], one['weights_sha256'])
            self.assertEqual(shown.count('warning: '), 1)

    def test_unexpected_random_numbers_are_an_error(self):
        late = linear(lambda batch: batch.step == 20)
        error = self.fails('late', late, workers=2)
        self.assertIn('random numbers', str(error))
        self.run_job('one', late)

    def test_the_generators_of_the_program_go_on(self):
        np.random.seed(3)
        expected = np.random.normal(size=4)
        np.random.seed(3)
        first = np.random.normal(size=2)
        self.run_job('one', linear(lambda _: True), workers=2)
        np.testing.assert_array_equal(expected[:2], first)
        np.testing.assert_array_equal(expected[2:], np.random.normal(size=2))

    def test_models_of_tributary(self):
        job = """
            name: "mlp"
            model { mlp { hidden: 8 } }
            data { random { shape: 4 classes: 3 samples: 64 } }
            optimizer { sgd { learning_rate: 0.1 } }
            batch { global: 16 micro_batches: 4 }
            steps: 5
        """
        path = self.write_job('mlp', job)
        with contextlib.redirect_stderr(io.StringIO()):
            apart = tributary.train(path, os.path.join(self.folder, 'apart'))
        steps = []
        together, _ = self.run_job('together', None, workers=None, job=job,
                                   devices=['cpu', 'cpu', 'cpu'], on_step=steps.append)
        self.assertEqual(together['weights_sha256'], apart['weights_sha256'])
        self.assertEqual([step['step'] for step in steps], [1, 2, 3, 4, 5])
        self.assertAlmostEqual(steps[-1]['loss'], together['final_loss'])

    def test_the_exception_of_a_worker_is_the_cause(self):
        error = self.fails('failed', linear(fails_at=7), workers=2)
        self.assertIsInstance(error.__cause__, ValueError)
        self.assertEqual(error.exit_code, 1)
        for words in ('ValueError: a mistake in two lines', '(in_process_test.py:'):
            self.assertIn(words, str(error))
        # This process goes on.
        self.run_job('next', linear(), workers=2)

    def test_the_exception_of_a_callback_ends_the_job(self):
        def stop(metrics):
            if metrics['step'] == 3:
                raise LookupError('enough')

        with self.assertRaises(LookupError):
            self.run_job('stopped', linear(), workers=2, on_step=stop,
                         settings={'steps': 1000000})

    def test_ctrl_c_stops_the_job(self):
        def interrupt(metrics):
            if metrics['step'] == 3:
                interrupt_train()

        with self.assertRaises(KeyboardInterrupt):
            self.run_job('stopped', linear(), workers=2, on_step=interrupt,
                         settings={'steps': 1000000})
        with open(os.path.join(self.folder, 'stopped', 'summary.json'),
                  encoding='utf-8') as file:
            self.assertEqual(json.load(file)['status'], 'stopped')

    def interrupted(self, begins=lambda: None, stops=lambda: None, on_step=None):
        """Returns in which order the thread of a job that Ctrl-C ends has begun and
        ended, and the job was freed. Calls `begins` on this thread, and `stops` when the
        job was told to stop."""
        events, native = [], _native.library()
        library = copy.copy(native)

        def train(*arguments):
            events.append('begun')
            begins()
            native.run_train(*arguments)
            events.append('ended')

        def stop(handle):
            native.run_stop(handle)
            stops()

        def free(handle):
            events.append('freed')
            if events != ['begun', 'freed']:
                native.run_free(handle)

        library.run_train, library.run_stop, library.run_free = train, stop, free
        with mock.patch.object(_native, 'library', lambda: library), \
                self.assertRaises(KeyboardInterrupt):
            self.run_job('stopped', linear(), workers=2, on_step=on_step,
                         settings={'steps': 1000000})
        return events

    def test_a_second_ctrl_c_waits_for_the_end_of_the_job(self):
        stopping = threading.Event()

        def interrupt(metrics):
            if metrics['step'] == 3:
                interrupt_train()
                stopping.wait()
                # The job cannot end before this function has returned.
                interrupt_train()

        self.assertEqual(self.interrupted(stops=stopping.set, on_step=interrupt),
                         ['begun', 'ended', 'freed'])

    def test_ctrl_c_while_the_thread_of_the_job_starts(self):
        self.assertEqual(self.interrupted(begins=interrupt_main),
                         ['begun', 'ended', 'freed'])

    def test_ctrl_c_before_the_job_begins(self):
        threads = []

        def start(*thread):
            threads.append(thread)
            raise KeyboardInterrupt

        with mock.patch.object(_in_process, 'start_new_thread', start):
            events = self.interrupted()
        (function, arguments), = threads
        function(*arguments)
        self.assertEqual(events, ['freed'])

    def test_mistakes(self):
        def leaves():
            session = tributary.connect()
            session.declare([tributary.Parameter('weight', np.zeros(1, np.float32))])
            for _ in session:
                return

        def connects_twice():
            tributary.connect()
            tributary.connect()

        self.assertIn('tributary.connect()', str(self.fails('1', lambda: None)))
        self.assertIn('until the loop ends', str(self.fails('2', leaves)))
        self.assertIn('twice', str(self.fails('3', connects_twice)))
        self.assertIn('steps', str(self.fails('4', linear(), settings={'steps': -1})))
        for options in ({'worker_command': 'true'}, {'arguments': ['--json']},
                        {'worker': linear(), 'devices': ['cpu']}, {'devices': 'cpu'},
                        {'worker': linear(), 'in_process': False}):
            with self.subTest(options), self.assertRaises(tributary.Error):
                tributary.train(JOB, os.path.join(self.folder, 'mistake'),
                                **{'in_process': True, **options})
        with self.assertRaises(tributary.Error):
            tributary.train(JOB, self.folder + '/1', worker=linear(), in_process=True)


@support.needs_torch
class ModuleTest(support.JobTest):

    def test_a_module_with_dropout_and_batch_norm(self):
        import digits
        import in_process
        import torch
        job = os.path.join(support.EXAMPLES, 'digits.textproto')
        settings = {'steps': 6, 'epochs': 0, 'batch.global': 32,
                    'evaluation.every_steps': 3}
        apart = self.train('apart', job, os.path.join(support.EXAMPLES, 'digits.py'), 2,
                           settings=settings)
        threads = torch.get_num_threads()
        with contextlib.redirect_stderr(io.StringIO()):
            together = tributary.train(
                job, os.path.join(self.folder, 'together'), worker=digits.main,
                workers=3, in_process=True, settings=settings)
        os.chdir(support.EXAMPLES)
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(io.StringIO()):
            in_process.main(os.path.join(self.folder, 'example'), settings)
        self.assertIn(f"accuracy {together['evaluation']['accuracy']}", shown.getvalue())
        self.assertEqual(together['weights_sha256'], apart['weights_sha256'])
        self.assertEqual(together['evaluation'], apart['evaluation'])
        self.assertEqual(torch.get_num_threads(), threads)
        self.assertFalse(torch.are_deterministic_algorithms_enabled())


if __name__ == '__main__':
    unittest.main()
