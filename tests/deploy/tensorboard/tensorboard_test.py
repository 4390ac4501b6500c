"""Reads the TensorBoard files of a run whose server was killed with
TensorBoard itself, and compares them with metrics.jsonl.

    tensorboard_test.py TRIBUTARY

Skipped without the package `tensorboard` of PyPI; run it with a Python that
has it: `python3 tests/deploy/tensorboard/tensorboard_test.py TRIBUTARY`.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.plugins.hparams import metadata as hparams
    MISSING = None
except ImportError as error:
    MISSING = f'needs the package tensorboard of PyPI: {error}'

TRIBUTARY = os.path.abspath(sys.argv[1])
STEPS = 20
JOB = '''
model { gpt { layers: 2 heads: 2 width: 128 context: 64 } }
data { text { path: "/usr/share/common-licenses/Apache-2.0" } }
batch { global: 64 micro_batches: 8 }
optimizer { adamw { learning_rate: 0.003 } }
steps: 20
evaluation { every_steps: 5 }
checkpoint { every_steps: 4 }
output { log_every_steps: 1 sample_bytes: 20 }
'''
TAGS = {
    'loss': 'train/loss',
    'learning_rate': 'train/learning_rate',
    'gradient_norm': 'train/gradient_norm',
    'epoch': 'train/epoch',
    'samples_per_second': 'speed/samples_per_second',
    'step_seconds': 'speed/step_seconds',
    'evaluation_loss': 'evaluation/loss',
    'evaluation_accuracy': 'evaluation/accuracy',
}


def lines_of(run):
    try:
        with open(os.path.join(run, 'metrics.jsonl'), encoding='utf-8') as file:
            return [json.loads(line) for line in file if line.endswith('\n')]
    except FileNotFoundError:
        return []


def server_of(train):
    """The process id of the server that `train` has started."""
    children = subprocess.run(['ps', '-o', 'pid=,args=', '--ppid', str(train)],
                              capture_output=True, text=True).stdout
    for line in children.splitlines():
        pid, arguments = line.split(maxsplit=1)
        if ' server ' in arguments:
            return int(pid)
    return None


@unittest.skipIf(MISSING, MISSING)
class TensorBoardTest(unittest.TestCase):

    def test_reads_a_run_whose_server_was_killed(self):
        folder = tempfile.mkdtemp(dir=os.environ.get('TEST_TMPDIR'))
        job, run = os.path.join(folder, 'job.textproto'), os.path.join(folder,
                                                                       'run')
        with open(job, 'w', encoding='utf-8') as file:
            file.write(JOB)
        train = subprocess.Popen([TRIBUTARY, 'train', job, '--output', run,
                                  '--workers', '2'],
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        killed = False
        deadline = time.monotonic() + 300
        while train.poll() is None and time.monotonic() < deadline:
            newest = [line['step'] for line in lines_of(run)]
            resumable = os.path.exists(os.path.join(
                run, 'checkpoints', 'step-00000004', 'manifest.json'))
            if not killed and newest and newest[-1] >= 6 and resumable:
                os.kill(server_of(train.pid), signal.SIGKILL)
                killed = True
            time.sleep(0.005)
        output = train.communicate()[0]
        self.assertEqual(train.returncode, 0, output)
        self.assertTrue(killed, output)
        with open(os.path.join(run, 'summary.json'), encoding='utf-8') as file:
            summary = json.load(file)
        self.assertGreater(summary['attempt'], 1, 'the kill came too late')

        lines = lines_of(run)
        self.assertEqual([line['step'] for line in lines if 'loss' in line],
                         list(range(1, STEPS + 1)))
        events = event_accumulator.EventAccumulator(
            os.path.join(run, 'tensorboard'))
        events.Reload()
        for field, tag in TAGS.items():
            expected = {line['step']: line[field] for line in lines
                        if line.get(field) is not None}
            self.assertTrue(expected, field)
            scalars = events.Tensors(tag) if tag in events.Tags(
            )['tensors'] else events.Scalars(tag)
            values = {}
            for event in scalars:
                self.assertNotIn(event.step, values, f'{tag}: a step twice')
                values[event.step] = (
                    event.value if hasattr(event, 'value') else
                    event.tensor_proto.float_val[0])
            self.assertEqual(sorted(values), sorted(expected), tag)
            for step, value in expected.items():
                self.assertAlmostEqual(values[step] / value if value else 1.0,
                                       1.0, 5, f'{tag} at step {step}')

        content = events.summary_metadata['_hparams_/session_start_info']
        start = hparams.parse_session_start_info_plugin_data(
            content.plugin_data.content)
        self.assertAlmostEqual(start.hparams['learning_rate'].number_value,
                               0.003, 6)
        self.assertEqual(start.hparams['optimizer'].string_value, 'adamw')
        self.assertEqual(start.hparams['batch'].number_value, 64)
        text = events.Tensors('sample')[-1].tensor_proto.string_val[0]
        with open(os.path.join(run, 'sample.txt'), 'rb') as file:
            sample = file.read()
        # Markdown, so that the page shows it as it is.
        for word in sample.split():
            self.assertIn(word, text)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
