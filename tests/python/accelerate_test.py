"""Loops with Accelerate as workers."""

import importlib.util
import json
import os
import re
import sys
import unittest

import numpy as np

import tributary

import support

SERVERS = 'optimizer { sgd { learning_rate: 0.02 momentum: 0.9 } }'
PROGRAM = 'optimizer { program { state_arrays: 16 } } exchange { all_reduce {} }'
WORKER = os.path.join(support.WORKERS, 'trained_by_accelerate.py')


@unittest.skipUnless(support.has_torch() and importlib.util.find_spec('accelerate'),
                     'needs PyTorch and the package accelerate')
class AccelerateTest(support.JobTest):

    def job(self, more='', optimizer=SERVERS, **config):
        """Returns a job of 12 steps in 3 epochs."""
        config.setdefault('folder', self.folder)
        return self.write_job('job', support.external_job(config, samples=64, more=(
            f'{optimizer} batch {{ global: 16 micro_batches: 2 }} epochs: 3 {more}')))

    def digest(self, run, workers=1, more='', **config):
        return self.train(run, self.job(more, **config), WORKER, workers)['weights_sha256']

    def events(self, folder=None, rank=0):
        path = os.path.join(folder or self.folder, f'events-{rank}.json')
        with open(path, encoding='utf-8') as file:
            return json.load(file)['events']

    def test_weights_do_not_depend_on_the_number_of_workers(self):
        one = self.digest('one')
        alone = self.events()
        self.assertEqual(self.digest('two', workers=2), one)
        both = self.events()
        self.assertEqual([event[1] for event in alone], [8, 16, 24])
        self.assertEqual([event[1] for event in both], [4, 8, 12])
        self.assertEqual([event[2:] for event in alone], [event[2:] for event in both])
        # The schedule has one step for each micro-batch.
        rates = tributary.read_metrics(os.path.join(self.folder, 'two'))['learning_rate']
        np.testing.assert_allclose(rates, 0.02 * (1 - 0.9 * np.arange(12) / 12), rtol=1e-5)

    def test_the_first_worker_of_each_machine_is_its_local_main_process(self):
        for machines, local in ((1, False), (2, True)):
            folder = os.path.join(self.folder, f'of{machines}')
            os.mkdir(folder)
            environment = {'TRIBUTARY_LOCAL_RANK': 0} if machines == 2 else {}
            self.train(f'{machines}', self.job(folder=folder), WORKER, 2,
                       environment=environment)
            for rank, expected in enumerate(((True, True), (False, local))):
                for event in self.events(folder, rank):
                    self.assertEqual((event[3], event[5]), expected)

    def check_steps(self, optimizer):
        """Compares the weights with those of PyTorch's optimizer."""
        sys.path.insert(0, support.WORKERS)
        import reference
        import torch
        import trained_by_accelerate
        self.digest('run', workers=2, optimizer=optimizer)
        reference.initialize()
        network = trained_by_accelerate.make_network()
        x, y = trained_by_accelerate.data(64, 5).tensors
        rule = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
        schedule = torch.optim.lr_scheduler.LinearLR(rule, 1.0, 0.1, 12)
        expected = reference.train(
            network, rule, schedule,
            lambda indices: (network(x[indices]) - y[indices]).square().mean(),
            samples=64, batch=16, micro_batches=2, steps=12)
        for name, weights in tributary.load(os.path.join(self.folder, 'run')).items():
            np.testing.assert_allclose(weights, expected[name], atol=2e-6, err_msg=name)

    def test_steps_equal_those_of_pytorch(self):
        self.check_steps(SERVERS)

    def test_workers_run_the_optimizer_of_the_program(self):
        self.check_steps(PROGRAM)
        self.assertNotIn('in place of', self.log('run'))
        expected = self.digest('one', optimizer=PROGRAM)
        self.assertEqual(self.digest('two', workers=2, optimizer=PROGRAM), expected)
        # The job begins again, or continues in the first epoch.
        for kill, more in ((6, ''), (3, 'checkpoint { every_steps: 1 }')):
            folder = os.path.join(self.folder, f'folder{kill}')
            os.mkdir(folder)
            self.assertEqual(self.digest(f'lost{kill}', 2, more, optimizer=PROGRAM,
                                         folder=folder, kill=kill), expected)
            self.assertTrue(os.path.exists(os.path.join(folder, 'killed')))

    def test_states_have_the_weights_of_the_job(self):
        from safetensors.numpy import load_file
        self.digest('run', workers=2)
        ours = tributary.load(os.path.join(self.folder, 'run'))
        saved = load_file(os.path.join(self.folder, 'state', 'model.safetensors'))
        for name, weights in ours.items():
            np.testing.assert_array_equal(weights, saved[name], err_msg=name)

    def test_a_worker_that_was_killed_continues_in_its_epoch(self):
        expected = self.digest('whole')
        whole = self.events()
        for workers, kill in ((1, 13), (2, 6)):
            with self.subTest(workers=workers):
                folder = os.path.join(self.folder, f'of{workers}')
                os.mkdir(folder)
                self.assertEqual(self.digest(f'killed{workers}', workers, folder=folder,
                                             kill=kill), expected)
                self.assertTrue(os.path.exists(os.path.join(folder, 'killed')))
                if workers == 1:
                    past, *rest = self.events(folder)
                    # It saves nothing in an epoch of the past.
                    self.assertEqual((past[0], past[1], past[3], past[5]),
                                     (0, 0, False, False))
                    self.assertEqual([event[2:] for event in rest],
                                     [event[2:] for event in whole[1:]])

    def test_a_resumed_job_continues_from_the_state(self):
        expected = self.digest('whole')
        whole = self.events()
        folder = os.path.join(self.folder, 'halves')
        os.mkdir(folder)
        job = self.job('checkpoint { every_steps: 4 }', folder=folder, resume=True)
        with self.assertRaises(tributary.JobFailed):
            self.train('run', job, WORKER, environment={'STOP_AFTER': 12})
        resumed = self.train('run', job, WORKER, arguments=['--resume', 'auto'])
        self.assertEqual(resumed['weights_sha256'], expected)
        events = self.events(folder)
        self.assertEqual(events[:2], [whole[0], ['loaded']])
        self.assertEqual([event[2:] for event in events[-2:]],
                         [event[2:] for event in whole[1:]])

    def test_a_new_job_cannot_load_a_state(self):
        self.digest('run')
        self.assert_fails(['cannot be resumed by a new job'], 'again',
                          self.job(resume=True), WORKER)

    def test_gradient_accumulation_has_the_same_steps(self):
        self.digest('run', batch=4, accumulate=2, clip=1.0)
        self.assertEqual([event[1] for event in self.events()], [16, 32, 48])
        self.assertIn('max_norm=1.0 is not used', self.log('run'))

    def test_a_loop_that_ends_early_ends_the_job(self):
        one, two = (self.train(f'{workers}', self.job(epochs=2), WORKER, workers)
                    for workers in (1, 2))
        self.assertEqual((one['steps'], two['steps']), (8, 8))
        self.assertEqual(one['weights_sha256'], two['weights_sha256'])
        self.assertIn('has ended after step 8 of 12', self.log('1'))

    def test_mistakes_are_one_error(self):
        for number, (words, options) in enumerate((
                (['shuffle=True'], {'sequential': True}),
                (['gradient_accumulation_steps is 1', '2 batches'], {'batch': 4}))):
            with self.subTest(**options):
                self.assert_fails(words, f'run{number}', self.job(**options), WORKER)

    def test_the_example_learns(self):
        log = self.run_example('with_accelerate.py')
        self.assertGreater(float(re.findall(r'accuracy ([\d.]+)', log)[-1]), 0.8)


if __name__ == '__main__':
    unittest.main()
