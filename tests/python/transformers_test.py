"""Hugging Face's Trainer as a worker."""

import importlib.util
import json
import os
import re
import sys
import unittest

import numpy as np

import tributary

import support

SERVERS = 'optimizer { adamw { learning_rate: 0.05 weight_decay: 0.5 } }'
PROGRAM = 'optimizer { program { state_arrays: 16 } } exchange { all_reduce {} }'
WORKER = os.path.join(support.WORKERS, 'trained_by_trainer.py')


def version():
    from importlib import metadata
    return int(metadata.version('transformers').split('.')[0])


@unittest.skipUnless(support.has_torch() and importlib.util.find_spec('transformers') and
                     importlib.util.find_spec('accelerate') and version() >= 5,
                     'needs PyTorch and the packages transformers (5 or newer) and accelerate')
class TransformersTest(support.JobTest):

    def job(self, more='', optimizer=SERVERS, **config):
        """Returns a job of 12 steps in 3 epochs."""
        config.setdefault('folder', self.folder)
        return self.write_job('job', support.external_job(config, samples=64, more=(
            f'{optimizer} batch {{ global: 16 micro_batches: 2 }} epochs: 3 {more}')))

    def digest(self, run, workers=1, more='', **config):
        return self.train(run, self.job(more, **config), WORKER, workers)['weights_sha256']

    def seen(self, folder=None):
        path = os.path.join(folder or self.folder, 'events.json')
        with open(path, encoding='utf-8') as file:
            return json.load(file)

    def evaluations(self, folder=None):
        return [event[1:] for event in self.seen(folder)['events'] if event[0] == 'evaluate']

    def test_weights_do_not_depend_on_the_number_of_workers(self):
        one = self.digest('one')
        alone, evaluations = self.seen(), self.evaluations()
        self.assertEqual(self.digest('two', workers=2), one)
        both = self.seen()
        self.assertEqual(self.evaluations(), evaluations)
        # With two workers, each call of the optimizer is a step.
        self.assertEqual([event for event in both['events'] if event[0] == 'step'],
                         [['step', step / 4, step] for step in range(1, 13)])
        self.assertEqual((alone['steps'], both['steps']), (12, 12))
        rates = tributary.read_metrics(os.path.join(self.folder, 'two'))['learning_rate']
        np.testing.assert_allclose(rates, 0.05 * (1 - np.arange(12) / 12), rtol=1e-5)
        # The losses are means over the samples that the worker has seen.
        for run in (alone, both):
            losses = [entry['loss'] for entry in run['logs'] if 'loss' in entry]
            self.assertEqual(len(losses), 6)
            self.assertLess(max(losses), 1.5)

    def check_steps(self, optimizer):
        """Compares the weights with those of PyTorch's optimizer."""
        sys.path.insert(0, support.WORKERS)
        import reference
        import torch
        import trained_by_trainer
        self.digest('run', workers=2, optimizer=optimizer, options={'weight_decay': 0.5})
        reference.initialize()
        network = trained_by_trainer.Classifier()
        data = trained_by_trainer.Data(64, 5)
        # Trainer leaves biases and norms without weight decay.
        decay = [network.net[0].weight, network.net[4].weight]
        rest = [p for p in network.parameters() if not any(p is q for q in decay)]
        rule = torch.optim.AdamW([{'params': decay, 'weight_decay': 0.5},
                                  {'params': rest, 'weight_decay': 0.0}], lr=0.05)
        schedule = torch.optim.lr_scheduler.LambdaLR(rule, lambda step: 1 - step / 12)
        expected = reference.train(
            network, rule, schedule,
            lambda indices: network(data.x[indices], data.y[indices])['loss'],
            samples=64, batch=16, micro_batches=2, steps=12)
        for name, weights in tributary.load(os.path.join(self.folder, 'run')).items():
            np.testing.assert_allclose(weights, expected[name], atol=2e-5, err_msg=name)

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

    def test_checkpoints_have_the_weights_of_the_job(self):
        from safetensors.numpy import load_file
        self.digest('run', options={'load_best_model_at_end': True,
                                    'metric_for_best_model': 'accuracy'})
        ours = tributary.load(os.path.join(self.folder, 'run'))
        saved = load_file(os.path.join(self.folder, 'trainer', 'checkpoint-12',
                                       'model.safetensors'))
        for name, weights in ours.items():
            np.testing.assert_array_equal(weights, saved[name], err_msg=name)
        evaluations = self.evaluations()
        best = max(evaluations[:3], key=lambda event: event[2])
        self.assertTrue(self.seen()['best'].endswith(f'checkpoint-{best[1]}'))
        self.assertEqual(self.seen()['metrics']['eval_accuracy'], best[2])

    def test_a_worker_that_was_killed_continues_in_its_epoch(self):
        expected = self.digest('whole')
        evaluations = self.evaluations()
        for workers, kill in ((1, 13), (2, 6)):
            with self.subTest(workers=workers):
                folder = os.path.join(self.folder, f'of{workers}')
                os.mkdir(folder)
                self.assertEqual(self.digest(f'killed{workers}', workers, folder=folder,
                                             kill=kill), expected)
                self.assertTrue(os.path.exists(os.path.join(folder, 'killed')))
                if workers == 1:
                    self.assertEqual(self.evaluations(folder), evaluations[1:])

    def test_a_resumed_job_continues_from_the_checkpoint(self):
        expected = self.digest('whole')
        evaluations = self.evaluations()
        folder = os.path.join(self.folder, 'halves')
        os.mkdir(folder)
        job = self.job('checkpoint { every_steps: 4 }', folder=folder, resume=True)
        with self.assertRaises(tributary.JobFailed):
            self.train('run', job, WORKER, environment={'STOP_AFTER': 6})
        resumed = self.train('run', job, WORKER, arguments=['--resume', 'auto'])
        self.assertEqual(resumed['weights_sha256'], expected)
        self.assertEqual(self.evaluations(folder), evaluations[1:])
        # The history of the checkpoint is kept.
        epochs = [entry['epoch'] for entry in self.seen(folder)['logs']
                  if 'eval_accuracy' in entry]
        self.assertEqual(epochs[:3], [1.0, 2.0, 3.0])

    def test_a_new_job_cannot_resume_a_checkpoint(self):
        self.digest('run')
        self.assert_fails(['cannot be resumed by a new job'], 'again',
                          self.job(resume=True), WORKER)

    def test_gradient_accumulation_has_the_same_steps(self):
        self.digest('run', batch=4, options={'gradient_accumulation_steps': 2})
        self.assertEqual(self.seen()['steps'], 12)

    def test_mistakes_are_one_error(self):
        for number, (words, options) in enumerate((
                (['trains 8 steps', 'the job 12'], {'epochs': 2}),
                (['gradient_accumulation_steps is 1', '2 batches'], {'batch': 4}))):
            with self.subTest(**options):
                self.assert_fails(words, f'run{number}', self.job(**options), WORKER)

    def test_stops_when_the_job_stops_early(self):
        job = self.write_job('job', support.external_job(
            {'folder': self.folder}, samples=64, evaluation=16,
            more='optimizer { adamw { learning_rate: 0.05 } } epochs: 3 '
                 'batch { global: 16 micro_batches: 2 } evaluation { every_steps: 4 } '
                 'stop_when { target: 1000 }'))
        summary = self.train('run', job, WORKER, workers=2)
        self.assertEqual((summary['steps'], self.seen()['steps']), (4, 4))

    def test_early_stopping_ends_the_job(self):
        job = self.job(stop=True, options={'metric_for_best_model': 'accuracy',
                                           'load_best_model_at_end': True})
        one, two = (self.train(f'{workers}', job, WORKER, workers) for workers in (1, 2))
        self.assertEqual((one['steps'], self.seen()['steps']), (8, 8))
        self.assertEqual(one['weights_sha256'], two['weights_sha256'])
        # The model is the best one of the evaluations, not the last one.
        best = max(event[2] for event in self.evaluations()[:2])
        self.assertEqual(self.seen()['metrics']['eval_accuracy'], best)

    def test_clips_as_the_job_does(self):
        clipped = self.digest('job', more='clip_norm: 0.1', options={'max_grad_norm': 0.1})
        self.assertNotIn('is not used', self.log('job'))
        self.assertEqual(self.digest('other', more='clip_norm: 0.1',
                                     options={'max_grad_norm': 1.0}), clipped)
        self.assertIn('max_grad_norm=1.0 is not used', self.log('other'))

    def test_the_example_learns(self):
        log = self.run_example('with_transformers.py')
        self.assertGreater(float(re.findall(r'accuracy ([\d.]+)', log)[-1]), 0.8)


if __name__ == '__main__':
    unittest.main()
