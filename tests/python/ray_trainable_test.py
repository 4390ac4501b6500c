"""Searches of Ray Tune whose trials are jobs."""

import collections
import importlib.util
import json
import os
import subprocess
import sys
import unittest

import tributary
from tributary import _native

import support

WORKER = os.path.join(support.WORKERS, 'counted.py')
RATE = 'optimizer.sgd.learning_rate'


@unittest.skipUnless(importlib.util.find_spec('ray') and importlib.util.find_spec('pandas'),
                     'needs the package ray[tune]')
class RayTest(support.JobTest):

    @classmethod
    def setUpClass(cls):
        import ray
        import ray.tune
        cls.ray = ray
        os.environ['RAY_USAGE_STATS_ENABLED'] = '0'
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    @classmethod
    def tearDownClass(cls):
        cls.ray.shutdown()

    def setUp(self):
        super().setUp()
        self.job = support.counted_job(self, 'schedule { decay: LINEAR }')

    def trainable(self, job=None, **keywords):
        keywords.setdefault('worker_command', [sys.executable, WORKER])
        return tributary.ray.trainable(self.job if job is None else job, **keywords)

    def fit(self, trainable, rates, scheduler, **options):
        """Trains with each of these learning rates. Returns Ray's results."""
        tune = self.ray.tune
        results = tune.Tuner(
            trainable, param_space={RATE: tune.grid_search(rates)},
            tune_config=tune.TuneConfig(metric='evaluation_loss', mode='min',
                                        scheduler=scheduler, **options),
            run_config=tune.RunConfig(storage_path=self.folder, name='search',
                                      verbose=0)).fit()
        self.assertFalse(results.errors)
        return results

    def check_counts(self, results):
        """Each step of a trial was computed once, and the weights are those of the job."""
        computed = collections.Counter(
            (rate, step) for rate, step, _ in support.counted(self))
        expected = collections.Counter(
            (result.config[RATE], step)
            for result in results for step in range(result.metrics['steps']))
        self.assertEqual(computed, expected)
        for number, result in enumerate(results):
            if result.metrics['steps'] < 12:
                continue
            alone = self.train(f'alone{number}', self.job, WORKER,
                               settings={RATE: result.config[RATE]})
            self.assertEqual(result.metrics['weights_sha256'], alone['weights_sha256'])
            self.assertEqual(result.metrics['evaluation_loss'], alone['evaluation']['loss'])
            self.assertEqual(result.metrics['evaluation_distance'],
                             alone['evaluation']['distance'])

    def test_asha_pauses_and_resumes_trials_without_computing_a_step_twice(self):
        tune = self.ray.tune
        paused = collections.Counter()

        # Other resources after each iteration: Ray pauses the trial, ends its actor, and
        # continues with the checkpoint in another one.
        def allocate(_, trial, result, __):
            paused[trial.config[RATE]] += 1
            return tune.PlacementGroupFactory([{'CPU': 1 + result['training_iteration'] % 2}])

        asha = tune.schedulers.ASHAScheduler(time_attr='steps', grace_period=4, max_t=12,
                                             reduction_factor=2)
        # One at a time, so that the best trial reaches the first rung first.
        results = self.fit(
            self.trainable(), [0.5, 0.002, 0.001],
            tune.schedulers.ResourceChangingScheduler(asha, allocate),
            max_concurrent_trials=1)
        self.assertEqual({result.config[RATE]: result.metrics['steps']
                          for result in results}, {0.5: 12, 0.002: 4, 0.001: 4})
        self.assertGreaterEqual(paused[0.5], 2)
        self.check_counts(results)

    def test_population_based_training_continues_checkpoints_of_others(self):
        tune = self.ray.tune
        scheduler = tune.schedulers.PopulationBasedTraining(
            time_attr='steps', perturbation_interval=4, quantile_fraction=0.5, synch=True,
            resample_probability=0, hyperparam_mutations={RATE: [0.5, 0.4, 0.3, 0.001]})
        results = self.fit(self.trainable(), [0.5, 0.001], scheduler)
        self.assertEqual([result.metrics['steps'] for result in results], [12, 12])
        # The trial with the small rate has taken over the weights of the other one.
        self.assertNotIn(0.001, [result.config[RATE] for result in results])
        losses = [result.metrics['evaluation_loss'] for result in results]
        alone = self.train('alone', self.job, WORKER, settings={RATE: 0.001})
        self.assertLess(max(losses), 0.5 * alone['evaluation']['loss'])
        # Two trials of 12 steps; the last 12 are those of `alone`.
        self.assertEqual(len(support.counted(self)), 2 * 12 + 12)

    def test_an_actor_that_was_killed_continues_from_rays_checkpoint(self):
        class Killed(self.trainable(settings=lambda config: {RATE: config[RATE]})):
            def step(self):
                if self._done == 4 and not os.path.exists(self.config['marker']):
                    with open(self.config['marker'], 'w', encoding='utf-8'):
                        os._exit(1)
                return super().step()

        tune = self.ray.tune
        marker = os.path.join(self.folder, 'marker')
        results = tune.Tuner(
            Killed, param_space={RATE: 0.5, 'marker': marker},
            run_config=tune.RunConfig(
                storage_path=self.folder, name='killed', verbose=0,
                failure_config=tune.FailureConfig(max_failures=1),
                checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1))).fit()
        self.assertTrue(os.path.exists(marker))
        self.check_counts(results)

    def test_a_trial_is_done_when_its_program_ends_the_job(self):
        tune = self.ray.tune
        config = json.dumps({'count': os.path.join(self.folder, 'count'), 'end': 6})
        threads = os.path.join(self.folder, 'threads')
        command = f'echo $TRIBUTARY_THREADS > {threads}; exec {sys.executable} {WORKER}'
        result, = tune.Tuner(
            self.trainable(settings={'model.external.config': config},
                           worker_command=['sh', '-c', command],
                           arguments=['--threads=3']),
            param_space={RATE: 0.5}, run_config=tune.RunConfig(
                storage_path=self.folder, name='ended', verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True))).fit()
        self.assertIsNone(result.error)
        self.assertEqual(result.metrics['steps'], 6)
        self.assertEqual([step for _, step, _ in support.counted(self)], list(range(6)))
        checkpoint = os.path.join(result.checkpoint.path, 'checkpoint')
        done = subprocess.run([_native.program(), 'checkpoint', 'verify', checkpoint],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Not the share of the trial's CPUs.
        with open(threads, encoding='utf-8') as file:
            self.assertEqual(file.read(), '3\n')

    def test_mistakes(self):
        tune = self.ray.tune
        with open(self.job, encoding='utf-8') as file:
            epochs = self.write_job('epochs', file.read().replace('steps: 12', 'epochs: 2'))
        for name, (words, keywords, space) in enumerate((
                ([RATE], {}, {RATE: -1.0}),
                (['evaluation.every_steps'],
                 {'settings': {'evaluation.every_steps': 0}}, {RATE: 0.5}),
                (['set steps in the job'], {'job': epochs}, {RATE: 0.5}),
                (['stop_when'], {'settings': {'stop_when.patience': 1}}, {RATE: 0.5}),
                # In an iteration, after the actor has begun.
                (['JobFailed', 'KeyError'],
                 {'settings': {'model.external.config': '{}'}}, {RATE: 0.5}))):
            results = tune.Tuner(
                self.trainable(**keywords), param_space=space,
                run_config=tune.RunConfig(storage_path=self.folder, name=str(name),
                                          verbose=0)).fit()
            self.assertEqual(len(results.errors), 1)
            for word in words:
                self.assertIn(word, str(results.errors[0]))
        with self.assertRaises(tributary.Error):
            self.trainable(job=os.path.join(self.folder, 'missing.textproto'))

    def test_the_example(self):
        done = subprocess.run(
            [sys.executable, os.path.join(support.EXAMPLES, 'with_ray_tune.py')],
            cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^best \{'optimizer.sgd.learning_rate': ")


if __name__ == '__main__':
    unittest.main()
