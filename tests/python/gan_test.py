"""Two optimizers in one program, which take turns."""

import os
import subprocess
import sys
import unittest

import tributary

import support

WORKER = os.path.join(support.WORKERS, 'gan.py')
STEPS = 15
JOB = """
    name: "gan"
    seed: 7
    model { external { name: "gan" } }
    data { external { train_samples: 96 } }
    optimizer { program { state_arrays: 8 } }
    exchange { all_reduce {} }
    batch { global: 32 micro_batches: 4 }"""


@support.needs_torch
class GanTest(support.JobTest):

    def run_gan(self, run, workers, steps=STEPS, arguments=()):
        return self.train(run, self.write_job('job', JOB), WORKER, workers,
                          {'steps': steps}, arguments=arguments)

    def test_has_the_weights_of_plain_pytorch_with_any_number_of_workers(self):
        import torch
        one = self.run_gan('1', 1)
        for workers in (2, 4):
            summary = self.run_gan(str(workers), workers)
            self.assertEqual(summary['weights_sha256'], one['weights_sha256'])
        file = os.path.join(self.folder, 'plain')
        package = os.path.dirname(os.path.dirname(tributary.__file__))
        subprocess.run([sys.executable, WORKER, file, str(STEPS)], check=True,
                       env={**os.environ, 'PYTHONPATH': package})
        weights = tributary.load(os.path.join(self.folder, '1'))
        for name, tensor in torch.load(file).items():
            trained = torch.from_numpy(weights[name])
            self.assertLess((trained - tensor).abs().max().item(), 1e-6, name)

    def test_a_resumed_job_continues_with_the_turn_and_the_states(self):
        whole = self.run_gan('whole', 2)
        self.run_gan('parts', 1, steps=7)
        resumed = self.run_gan('parts', 2, arguments=['--resume', 'auto'])
        self.assertEqual(resumed['weights_sha256'], whole['weights_sha256'])


class AlternatingTest(unittest.TestCase):

    class Counter:
        def __init__(self):
            self.count = 0

        def step(self):
            self.count += 1

        def state_dict(self):
            return {'count': self.count, 'function': len}

        def load_state_dict(self, state):
            self.count = state['count']

    def test_each_has_its_steps(self):
        a, b, schedule = self.Counter(), self.Counter(), self.Counter()
        turns = tributary.Alternating(a, [b, schedule], steps=[3, 2])
        self.assertEqual(turns.optimizers, [a, b])
        for step in range(13):
            self.assertIs(turns.current(step), a if step % 5 < 3 else b)
            turns.step(step)
        self.assertEqual((a.count, b.count, schedule.count), (9, 4, 4))
        state = turns.state_dict()
        self.assertNotIn('function', state['turns'][1][1])
        a.count = b.count = schedule.count = 0
        turns.load_state_dict(state)
        self.assertEqual((a.count, b.count, schedule.count), (9, 4, 4))

    def test_refuses_what_cannot_take_turns(self):
        for arguments, steps in (((), 1), ((self.Counter(),), 0),
                                 ((self.Counter(),), [1, 1]), ((object(),), 1)):
            with self.assertRaises(tributary.Error):
                tributary.Alternating(*arguments, steps=steps)


if __name__ == '__main__':
    unittest.main()
