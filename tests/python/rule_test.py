"""Jobs with an update rule of the program."""

import ctypes
import json
import os
import subprocess
import sys
import types
import unittest
from unittest import mock

import tributary

import support

WORKER = os.path.join(support.WORKERS, 'ruled.py')
LOOP = os.path.join(support.WORKERS, 'ruled_loop.py')
STEPS = 12
JOB = """
    name: "ruled"
    seed: 7
    model { external { name: "ruled" } }
    data { external { train_samples: 96 } }
    optimizer { program {} }
    exchange { all_reduce { chunk_bytes: 4096 } }
    batch { global: 32 micro_batches: 4 }
    checkpoint { every_steps: 4 }
    output { log_every_steps: 1 }"""


@support.needs_torch
class RuleTest(support.JobTest):

    def run_rule(self, run, rule, workers=1, environment=None, worker=WORKER, job=JOB,
                 arguments=(), **settings):
        return self.train(run, self.write_job('job', job), worker, workers,
                          {'steps': STEPS, **settings}, {'RULE': rule, **(environment or {})},
                          arguments=arguments)

    def weights(self, run):
        return tributary.load(os.path.join(self.folder, run))

    def check_equal(self, one, two):
        self.assertEqual(one['weights_sha256'], two['weights_sha256'])

    def check_any_number_of_workers(self, rule, counts=(2, 4)):
        one = self.run_rule('one', rule)
        for workers in counts:
            self.check_equal(self.run_rule(str(workers), rule, workers), one)

    def check_plain(self, rule):
        import torch
        file = os.path.join(self.folder, 'plain')
        package = os.path.dirname(os.path.dirname(tributary.__file__))
        subprocess.run([sys.executable, WORKER, file, str(STEPS)], check=True,
                       env={**os.environ, 'RULE': rule, 'PYTHONPATH': package})
        for name, tensor in torch.load(file).items():
            trained = torch.from_numpy(self.weights('one')[name].copy())
            self.assertLess((trained - tensor).abs().max().item(), 1e-6, name)

    def test_adamw_has_the_weights_of_plain_pytorch_with_any_number_of_workers(self):
        self.check_any_number_of_workers('adamw')
        self.check_plain('adamw')

    def test_adagrad_has_the_weights_of_plain_pytorch_with_any_number_of_workers(self):
        self.check_any_number_of_workers('adagrad')
        self.check_plain('adagrad')

    def test_an_own_class_has_the_weights_of_plain_pytorch_with_any_number_of_workers(self):
        self.check_any_number_of_workers('sign')
        self.check_plain('sign')

    def test_a_schedule_has_the_weights_of_plain_pytorch_with_any_number_of_workers(self):
        self.check_any_number_of_workers('schedule', counts=(2,))
        self.check_plain('schedule')

    def test_random_numbers_do_not_depend_on_the_worker(self):
        self.check_any_number_of_workers('noisy', counts=(2,))

    def test_parameters_without_a_rule_keep_their_values(self):
        self.run_rule('one', 'part')
        self.check_plain('part')

    def test_a_resumed_job_has_the_weights_of_one_that_was_not_interrupted(self):
        for rule in ('adamw', 'sign', 'schedule'):
            whole = self.run_rule('whole-' + rule, rule)
            self.run_rule('parts-' + rule, rule, 2, steps=8)
            resumed = self.run_rule('parts-' + rule, rule, 1,
                                    arguments=['--resume', 'auto'])
            self.check_equal(resumed, whole)

    def check_kill(self, rule, kill):
        marker = os.path.join(self.folder, 'marker')
        killed = self.run_rule('killed', rule, 2, {'KILL': kill, 'MARKER': marker})
        self.assertTrue(os.path.exists(marker))
        whole = self.run_rule('whole', rule)
        self.assertGreater(killed['attempt'], whole['attempt'])
        self.check_equal(killed, whole)

    def test_has_the_same_bits_when_a_worker_is_killed(self):
        self.check_kill('schedule', 'worker')

    def test_has_the_same_bits_when_the_server_is_killed(self):
        self.check_kill('sign', 'server')

    def test_the_module_holds_the_last_weights_in_the_end(self):
        import torch
        job = JOB.replace('train_samples: 96', 'train_samples: 96 evaluation_samples: 96') \
            + ' evaluation { every_steps: 4 batch: 16 }'
        self.run_rule('run', 'adamw', 2, {'END': self.folder}, job=job)
        expected = self.weights('run')
        for rank in range(2):
            for name, tensor in torch.load(os.path.join(self.folder, str(rank))).items():
                self.assertEqual(tensor.numpy().tobytes(), expected[name].tobytes(), name)

    def test_a_loop_with_an_optimizer_applies_the_rule(self):
        for rule in ('adamw', 'schedule'):
            expected = self.run_rule(f'session {rule}', rule)
            for workers in (1, 4):  # With 4, each has one micro-batch of a step.
                self.check_equal(self.run_rule(f'{workers} {rule}', rule, workers,
                                               worker=LOOP), expected)

    def test_a_loop_that_steps_a_scheduler_has_the_same_bits_when_a_process_is_killed(self):
        stepped = {'STEPPED': '1'}
        whole = self.run_rule('whole', 'adamw', 2, stepped, LOOP)
        constant = self.run_rule('constant', 'adamw', worker=LOOP)
        self.assertNotEqual(whole['weights_sha256'], constant['weights_sha256'])
        for every_steps in (4, 100):  # From a checkpoint, and from the beginning.
            for kill in ('worker', 'server'):
                run = f'{kill} {every_steps}'
                killed = self.run_rule(
                    run, 'adamw', 2, {**stepped, 'KILL': kill,
                                      'MARKER': os.path.join(self.folder, 'marker ' + run)},
                    LOOP, **{'checkpoint.every_steps': every_steps})
                self.assertGreater(killed['attempt'], whole['attempt'])
                self.check_equal(killed, whole)

    def test_clipped_gradients_reach_the_rule(self):
        for steps in (1, STEPS):
            self.run_rule(str(steps), 'part', steps=steps, clip_norm=1e-6)
        first, last = self.weights('1'), self.weights(str(STEPS))
        moved = max(abs(last[name] - first[name]).max() for name in first)
        self.assertGreater(moved, 0)
        self.assertLess(moved, STEPS * 0.1 * 1.1e-6)  # The learning rate is 0.1.

    def test_threads_of_one_process_have_the_bits_of_processes(self):
        sys.path.insert(0, support.WORKERS)
        os.environ['RULE'] = 'sign'
        import ruled
        threads = tributary.train(JOB, os.path.join(self.folder, 'threads'),
                                  in_process=True, worker=ruled.work, workers=2,
                                  settings={'steps': STEPS})
        self.check_equal(threads, self.run_rule('processes', 'sign'))

    def test_has_the_same_bits_when_a_worker_leaves(self):
        self.check_kill('sign', 'nothing')

    def test_the_example_trains(self):
        path = os.path.join(support.EXAMPLES, 'own_rule')
        summary = self.train('run', path + '.textproto', path + '.py', 2, {'steps': 60})
        self.assertLess(summary['final_loss'], 2.2)

    def test_a_state_that_does_not_fit_is_an_error(self):
        self.assert_fails(['optimizer.program.state_arrays', 'set it to'], 'run',
                          self.write_job('job', JOB), WORKER,
                          settings={'steps': STEPS, 'optimizer.program.state_arrays': 1},
                          environment={'RULE': 'adamw'})
        # No number of arrays would do.
        error = self.assert_fails(['too small'], 'small', self.write_job('job', JOB), WORKER,
                                  settings={'steps': STEPS},
                                  environment={'RULE': 'adamw', 'WIDTH': 1})
        self.assertNotIn('set it to', str(error))

    def test_mistakes_are_errors(self):
        sys.path.insert(0, support.WORKERS)
        import ruled
        for rule, words in (
                ('precise', ['load_state_dict does not restore', "['sum']"]),
                ('unsaved', ["['made_by']['object']", 'cannot be saved']),
                ('other', ['not in the module']),
                ('nothing', ['without the method step']),
                ('none', ['optimizer.program', 'rule'])):
            with self.subTest(rule), mock.patch.dict(os.environ, RULE=rule):
                self.assert_fails_in_process(words, rule, JOB, ruled.work,
                                             settings={'steps': STEPS})

    def unconnected(self, network):
        """Returns a rule, momentum, that only the test calls."""
        import torch
        from tributary import _rule

        session = types.SimpleNamespace(
            _library=types.SimpleNamespace(
                worker_set_rule=lambda *_: 0, **dict.fromkeys(_rule._WAITS)),
            _open=lambda: 1)
        worker = types.SimpleNamespace(_tensors=list(network.parameters()), session=session)
        return _rule.Rule(torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9), worker)

    def test_the_initial_state_comes_back_after_a_state_that_no_step_has_used(self):
        import torch
        network = torch.nn.Linear(2, 1)
        before, joined = self.unconnected(network), self.unconnected(network)
        network(torch.ones(1, 2)).sum().backward()
        before._parts[0].step()
        state = (ctypes.c_char * 4096)()
        before._capacity = len(state)
        before._save(ctypes.addressof(state), len(state))
        joined._load(ctypes.addressof(state), len(state))
        self.assertTrue(joined._parts[0].state_dict()['state'])
        # The job returns to step 0, where the state is zero.
        zeros = (ctypes.c_char * 4096)()
        joined._load(ctypes.addressof(zeros), len(zeros))
        self.assertEqual(joined._parts[0].state_dict()['state'], {})

    def test_a_damaged_state_is_an_error(self):
        from tributary import _rule
        for state in (['list'], ['tuple'], ['dict'], ['dict', [[1]]], ['tensor'], [], [[]],
                      ['other', []], ['tensor', 'float32', [1 << 40]], {}, ['counter']):
            text = json.dumps(state).encode()
            with self.subTest(state), self.assertRaises(tributary.Error):
                _rule._unpack(_rule._MAGIC + len(text).to_bytes(8, 'little') + text)
        for damaged in (b'', _rule._MAGIC, _rule._MAGIC + b'\xff' * 8, b'x' * 32):
            with self.subTest(damaged), self.assertRaises(tributary.Error):
                _rule._unpack(damaged)

    def test_a_job_with_another_optimizer_refuses_the_rule(self):
        job = JOB.replace('program {}', 'sgd { learning_rate: 0.1 }')
        self.assert_fails(['has the optimizer sgd', 'program {}'], 'run',
                          self.write_job('job', job), WORKER,
                          settings={'steps': STEPS}, environment={'RULE': 'adamw'})


if __name__ == '__main__':
    unittest.main()
