"""tributary.Optimizer, in a loop that PyTorch's optimizers could run."""

import os
import subprocess
import sys
import unittest

import numpy as np

import tributary

import support

LOOP = os.path.join(support.WORKERS, 'loop.py')


@support.needs_torch
class OptimizerTest(support.JobTest):

    def job(self, special, micro_batches=1, more=''):
        return self.write_job('job', support.external_job(
            {'special': special}, samples=8 * micro_batches,
            evaluation=64 if 'evaluation' in more else 0,
            more='optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } } '
                 f'batch {{ global: {8 * micro_batches} micro_batches: {micro_batches} }} '
                 'steps: 40 ' + more))

    def losses(self):
        return tributary.read_metrics(os.path.join(self.folder, 'run'))['loss']

    def check_equals_pytorch(self, special):
        self.train('run', self.job(special), LOOP)
        path = os.path.join(self.folder, 'plain.npz')
        subprocess.run([sys.executable, LOOP, path], check=True)
        ours = tributary.load(os.path.join(self.folder, 'run'))
        plain = np.load(path)
        self.assertEqual(sorted(ours), sorted(plain))
        for name, weights in ours.items():
            np.testing.assert_allclose(weights, plain[name], atol=1e-5, err_msg=name)

    def test_one_worker_takes_the_steps_of_pytorch(self):
        self.check_equals_pytorch('loss')
        losses = self.losses()
        self.assertLess(losses[-1], 0.2 * losses[0])

    def test_the_loss_may_come_from_a_closure(self):
        self.check_equals_pytorch('closure')
        self.assertGreater(self.losses()[0], 0.1)

    def test_a_scaler_of_gradients_changes_neither_weights_nor_losses(self):
        import torch
        if not hasattr(torch.amp, 'GradScaler'):
            self.skipTest('needs PyTorch 2.3 or newer, whose GradScaler works on CPUs')
        digests, losses = set(), []
        for enabled in (False, True):
            job = self.write_job('job', support.external_job(
                {'enabled': enabled}, samples=8,
                more='optimizer { sgd { learning_rate: 0.1 } } batch { global: 8 '
                     'micro_batches: 1 } steps: 10 on_nonfinite: SKIP'))
            run = f'scaled{enabled}'
            digests.add(self.train(run, job, os.path.join(support.WORKERS, 'scaled.py'))
                        ['weights_sha256'])
            losses.append(tributary.read_metrics(os.path.join(self.folder, run))['loss'])
        self.assertEqual(len(digests), 1)
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)

    def test_two_workers_complete_the_job(self):
        summary = self.train('run', self.job('loss', micro_batches=4), LOOP, workers=2)
        self.assertEqual((summary['status'], summary['steps']), ('done', 40))
        losses = self.losses()
        self.assertLess(losses[-1], 0.2 * losses[0])

    def test_two_workers_of_an_all_reduce_train_one_model(self):
        exchange = 'exchange { all_reduce {} }'
        one = self.train('one', self.job('loss', more=exchange), LOOP)
        # Each worker reads all samples, so the mean of both gradients is that of one.
        two = self.train('two', self.job('loss', micro_batches=2, more=exchange), LOOP,
                         workers=2)
        self.assertEqual(two['weights_sha256'], one['weights_sha256'])

    def test_a_worker_that_was_killed_joins_again(self):
        marker = os.path.join(self.folder, 'marker')
        summary = self.train('run', self.job('kill', micro_batches=4), LOOP, workers=2,
                             environment={'MARKER': marker})
        self.assertTrue(os.path.exists(marker))
        self.assertGreaterEqual(summary['workers_lost'], 1)
        self.assertEqual((summary['status'], summary['steps']), ('done', 40))
        losses = self.losses()
        self.assertLess(losses[-1], 0.2 * losses[0])

    def test_evaluates_with_a_function_of_the_program(self):
        job = self.job('evaluate', more='evaluation { every_steps: 20 batch: 16 }')
        summary = self.train('run', job, LOOP)
        self.assertGreater(summary['evaluation']['accuracy'], 0.9)
        self.assertEqual(summary['evaluation']['half'], 0.5)
        errors = tributary.read_metrics(
            os.path.join(self.folder, 'run'))['evaluation_absolute_error']
        self.assertLess(0, errors[-1])
        self.assertLess(errors[-1], 0.2)

    def test_a_job_that_evaluates_needs_the_function(self):
        job = self.job('loss', more='evaluation { every_steps: 20 batch: 16 }')
        self.assert_fails(['pass evaluate=... to tributary.Optimizer'], 'run', job, LOOP)

    def test_another_optimizer_in_the_loop_is_an_error(self):
        self.assert_fails(['the program has changed parameter 0.weight'], 'run',
                          self.job('other'), LOOP)

    def test_a_step_without_backward_is_an_error(self):
        self.assert_fails(['micro-batch', 'call backward of the loss'], 'run',
                          self.job('forgotten'), LOOP)

    def test_a_loop_that_ends_early_is_reported(self):
        self.assert_fails(['the program has ended before the job; repeat the loop'], 'run',
                          self.job('early'), LOOP)


@support.needs_torch
class ExampleTest(support.JobTest):

    def test_the_loop_of_the_example_trains_with_one_and_two_workers(self):
        for workers in (1, 2):
            summary = self.train(
                str(workers), os.path.join(support.EXAMPLES, 'loop.textproto'),
                os.path.join(support.EXAMPLES, 'loop.py'), workers,
                {'steps': 60, 'output.log_every_steps': 1})
            self.assertEqual((summary['status'], summary['steps']), ('done', 60))
            losses = tributary.read_metrics(
                os.path.join(self.folder, str(workers)))['loss']
            self.assertLess(losses[-10:].mean(), 0.8 * losses[:5].mean())

    def test_the_loop_of_the_example_begins_with_the_weights_of_the_seed(self):
        with open(os.path.join(support.EXAMPLES, 'loop.textproto'),
                  encoding='utf-8') as file:
            job = self.write_job('job', file.read() + ' exchange { all_reduce {} }')
        runs = [self.train(name, job, os.path.join(support.EXAMPLES, 'loop.py'), 2,
                           {'steps': 4}) for name in ('a', 'b')]
        self.assertEqual(runs[0]['weights_sha256'], runs[1]['weights_sha256'])


if __name__ == '__main__':
    unittest.main()
