"""What a run remembers of its program: resuming, evaluating and exporting it."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import unittest

import numpy as np

import tributary
from tributary import _native

import support

JOB = """
    optimizer { adamw { learning_rate: 0.1 } }
    batch { global: 16 micro_batches: 4 }
    steps: 20
    checkpoint { every_steps: 10 keep_last: 5 }
    evaluation { every_steps: 10 batch: 8 }
"""
# Relative to the folder with the program.
COMMAND = f'{shlex.quote(sys.executable)} linear.py'


class RememberedTest(support.JobTest):

    def setUp(self):
        super().setUp()
        self.run_folder = os.path.join(self.folder, 'a run')
        self.job = self.write_job('job', support.external_job(samples=100, evaluation=40,
                                                              more=JOB))

    def tributary(self, *arguments, cwd=None):
        return subprocess.run([_native.program(), *arguments], cwd=cwd or self.folder,
                              capture_output=True, text=True)

    def succeed(self, *arguments, cwd=None):
        result = self.tributary(*arguments, cwd=cwd)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def start(self, *arguments):
        return self.succeed('train', self.job, '--output', self.run_folder,
                            '--worker-command', COMMAND, *arguments, cwd=support.WORKERS)

    def summary(self, folder=None):
        path = os.path.join(folder or self.run_folder, 'summary.json')
        with open(path, encoding='utf-8') as file:
            return json.load(file)

    def change_record(self, **changes):
        path = os.path.join(self.run_folder, 'launch.json')
        with open(path, encoding='utf-8') as file:
            record = json.load(file)
        with open(path, 'w', encoding='utf-8') as file:
            json.dump({**record, **changes}, file)

    def test_a_run_is_resumed_with_its_command(self):
        whole = os.path.join(self.folder, 'whole')
        self.succeed('train', self.job, '--output', whole, '--worker-command', COMMAND,
                     '--steps', '30', cwd=support.WORKERS)
        self.start('--workers', '3', '--servers', '2')
        resumed = self.succeed('train', '--resume', self.run_folder, '--steps', '30')
        self.assertIn('2 servers, 3 workers', resumed.stderr)
        self.assertIn(COMMAND, resumed.stderr)
        self.assertEqual(self.summary()['weights_sha256'],
                         self.summary(whole)['weights_sha256'])
        # Also in another folder, by its output, and with other flags.
        moved = os.path.join(self.folder, 'moved')
        shutil.move(self.run_folder, moved)
        resumed = self.succeed('train', '--output', moved, '--resume', 'auto',
                               '--steps', '35', '--workers', '1')
        self.assertIn('2 servers, 1 worker', resumed.stderr)
        self.assertEqual(self.summary(moved)['steps'], 35)

    def test_the_printed_command_resumes_a_run(self):
        with subprocess.Popen(
                [_native.program(), 'train', self.job, '--output', self.run_folder,
                 '--worker-command', COMMAND, '--steps', '1000000'],
                cwd=support.WORKERS, stderr=subprocess.PIPE, text=True) as process:
            errors = ''
            for line in process.stderr:
                errors += line
                if 'step ' in line and '/1000000' in line:
                    break
            process.send_signal(signal.SIGINT)
            errors += process.stderr.read()
        self.assertEqual(process.returncode, 130, errors)
        found = re.search(r'resume from step (\d+) with: tributary (.*)', errors)
        self.assertIsNotNone(found, errors)
        steps = int(found[1]) + 5
        self.succeed(*shlex.split(found[2]), '--steps', str(steps))
        self.assertEqual(self.summary()['steps'], steps)

    def test_a_run_without_its_program_says_what_to_pass(self):
        self.start()
        self.change_record(working_folder=os.path.join(self.folder, 'absent'))
        for arguments in (['train', '--resume', self.run_folder, '--steps', '30'],
                          ['evaluate', self.run_folder]):
            result = self.tributary(*arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn('absent', result.stderr)
            self.assertIn('--worker-command', result.stderr)
        self.succeed('train', '--resume', self.run_folder, '--steps', '30',
                     '--worker-command', COMMAND, cwd=support.WORKERS)
        with open(os.path.join(self.run_folder, 'launch.json'), 'w',
                  encoding='utf-8') as file:
            file.write('damaged')
        result = self.tributary('train', '--resume', self.run_folder, '--steps', '40')
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('launch.json', result.stderr)

    def test_the_program_evaluates_a_run(self):
        self.start()
        summary = self.summary()
        before = {name: os.stat(os.path.join(folder, name)).st_mtime_ns
                  for folder, _, names in os.walk(self.run_folder) for name in names}
        evaluated = json.loads(self.succeed('evaluate', self.run_folder, '--json').stdout)
        self.assertEqual(evaluated, {'samples': 40,
                                     'loss': summary['evaluation']['loss'],
                                     'accuracy': summary['evaluation']['accuracy']})
        line = self.succeed('evaluate', self.run_folder).stdout
        self.assertRegex(line, r'^loss \d+\.\d{4}, accuracy .* \(40 samples\)\n$')
        checkpoint = os.path.join(self.run_folder, 'checkpoints', 'step-00000010')
        metrics = tributary.read_metrics(self.run_folder)
        at_10 = metrics['evaluation_loss'][(metrics['step'] == 10)
                                           & ~np.isnan(metrics['evaluation_loss'])]
        evaluated = json.loads(self.succeed('evaluate', checkpoint, '--json').stdout)
        self.assertEqual(evaluated['loss'], at_10[0])
        few = json.loads(self.succeed(
            'evaluate', self.run_folder, '--json', '--set',
            'data.external.evaluation_samples=8').stdout)
        self.assertEqual(few['samples'], 8)
        self.assertNotEqual(few['loss'], summary['evaluation']['loss'])
        after = {name: os.stat(os.path.join(folder, name)).st_mtime_ns
                 for folder, _, names in os.walk(self.run_folder) for name in names}
        self.assertEqual(after, before)

    def test_an_error_of_the_program_is_that_of_the_evaluation(self):
        self.start()
        result = self.tributary(
            'evaluate', self.run_folder, '--set',
            'model.external.config={"mistake": "not reported"}')
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('piece.report', result.stderr)

    def test_predict_says_what_to_do_and_export_needs_no_program(self):
        self.start()
        result = self.tributary('predict', self.run_folder)
        self.assertEqual(result.returncode, 2)
        self.assertIn('tributary.load', result.stderr)
        exported = os.path.join(self.folder, 'exported')
        self.succeed('export', self.run_folder, '--output', exported)
        weights = tributary.load(os.path.join(exported, 'model.safetensors'))
        for name, array in tributary.load(self.run_folder).items():
            np.testing.assert_array_equal(weights[name], array)


if __name__ == '__main__':
    unittest.main()
