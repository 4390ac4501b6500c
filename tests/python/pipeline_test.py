"""The example pipeline.py: a module that is divided among the processes of a group, which
is one worker."""

import importlib.util
import os
import shlex
import sys
import unittest

import numpy as np
import support
import tributary

PIPELINE = os.path.join(support.EXAMPLES, 'pipeline.py')
JOB = os.path.join(support.EXAMPLES, 'digits.textproto')
SETTINGS = {'steps': 40, 'evaluation.every_steps': 20,
            'optimizer': '{ sgd { learning_rate: 0.05 } }'}


@support.needs_torch
class PipelineTest(support.JobTest):

    def train_groups(self, run, program, processes, groups):
        # PyTorch 1.13 cannot parse its default of --redirects with Python 3.11.
        command = shlex.join([
            '/usr/bin/env', 'EXAMPLES=' + support.EXAMPLES, 'MARKER=' + self.marker(),
            sys.executable, '-m', 'torch.distributed.run', '--redirects', '1', '--tee', '1',
            '--monitor_interval', '0.1', '--rdzv_backend', 'c10d',
            '--rdzv_endpoint', 'localhost:0', '--nproc_per_node', str(processes), program])
        return tributary.train(JOB, os.path.join(self.folder, run), workers=groups,
                               worker_command=command, settings=SETTINGS)

    def marker(self):
        return os.path.join(self.folder, 'marker')

    def check_learns_what_the_undivided_module_learns(self, program, processes):
        parts = self.train_groups('parts', program, processes, 1)
        whole = self.train('whole', JOB, os.path.join(support.WORKERS, 'plain_layers.py'),
                           settings=SETTINGS, environment={'EXAMPLES': support.EXAMPLES})
        self.assertLess(whole['final_loss'], 2.2)  # That of guessing is 2.3.
        np.testing.assert_allclose(parts['final_loss'], whole['final_loss'], rtol=1e-6)
        self.assertEqual(parts['evaluation']['accuracy'], whole['evaluation']['accuracy'])
        weights = [tributary.load(os.path.join(self.folder, run))
                   for run in ('parts', 'whole')]
        self.assertEqual(weights[0].keys(), weights[1].keys())
        for name, values in weights[0].items():
            np.testing.assert_allclose(values, weights[1][name], rtol=0, atol=1e-6)

    def test_learns_what_the_undivided_module_learns(self):
        self.check_learns_what_the_undivided_module_learns(PIPELINE, 3)

    def test_learns_it_with_a_schedule_of_pytorch(self):
        if importlib.util.find_spec('torch.distributed.pipelining') is None:
            self.skipTest('needs PyTorch 2.4 or newer')
        self.check_learns_what_the_undivided_module_learns(
            os.path.join(support.WORKERS, 'scheduled_pipeline.py'), 2)

    def test_has_the_same_bits_when_a_group_is_killed(self):
        program = os.path.join(support.WORKERS, 'killed_pipeline.py')
        killed = self.train_groups('killed', program, 2, 2)
        self.assertTrue(os.path.exists(self.marker()))
        self.assertGreaterEqual(killed['workers_lost'], 1)
        undisturbed = self.train_groups('undisturbed', PIPELINE, 2, 1)
        self.assertEqual(killed['weights_sha256'], undisturbed['weights_sha256'])


if __name__ == '__main__':
    unittest.main()
