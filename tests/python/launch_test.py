"""tributary.launch: programs that describe and start their job."""

import json
import os
import subprocess
import sys
import unittest

import tributary

import support

LAUNCHED = os.path.join(support.WORKERS, 'launched.py')


@support.needs_torch
class LaunchTest(support.JobTest):

    def run_program(self, *command, **variables):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count('digest'), 1)  # Not in the workers.
        return done.stdout.splitlines()[-1].split()[1:]

    def test_a_program_starts_its_job(self):
        digest, steps = self.run_program(sys.executable, LAUNCHED, 'out')
        self.assertEqual(steps, '8')
        self.assertTrue(os.path.exists(
            os.path.join(self.folder, 'out', 'final', 'model.safetensors')))
        # Arguments of `tributary train` take precedence, and the bits stay.
        again, _ = self.run_program(
            sys.executable, '-c', 'from tributary._program import main; main()', 'train',
            LAUNCHED, '--workers', '1')
        self.assertEqual(again, digest)
        self.assertEqual(len(os.listdir(os.path.join(self.folder, 'runs'))), 1)

    def test_a_notebook_trains_in_its_process(self):
        digest, _ = self.run_program(sys.executable, LAUNCHED, 'out')
        cell = ('import sys; sys.path.insert(0, %r); import launched; import tributary; '
                'print("digest", tributary.launch(launched.main, workers=2, output="n", '
                'job=dict(train_samples=64, batch=16, micro_batches=4, epochs=2, '
                'config={"epochs": 2}, name="launched", '
                'optimizer={"sgd": {"learning_rate": 0.1}}))["weights_sha256"], 8)'
                % support.WORKERS)
        self.assertEqual(self.run_program(sys.executable, '-c', cell)[0], digest)

    def test_a_mistake_in_the_job_is_one_error(self):
        right = dict(train_samples=8, batch=4, steps=1,
                     optimizer={'adamw': {'learning_rate': 0.1}})
        for mistake, words in (
                (dict(optimizer={'sdg': {}}), ['optimizer.sdg', 'optimizer.sgd?']),
                (dict(optimizer={'adamw': {'lr': 0.1}}),
                 ['optimizer.adamw.lr', 'optimizer.adamw.learning_rate?']),
                (dict(lr=0.1), ['optimizer.adamw.learning_rate?']),
                (dict(learning_rate=0.1), ['optimizer.adamw.learning_rate?']),
                (dict(optimizer='adamw'), ['{"adamw": ...}']),
                (dict(batch_size=4), ['batch?']),
                (dict(batch=2.5), ['batch.global', 'whole number']),
                (dict(data='digits', train_samples=8), ['data', 'object'])):
            with self.subTest(mistake), self.assertRaises(tributary.JobFailed) as raised:
                tributary.launch(lambda: None, job={**right, **mistake},
                                 output=os.path.join(self.folder, 'run'))
            for word in ['job: ', *words]:
                self.assertIn(word, str(raised.exception))
            self.assertEqual(raised.exception.exit_code, 2)

    def test_an_error_is_shown_once(self):
        for setting, code, words in ((['name', 3], 2, 'job: '),
                                     (['config', {'epochs': None}], 1, 'TypeError')):
            done = subprocess.run(
                [sys.executable, LAUNCHED, 'out', json.dumps(setting)], cwd=self.folder,
                capture_output=True, text=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertNotIn('Traceback', done.stderr)
            self.assertEqual(done.stderr.count('error: '), 1, done.stderr)
            self.assertEqual(done.stderr.count(words), 1, done.stderr)


if __name__ == '__main__':
    unittest.main()
