"""Studies of Optuna whose trials are jobs."""

import importlib.util
import os
import subprocess
import sys
import unittest

import tributary

import support

WORKER = os.path.join(support.WORKERS, 'counted.py')
RATE = 'optimizer.sgd.learning_rate'
RATES = [0.5, 0.2, 0.01, 0.001]
LONG = 6000  # Steps.


@unittest.skipUnless(importlib.util.find_spec('optuna'), 'needs the package optuna')
class OptunaTest(support.JobTest):

    def setUp(self):
        super().setUp()
        import optuna
        self.optuna = optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.job = support.counted_job(self, 'schedule { decay: LINEAR }')

    def study(self, **keywords):
        keywords.setdefault('pruner', self.optuna.pruners.NopPruner())
        return self.optuna.create_study(**keywords)

    def objective(self, space, **keywords):
        keywords.setdefault('output', os.path.join(self.folder, 'runs'))
        keywords.setdefault('worker_command', [sys.executable, WORKER])
        return tributary.optuna.objective(keywords.pop('job', self.job), space, **keywords)

    def space(self, trial):
        return {RATE: trial.suggest_categorical('rate', RATES)}

    def run_all(self, objective, study, **keywords):
        """Trains with each of RATES."""
        for rate in RATES:
            study.enqueue_trial({'rate': rate})
        study.optimize(objective, n_trials=len(RATES), **keywords)

    def test_trials_report_each_evaluation_and_have_the_weights_of_the_job(self):
        study = self.study()
        self.run_all(self.objective(self.space), study)
        for trial, rate in zip(study.trials, RATES):
            run = os.path.join(self.folder, 'runs', f'{trial.number:05d}')
            self.assertEqual(trial.user_attrs['run'], run)
            metrics = tributary.read_metrics(run)
            evaluated = {int(step): loss for step, loss in
                         zip(metrics['step'], metrics['evaluation_loss'])
                         if loss == loss}
            self.assertEqual(trial.intermediate_values, evaluated)
            self.assertEqual(list(evaluated), [4, 8, 12])
            self.assertEqual(trial.value, evaluated[12])
            alone = self.train(f'alone{rate}', self.job, WORKER, settings={RATE: rate})
            self.assertEqual(trial.user_attrs['weights_sha256'], alone['weights_sha256'])
        self.assertEqual(study.best_trial.number, 0)

    def test_a_pruned_trial_stops_at_a_checkpoint_from_which_it_can_be_resumed(self):
        class Pruner(self.optuna.pruners.BasePruner):
            def prune(self, study, trial):
                return trial.params['rate'] == RATES[1] and trial.last_step >= 4

        def space(trial):
            rate = trial.suggest_categorical('rate', RATES)
            # Long, because the pruned trial must not end before it is stopped.
            return {RATE: rate, 'steps': LONG if rate == RATES[1] else 12}

        study = self.study(pruner=Pruner())
        self.run_all(self.objective(space), study)
        State = self.optuna.trial.TrialState
        self.assertEqual([trial.state for trial in study.trials], [
            State.COMPLETE, State.PRUNED, State.COMPLETE, State.COMPLETE])
        pruned = study.trials[1]
        self.assertEqual(list(pruned.intermediate_values), [4])
        self.assertNotIn('failure', pruned.user_attrs)
        run = pruned.user_attrs['run']
        checkpoints = os.listdir(os.path.join(run, 'checkpoints'))
        self.assertIn('latest', checkpoints)
        self.assertNotIn(f'step-{LONG:08d}', checkpoints)
        resumed = tributary.train(
            os.path.join(run, 'job.textproto'), run, workers=1,
            worker_command=[sys.executable, WORKER], arguments=['--resume', 'auto'])
        alone = self.train('alone', self.job, WORKER,
                           settings={RATE: RATES[1], 'steps': LONG})
        self.assertEqual(resumed['weights_sha256'], alone['weights_sha256'])

    def test_a_failed_trial_has_its_reason(self):
        study = self.study()

        def space(trial):
            return {'optimizer.sgd.momentum': trial.suggest_float('momentum', 2, 3)}

        with self.assertRaises(tributary.JobFailed) as raised:
            study.optimize(self.objective(space), n_trials=2)
        self.assertEqual(raised.exception.exit_code, 2)
        study.optimize(self.objective(space), n_trials=2, catch=(tributary.JobFailed,))
        self.assertEqual([trial.state for trial in study.trials],
                         3 * [self.optuna.trial.TrialState.FAIL])
        for trial in study.trials:
            self.assertIn('optimizer.sgd.momentum', trial.user_attrs['failure'])
            self.assertIn(self.job, trial.user_attrs['failure'])

    def test_an_earlier_run_in_the_folder_is_no_result_of_a_trial(self):
        def train(rate, **keywords):
            study = self.study()
            study.enqueue_trial({'rate': rate})
            study.optimize(self.objective(self.space, **keywords), n_trials=1,
                           catch=(tributary.JobFailed,))
            return study.trials[0]

        first, refused = train(RATES[0]), train(RATES[1])
        self.assertEqual(refused.intermediate_values, {})
        self.assertIn('another run', refused.user_attrs['failure'])
        replaced = train(RATES[1], arguments=['--overwrite'])
        self.assertEqual(list(replaced.intermediate_values), [4, 8, 12])
        self.assertNotEqual(replaced.intermediate_values[4], first.intermediate_values[4])
        resumed = train(RATES[1], arguments=['--resume=auto'])
        self.assertEqual(resumed.intermediate_values, replaced.intermediate_values)

    def test_named_metrics_and_several_objectives(self):
        distance = self.study()
        self.run_all(self.objective(self.space, metric='evaluation.distance'), distance)
        several = self.study(directions=['minimize', 'minimize'])
        self.run_all(self.objective(
            self.space, metric=['evaluation.distance', 'final_loss'],
            output=os.path.join(self.folder, 'several')), several)
        for one, two in zip(distance.trials, several.trials):
            self.assertEqual(list(one.intermediate_values), [4, 8, 12])
            self.assertEqual(one.value, two.values[0])
        with self.assertRaises(tributary.Error) as raised:
            self.objective(self.space, metric='evaluation.f1',
                           output=os.path.join(self.folder, 'f1'))(
                self.optuna.trial.FixedTrial({'rate': RATES[0]}))
        self.assertIn('evaluation.distance', str(raised.exception))

    def test_a_space_of_distributions_and_a_job_as_a_dict(self):
        kinds = self.optuna.distributions
        count = os.path.join(self.folder, 'count')
        objective = self.objective({
            RATE: kinds.FloatDistribution(1e-3, 1e-1, log=True),
            'batch.micro_batches': kinds.IntDistribution(2, 4, step=2),
            'schedule.decay': kinds.CategoricalDistribution(['LINEAR', 'CONSTANT'])},
            job=dict(train_samples=64, evaluation_samples=32, batch=16, steps=3,
                     config={'count': count}, optimizer={'sgd': {'learning_rate': 1}}),
            metric='final_loss')
        trial = self.optuna.trial.FixedTrial(
            {RATE: 0.01, 'batch.micro_batches': 4, 'schedule.decay': 'CONSTANT'})
        self.assertGreater(objective(trial), 0)
        self.assertEqual([(rate, step) for rate, step, _ in support.counted(self)],
                         [(0.01, step) for step in range(3) for _ in range(4)])

    def test_the_example(self):
        done = subprocess.run(
            [sys.executable, os.path.join(support.EXAMPLES, 'with_optuna.py')],
            cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^best \{'learning_rate': ")
        self.assertEqual(len(os.listdir(os.path.join(self.folder, 'runs/regression'))), 12)


if __name__ == '__main__':
    unittest.main()
