"""tributary.train, read_metrics and load."""

import json
import os
import pickle
import subprocess
import threading
import unittest
from unittest import mock

import numpy as np

import tributary
from tributary import _trials

import support

JOB = os.path.join(support.EXAMPLES, 'regression.textproto')
WORKER = os.path.join(support.EXAMPLES, 'regression.py')


class RunsTest(support.JobTest):

    def test_a_run_is_trained_and_read(self):
        run = os.path.join(self.folder, 'run')
        summary = tributary.train(JOB, run, worker_command=WORKER, workers=2,
                                  settings={'epochs': 20, 'output.log_every_steps': 1})
        self.assertEqual((summary['status'], summary['steps']), ('done', 200))

        metrics = tributary.read_metrics(run)
        training = ~np.isnan(metrics['loss'])
        self.assertEqual(metrics['step'][training].tolist(), list(range(1, 201)))
        self.assertLess(metrics['loss'][training][-1], 0.01)
        self.assertEqual(np.count_nonzero(~np.isnan(metrics['evaluation_loss'])), 1)

        weights = tributary.load(run)
        self.assertEqual(list(weights), ['bias', 'weight'])
        np.testing.assert_allclose(weights['weight'], [1.5, -2, 0.5], atol=0.1)
        file = os.path.join(run, 'final', 'model.safetensors')
        np.testing.assert_array_equal(tributary.load(file)['bias'], weights['bias'])
        with open(file, 'r+b') as model:
            model.seek(-1, os.SEEK_END)
            last = model.read(1)[0]
            model.seek(-1, os.SEEK_END)
            model.write(bytes([last ^ 1]))
        with self.assertRaisesRegex(tributary.Error, 'model.safetensors.* damaged'):
            tributary.load(run)

    def test_a_failure_has_the_error_and_the_exit_code(self):
        with self.assertRaises(tributary.JobFailed) as raised:
            tributary.train(JOB, os.path.join(self.folder, 'run'),
                            settings={'epochs': -1})
        self.assertIn('epochs', str(raised.exception))
        self.assertEqual(raised.exception.exit_code, 2)
        copy = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((str(copy), copy.exit_code), (str(raised.exception), 2))

    def test_the_job_of_a_trial_ends_that_is_interrupted_while_it_starts(self):
        started = []

        def start(*arguments, **keywords):
            started.append(popen(*arguments, **keywords))
            return started[0]

        popen = subprocess.Popen
        trial = _trials.TrialJob(JOB, {'epochs': 1000000}, WORKER, 1, 1, [])
        with mock.patch.object(subprocess, 'Popen', start), \
                mock.patch.object(threading.Thread, 'start', side_effect=KeyboardInterrupt), \
                self.assertRaises(KeyboardInterrupt):
            trial.start(os.path.join(self.folder, 'run'), {})
        process, = started
        self.addCleanup(process.kill)
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)

    def test_what_is_not_there_is_named(self):
        with self.assertRaisesRegex(tributary.Error, 'metrics.jsonl does not exist'):
            tributary.read_metrics(self.folder)
        with self.assertRaisesRegex(tributary.Error, 'the run has not ended'):
            tributary.load(self.folder)

    def test_metrics_that_are_being_written_are_read_as_far_as_they_are_complete(self):
        with open(os.path.join(self.folder, 'metrics.jsonl'), 'w',
                  encoding='utf-8') as file:
            file.write('{"step": 1, "loss": 2.5}\n{"st{"step": 9}\n{"step": 2}\n'
                       '{"step": 3, "lo')
        metrics = tributary.read_metrics(self.folder)
        self.assertEqual(metrics['step'].tolist(), [1, 2])
        np.testing.assert_array_equal(metrics['loss'], [2.5, np.nan])


class LoadTest(support.JobTest):

    def write(self, header, data):
        text = json.dumps(header).encode()
        path = os.path.join(self.folder, 'model.safetensors')
        with open(path, 'wb') as file:
            file.write(len(text).to_bytes(8, 'little') + text + data)
        return path

    def test_other_files_are_refused(self):
        path = os.path.join(self.folder, 'model.safetensors')
        for content in (b'', b'something else', b'\xff' * 100):
            with open(path, 'wb') as file:
                file.write(content)
            with self.assertRaisesRegex(tributary.Error, 'is not a safetensors file'):
                tributary.load(path)

    def test_data_of_another_size_are_refused(self):
        path = self.write({'w': {'dtype': 'F32', 'shape': [3], 'data_offsets': [0, 8]}},
                          bytes(8))
        with self.assertRaisesRegex(tributary.Error, 'is not a safetensors file'):
            tributary.load(path)

    @support.needs_torch
    def test_a_module_must_fit(self):
        import torch
        path = self.write(
            {'weight': {'dtype': 'F32', 'shape': [1, 2], 'data_offsets': [0, 8]}},
            np.array([1, 2], np.float32).tobytes())
        linear = torch.nn.Linear(2, 1)
        bias = linear.bias.item()
        tributary.load(path, linear)
        self.assertEqual(linear.weight.tolist(), [[1, 2]])
        self.assertEqual(linear.bias.item(), bias)
        with self.assertRaisesRegex(tributary.Error, r'shape \[1, 2\] in .*\[1, 3\]'):
            tributary.load(path, torch.nn.Linear(3, 1))
        with self.assertRaisesRegex(tributary.Error, 'has a parameter weight'):
            tributary.load(path, torch.nn.ReLU())


if __name__ == '__main__':
    unittest.main()
