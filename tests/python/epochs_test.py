"""tributary.Optimizer and Session.loader in loops over epochs."""

import os
import subprocess
import sys
import unittest

import numpy as np

import tributary

import support

EPOCHS = os.path.join(support.WORKERS, 'epochs.py')


@support.needs_torch
class EpochsTest(support.JobTest):

    def job(self, special, micro_batches=4, more='', **config):
        return self.write_job(special, support.external_job(
            {'special': special, **config}, samples=44,
            more='optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } } '
                 f'batch {{ global: 8 micro_batches: {micro_batches} }} epochs: 3 ' + more))

    def digest(self, run, job, workers, **options):
        return self.train(run, job, EPOCHS, workers=workers, **options)['weights_sha256']

    def rates(self, run):
        return tributary.read_metrics(os.path.join(self.folder, run))['learning_rate']

    def test_steps_equal_those_of_pytorch(self):
        for micro_batches in (1, 4):
            with self.subTest(micro_batches=micro_batches):
                run = f'run{micro_batches}'
                self.train(run, self.job('step', micro_batches), EPOCHS)
                path = os.path.join(self.folder, 'plain.npz')
                subprocess.run([sys.executable, EPOCHS, path, str(micro_batches)],
                               check=True)
                ours = tributary.load(os.path.join(self.folder, run))
                for name, weights in np.load(path).items():
                    np.testing.assert_allclose(ours[name], weights, atol=2e-6,
                                               err_msg=name)

    def test_weights_do_not_depend_on_the_number_of_workers(self):
        for special in ('step', 'epoch', 'processes'):
            job = self.job(special)
            one = self.digest(special + '1', job, 1)
            for workers in (2, 4):
                with self.subTest(special=special, workers=workers):
                    self.assertEqual(self.digest(f'{special}{workers}', job, workers), one)
        self.assertAlmostEqual(self.rates('step1')[0], 0.025)
        np.testing.assert_array_equal(self.rates('step1'), self.rates('step4'))
        np.testing.assert_allclose(self.rates('epoch2'),
                                   np.repeat([0.1, 0.05, 0.025], 6))

    def test_all_reduce_has_the_same_weights(self):
        digests = {self.digest('ps', self.job('step'), 2),
                   self.digest('all', self.job('step', more='exchange { all_reduce {} }'), 2)}
        self.assertEqual(len(digests), 1)

    def test_groups_keep_their_factor(self):
        self.assertEqual(self.digest('1', self.job('groups'), 1),
                         self.digest('2', self.job('groups'), 2))

    def test_a_worker_that_was_killed_continues_with_the_same_weights(self):
        expected = self.digest('whole', self.job('step'), 1)
        for workers, kill in ((1, 60), (2, 7)):
            with self.subTest(workers=workers):
                folder = os.path.join(self.folder, f'of{workers}')
                os.mkdir(folder)
                job = self.job('step', kill=kill, folder=folder)
                summary = self.train(f'killed{workers}', job, EPOCHS, workers=workers)
                self.assertTrue(os.path.exists(os.path.join(folder, 'killed')))
                self.assertEqual(summary['weights_sha256'], expected)

    def test_the_module_has_the_last_weights(self):
        for exchange in ('parameter_server', 'all_reduce'):
            with self.subTest(exchange=exchange):
                self.train(exchange, self.job('plain', folder=self.folder, more=
                                              f'exchange {{ {exchange} {{}} }}'),
                           EPOCHS, workers=2)
                last = np.load(os.path.join(self.folder, 'last.npz'))
                ours = tributary.load(os.path.join(self.folder, exchange))
                for name, weights in ours.items():
                    np.testing.assert_array_equal(weights, last[name])

    def test_a_worker_that_disagrees_about_the_rate_gets_an_error(self):
        self.train('run', self.job('disagree'), EPOCHS, workers=2)
        logs = self.log('run', 0) + self.log('run', 1)
        self.assertIn('different learning rates for step 0: 0.', logs)

    def test_two_schedules_are_an_error(self):
        self.assert_fails(['has a schedule'], 'run',
                          self.job('step', more='schedule { decay: COSINE }'), EPOCHS)

    def test_local_steps_have_no_rate_of_the_program(self):
        self.assert_fails(['local_steps'], 'run', self.job('step', more=(
            'exchange { parameter_server { consistency { local_steps { inner_steps: 2 } } } }')),
            EPOCHS)

    def test_the_data_set_must_be_that_of_the_job(self):
        job = self.write_job('job', support.external_job(
            {'special': 'plain'}, samples=45,
            more='optimizer { sgd { learning_rate: 0.1 } } batch { global: 8 } epochs: 1'))
        self.assert_fails(['44 samples', 'train_samples: 45'], 'run', job, EPOCHS)


@support.needs_torch
class OptimizerClassTest(unittest.TestCase):

    def test_is_an_optimizer_of_pytorch(self):
        import torch
        self.assertTrue(issubclass(tributary.Optimizer, torch.optim.Optimizer))

    def test_schedulers_of_other_optimizers_are_unchanged(self):
        import torch
        import tributary.optimizer  # Counts steps of its own schedulers only.
        net = torch.nn.Linear(1, 1)
        rule = torch.optim.SGD(net.parameters(), lr=1.0)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(rule, 0.5)
        rates = []
        for _ in range(3):
            rates.append(rule.param_groups[0]['lr'])
            rule.step()
            scheduler.step()
        self.assertEqual(rates, [1.0, 0.5, 0.25])


if __name__ == '__main__':
    unittest.main()
