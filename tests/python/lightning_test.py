"""LightningModules, trained by a Trainer with the TributaryStrategy."""

import glob
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
WORKER = os.path.join(support.WORKERS, 'trained_by_lightning.py')


@unittest.skipUnless(support.has_torch() and importlib.util.find_spec('lightning'),
                     'needs PyTorch and the package lightning')
class LightningTest(support.JobTest):

    def job(self, more='', optimizer=SERVERS, **config):
        """Returns a job of 12 steps in 3 epochs."""
        config.setdefault('folder', self.folder)
        return self.write_job('job', support.external_job(config, samples=64, more=(
            f'{optimizer} batch {{ global: 16 micro_batches: 2 }} epochs: 3 {more}')))

    def digest(self, run, workers=1, more='', **config):
        return self.train(run, self.job(more, **config), WORKER, workers)['weights_sha256']

    def seen(self):
        with open(os.path.join(self.folder, 'events.json'), encoding='utf-8') as file:
            return json.load(file)

    def validations(self):
        return [event[1:] for event in self.seen()['events'] if event[0] == 'validation']

    def rates(self, run):
        return tributary.read_metrics(os.path.join(self.folder, run))['learning_rate']

    def test_weights_do_not_depend_on_the_number_of_workers(self):
        one = self.digest('one', scheduler='cosine')
        alone = self.seen()
        two = self.digest('two', workers=2, scheduler='cosine')
        self.assertEqual(one, two)
        # With two workers, each batch is a step.
        steps = [event for event in self.seen()['events'] if event[0] == 'batch']
        self.assertEqual(steps, [['batch', (step - 1) // 4, step] for step in range(1, 13)])
        self.assertEqual([e for e in alone['events'] if e[0] == 'validation'],
                         [e for e in self.seen()['events'] if e[0] == 'validation'])
        self.assertEqual((alone['steps'], alone['epoch']), (12, 3))
        # estimated_stepping_batches is the number of the job's steps.
        expected = 0.02 * (1 + np.cos(np.pi * np.arange(12) / 12)) / 2
        np.testing.assert_allclose(self.rates('one'), expected, rtol=1e-5)
        np.testing.assert_array_equal(self.rates('one'), self.rates('two'))

    def test_the_module_and_its_checkpoints_have_the_weights_of_the_job(self):
        import torch
        self.digest('run')
        ours = tributary.load(os.path.join(self.folder, 'run'))
        last = torch.load(os.path.join(self.folder, 'last.pt'))
        saved = torch.load(os.path.join(self.folder, 'checkpoints', 'last.ckpt'),
                           weights_only=False)
        self.assertEqual(saved['global_step'], 12)
        for name, weights in ours.items():
            np.testing.assert_array_equal(weights, last[name].numpy())
            np.testing.assert_array_equal(weights, saved['state_dict'][name].numpy())
        seen = self.seen()
        best = min(loss for _, _, loss in self.validations())
        self.assertIn(f'step={next(s for _, s, l in self.validations() if l == best)}',
                      seen['best'])
        self.assertEqual(seen['validated'], self.validations()[-1][2])
        self.assertEqual(len(glob.glob(os.path.join(self.folder, 'log', '*', '*.csv'))), 1)

    def check_steps(self, optimizer):
        """Compares the weights with those of PyTorch's optimizer."""
        sys.path.insert(0, support.WORKERS)
        import reference
        import torch
        import trained_by_lightning
        self.digest('run', workers=2, optimizer=optimizer)
        reference.initialize()
        module = trained_by_lightning.Regression({})
        x, y = trained_by_lightning.data(64, 5).tensors
        expected = reference.train(
            module, module.configure_optimizers(), None,
            lambda indices: (module.net(x[indices]) - y[indices]).square().mean(),
            samples=64, batch=16, micro_batches=2, steps=12)
        for name, weights in tributary.load(os.path.join(self.folder, 'run')).items():
            np.testing.assert_allclose(weights, expected[name], atol=2e-6, err_msg=name)
        self.assertTrue(torch.is_grad_enabled())

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

    def test_a_job_that_begins_again_has_the_same_epochs(self):
        for name, optimizer in (('program', PROGRAM), ('servers', SERVERS)):
            expected = self.digest(name, 2, optimizer=optimizer, scheduler='epoch')
            for kills_server in (False, True):
                run = f'{name} {kills_server}'
                folder = os.path.join(self.folder, 'folder ' + run)
                os.mkdir(folder)
                digest = self.digest(run, 2, optimizer=optimizer, scheduler='epoch', kill=6,
                                     kills_server=kills_server, folder=folder)
                self.assertEqual(digest, expected, run)
                self.assertTrue(os.path.exists(os.path.join(folder, 'killed')))

    def test_schedulers_by_epoch_and_by_metric_agree(self):
        self.digest('epoch', workers=2, scheduler='epoch')
        np.testing.assert_allclose(self.rates('epoch'), np.repeat([0.02, 0.01, 0.005], 4))
        self.digest('plateau', workers=2, scheduler='plateau')
        np.testing.assert_allclose(self.rates('plateau'),
                                   np.repeat([0.02, 0.02, 0.002], 4), rtol=1e-5)

    def test_a_worker_that_was_killed_continues_in_its_epoch(self):
        expected = self.digest('whole', scheduler='cosine')
        validations = self.validations()
        for workers, kill, signal in ((1, 13, 'SIGKILL'), (1, 13, 'SIGTERM'),
                                      (2, 6, 'SIGKILL')):
            with self.subTest(workers=workers, signal=signal):
                name = f'{signal}{workers}'
                folder = os.path.join(self.folder, 'folder' + name)
                os.mkdir(folder)
                self.assertEqual(self.digest(name, workers, folder=folder, kill=kill,
                                             scheduler='cosine', signal=signal), expected)
                self.assertTrue(os.path.exists(os.path.join(folder, 'killed')))
                if workers == 1:
                    with open(os.path.join(folder, 'events.json'), encoding='utf-8') as file:
                        again = json.load(file)
                    self.assertEqual(again['events'][0][:2], ['batch', 1])
                    self.assertEqual([event[1:] for event in again['events']
                                      if event[0] == 'validation'], validations[1:])

    def test_a_resumed_job_continues_callbacks_from_the_checkpoint(self):
        expected = self.digest('whole', scheduler='cosine')
        folder = os.path.join(self.folder, 'halves')
        os.mkdir(folder)
        job = self.job('checkpoint { every_steps: 4 }', folder=folder, scheduler='cosine',
                       resume=True)
        with self.assertRaises(tributary.JobFailed):
            self.train('run', job, WORKER, environment={'STOP_AFTER': 6})
        resumed = self.train('run', job, WORKER, arguments=['--resume', 'auto'])
        self.assertEqual(resumed['weights_sha256'], expected)
        with open(os.path.join(folder, 'events.json'), encoding='utf-8') as file:
            events = json.load(file)['events']
        loaded = events.index(['loaded'])
        self.assertEqual(events[loaded - 1][:3], ['validation', 0, 4])
        self.assertEqual(events[loaded + 1][:2], ['batch', 1])

    def test_a_new_job_cannot_resume_a_checkpoint(self):
        self.digest('run')
        self.assert_fails(['cannot be resumed by a new job'], 'again',
                          self.job(resume=True), WORKER)

    def test_manual_optimization_and_accumulation_have_the_same_steps(self):
        expected = self.digest('run')
        self.assertEqual(self.digest('manual', manual=True), expected)
        self.digest('parts', batch=4, accumulate=2)
        ours, whole = (tributary.load(os.path.join(self.folder, run))
                       for run in ('parts', 'run'))
        self.assertEqual(self.seen()['steps'], 12)
        self.assertEqual(set(ours), set(whole))

    def test_mistakes_are_one_error(self):
        for words, options in (
                (['stopped after step 8 of 12'], {'epochs': 2}),
                (['stop_when of the job'], {'stop': True, 'optimizer': PROGRAM}),
                (['accumulate_grad_batches is 1', '2 batches'], {'batch': 4})):
            with self.subTest(**options):
                self.assert_fails(words, f'run{len(words)}{len(options)}{next(iter(options))}',
                                  self.job(**options), WORKER)

    def test_stops_when_the_job_stops_early(self):
        job = self.write_job('job', support.external_job(
            {'folder': self.folder}, samples=64, evaluation=16,
            more='optimizer { sgd { learning_rate: 0.02 momentum: 0.9 } } epochs: 3 '
                 'batch { global: 16 micro_batches: 2 } evaluation { every_steps: 4 } '
                 'stop_when { target: 1000 }'))
        summary = self.train('run', job, WORKER, workers=2)
        self.assertEqual((summary['steps'], self.seen()['steps']), (4, 4))

    def test_early_stopping_ends_the_job(self):
        one, two = (self.train(f'{workers}', self.job(stop=True), WORKER, workers)
                    for workers in (1, 2))
        self.assertEqual((one['steps'], self.seen()['steps']), (8, 8))
        self.assertIn('program', one['stop_reason'])
        self.assertEqual(one['weights_sha256'], two['weights_sha256'])

    def test_clips_as_the_job_does(self):
        self.digest('run', clip=0.5)
        self.assertIn('clip_norm: 0', self.log('run'))

    def test_the_example_learns(self):
        log = self.run_example('with_lightning.py')
        self.assertGreater(float(re.findall(r'accuracy ([\d.]+)', log)[-1]), 0.8)

    @unittest.skipUnless(importlib.util.find_spec('pytorch_lightning'),
                         'needs the package pytorch_lightning')
    def test_the_package_pytorch_lightning_has_the_same_weights(self):
        expected = self.digest('run')
        summary = self.train('other', self.job(), WORKER,
                             environment={'LIGHTNING': 'pytorch_lightning'})
        self.assertEqual(summary['weights_sha256'], expected)


if __name__ == '__main__':
    unittest.main()
