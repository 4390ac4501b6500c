"""DistributedDataParallel, against the program and against plain PyTorch."""

import contextlib
import io
import json
import os
import subprocess
import sys
import unittest

import numpy as np

import tributary

import support

CURVE = os.path.join(support.WORKERS, 'curve.py')
STATISTICS = os.path.join(support.WORKERS, 'running_statistics.py')
MODES = os.path.join(support.WORKERS, 'modes.py')
MISTAKES = os.path.join(support.WORKERS, 'mistakes.py')
RULES = {
    'sgd': 'optimizer { sgd { learning_rate: 0.2 momentum: 0.9 weight_decay: 0.001 } }',
    'adamw': 'optimizer { adamw { learning_rate: 0.01 beta2: 0.99 epsilon: 1e-8 '
             'weight_decay: 0.1 } }',
}


@support.needs_torch
class ExampleTest(support.JobTest):

    def test_the_program_may_set_the_mode_of_the_module(self):
        job = os.path.join(support.EXAMPLES, 'digits.textproto')
        settings = {'steps': 40, 'evaluation.every_steps': 10}
        environment = {'EXAMPLES': support.EXAMPLES}
        example = self.train('example', job, os.path.join(support.EXAMPLES, 'digits.py'),
                             settings=settings)
        own = self.train('own', job, MODES, 2, settings, environment)
        self.assertEqual(own['weights_sha256'], example['weights_sha256'])
        self.assertEqual(own['evaluation'], example['evaluation'])

    def test_a_worker_that_only_evaluates_has_the_newest_weights(self):
        job = os.path.join(support.EXAMPLES, 'digits.textproto')
        worker = os.path.join(support.EXAMPLES, 'digits.py')
        # Each worker has one micro-batch, and each spare only pieces.
        settings = {'steps': 40, 'evaluation.every_steps': 10, 'evaluation.batch': 50}
        one = self.train('one', job, worker, settings=settings)
        more = self.train('more', job, worker, 4, settings, spares=2)
        self.assertEqual(more['evaluation'], one['evaluation'])

    def test_text_has_the_same_bits_with_one_and_two_workers(self):
        job = os.path.join(support.EXAMPLES, 'text.textproto')
        worker = os.path.join(support.EXAMPLES, 'text.py')
        settings = {'steps': 4, 'evaluation.every_steps': 4}
        one = self.train('one', job, worker, settings=settings)
        self.assertLess(one['evaluation']['loss'], 6)
        two = self.train('two', job, worker, 2, settings=settings)
        self.assertEqual(one['weights_sha256'], two['weights_sha256'])

    def test_digits_can_be_loaded_into_the_network(self):
        job = os.path.join(support.EXAMPLES, 'digits.textproto')
        worker = os.path.join(support.EXAMPLES, 'digits.py')
        settings = {'steps': 40, 'evaluation.every_steps': 40}
        trained = self.train('run', job, worker, settings=settings)
        sys.path.insert(0, support.EXAMPLES)
        import digits
        network = digits.make_network()
        tributary.load(os.path.join(self.folder, 'run'), network)
        network.eval()
        x, y = digits.make_digits(digits.TEST_SAMPLES, seed=2)
        accuracy = (network(x).argmax(dim=1) == y).float().mean().item()
        # The statistics of batch norm are part of the model.
        self.assertAlmostEqual(accuracy, trained['evaluation']['accuracy'], delta=0.002)


@support.needs_torch
class CurveTest(support.JobTest):

    def curves(self, rule, reduction='mean', grouped=False, exchange='', micro_batches=4,
               steps_of_round=40):
        """Returns the losses of the job and of plain PyTorch."""
        job = self.write_job('job', support.external_job(
            {'folder': self.folder, 'reduction': reduction, 'grouped': grouped},
            samples=80,
            more=f'{RULES[rule]} {exchange} steps: 40 '
                 f'batch {{ global: 16 micro_batches: {micro_batches} }}'))
        self.train('run', job, CURVE, workers=min(2, micro_batches))
        run = tributary.read_metrics(os.path.join(self.folder, 'run'))
        plain = subprocess.run(
            [sys.executable, CURVE, self.folder, rule, str(int(grouped)),
             str(steps_of_round)], check=True, capture_output=True, text=True)
        return run['loss'], json.loads(plain.stdout)

    def check(self, rule, **options):
        ours, plain = self.curves(rule, **options)
        self.assertEqual(len(ours), len(plain))
        self.assertLess(plain[-1], plain[0] - 0.2)
        for a, b in zip(ours, plain):
            self.assertLess(abs(a - b), 1e-4 * b)

    def test_sgd_is_that_of_pytorch(self):
        self.check('sgd')

    def test_adamw_is_that_of_pytorch(self):
        self.check('adamw', reduction='sum')

    def test_parameter_groups_are_those_of_pytorch_with_sgd(self):
        self.check('sgd', grouped=True)

    def test_parameter_groups_are_those_of_pytorch_with_adamw(self):
        self.check('adamw', grouped=True)

    def test_parameter_groups_are_those_of_pytorch_in_an_all_reduce(self):
        self.check('adamw', grouped=True, exchange='exchange { all_reduce {} }')

    def test_the_model_has_tied_and_frozen_parameters_under_each_name(self):
        import torch
        self.check('sgd')
        sys.path.insert(0, support.WORKERS)
        import curve
        weights = tributary.load(os.path.join(self.folder, 'run'))
        curve.Net().load_state_dict(
            {name: torch.from_numpy(array) for name, array in weights.items()})
        plain = np.load(os.path.join(self.folder, 'plain.npz'))
        self.assertEqual(set(weights), set(plain))
        for name in ('frozen.weight', 'frozen.bias'):
            np.testing.assert_array_equal(weights[name], plain[name])
        np.testing.assert_array_equal(weights['embedding.weight'],
                                      weights['output.weight'])
        self.assertTrue(weights['frozen.weight'].any())

    def test_parameter_groups_apply_to_local_steps_once(self):
        # With this outer optimizer, a round ends with the weights of its last step.
        self.curves('sgd', grouped=True, micro_batches=1, steps_of_round=4, exchange="""
            exchange { parameter_server { consistency { local_steps {
              inner_steps: 4
              outer_optimizer { learning_rate: 1 momentum: 0 nesterov: false }
            } } } }""")
        ours = tributary.load(os.path.join(self.folder, 'run'))
        plain = np.load(os.path.join(self.folder, 'plain.npz'))
        for name, weights in ours.items():
            np.testing.assert_allclose(weights, plain[name], atol=2e-5, err_msg=name)


@support.needs_torch
class StatisticsTest(support.JobTest):

    def test_running_statistics_are_the_mean_of_all_micro_batches(self):
        # Two steps, each with all samples.
        job = self.write_job('job', support.external_job(
            samples=64, more='optimizer { sgd { learning_rate: 0.1 } } steps: 2 '
                             'batch { global: 64 micro_batches: 4 }'))
        self.train('run', job, STATISTICS, workers=2)
        weights = tributary.load(os.path.join(self.folder, 'run'))
        self.assertEqual(weights['0.num_batches_tracked'], 2)
        exported = os.path.join(self.folder, 'exported')
        subprocess.run([tributary._native.program(), 'export', os.path.join(
            self.folder, 'run'), '--output', exported], check=True, capture_output=True)
        copies = tributary.load(os.path.join(exported, 'model.safetensors'))
        self.assertEqual(set(copies), set(weights))
        self.assertEqual(copies['0.num_batches_tracked'], 2)
        mean = sum(range(64)) / 64 * (1 - 0.7 ** 2)
        self.assertAlmostEqual(weights['0.running_mean'][0], mean, delta=1e-4)
        self.assertAlmostEqual(weights['0.running_mean'][1], -mean, delta=1e-4)


@support.needs_torch
class MistakesTest(support.JobTest):

    def job(self, mistake):
        return self.write_job('job', support.external_job(
            {'mistake': mistake},
            more='optimizer { sgd { learning_rate: 0.1 } } steps: 5 '
                 'batch { global: 8 micro_batches: 2 }'))

    def check(self, mistake, *words):
        sys.path.insert(0, support.WORKERS)
        import mistakes
        with self.subTest(mistake):
            self.assert_fails_in_process(words, mistake, self.job(mistake), mistakes.main)

    def check_process(self, mistake, *words):
        with self.subTest(mistake):
            return self.assert_fails(words, mistake, self.job(mistake), MISTAKES)

    def test_a_wrong_loss_is_named(self):
        self.check_process('forgotten', 'micro-batch 0 of step 2', 'not finished')
        self.check('plain backward', 'batch.backward(loss)')
        self.check('shape', 'shape [4]')
        self.check('no tensor', 'a float')
        self.check('count below 0', 'count is -1')
        self.check('count', 'units_per_sample')
        self.check('detached', 'does not depend on the parameters')
        self.check('not called', 'was not called')
        self.check('twice', 'backward was called after the end')
        self.check('nan', 'the gradient of', 'from worker 0')
        self.check('scaler', 'micro-batch', 'GradScaler')

    def test_a_change_of_the_module_is_named(self):
        self.check('optimizer', '0.weight', 'optimizer.step()')
        self.check('changed', 'other parameters')
        self.check('frozen later', 'other parameters')
        self.check('double', 'other parameters')
        self.check('loaded', '0.weight')
        self.check('loaded early', '0.weight')
        self.check('data', '3.weight')
        self.check('statistics', '1.running_mean')

    def test_a_module_that_cannot_be_wrapped_is_named(self):
        self.check('wrapped twice', 'parameters already')
        self.check('dtype', '3.weight', 'torch.complex64')
        self.check('momentum', '1 has momentum=None')
        self.check('frozen', 'requires_grad=True')
        self.check('parameters', 'a generator', 'not net.parameters()')

    def test_a_wrong_group_is_named(self):
        self.check('group option', "parameter_groups[0]", "['lr', 'params']",
                   'learning_rate_factor')
        self.check('group decay', 'parameter_groups[0]', 'weight_decay 0.5')
        self.check('group factor', '0.weight', 'learning_rate_factor 0.0')
        self.check('tiny factor', '0.weight', 'learning_rate_factor 1e-60')
        self.check('large factor', 'learning_rate_factor 2000')
        self.check('group twice', 'parameter_groups[1]', '[4, 3]', 'another group')
        self.check('group stranger', 'parameter_groups[0]', '[2, 2]', 'not in the module')

    def test_the_end_of_the_program_is_named(self):
        self.check_process('left', 'ended before the job')
        self.check_process('exit', 'ended before the job')
        self.check_process('exception', 'RuntimeError: a mistake of the program (mistakes.py:')
        self.assertIn('Traceback (most recent call last)', self.log('exception'))
        error = self.check_process('other hook', 'a hook has seen a mistake of the program')
        self.assertEqual(error.exit_code, 1)


@support.needs_torch
class TypesAndBuffersTest(support.JobTest):

    def run_job(self, run, workers=2, **config):
        job = self.write_job(run, support.external_job(
            config, samples=16, more='optimizer { sgd { learning_rate: 0.1 } } '
            'batch { global: 8 micro_batches: 4 } steps: 12'))
        self.train(run, job, os.path.join(support.WORKERS, 'types_and_buffers.py'), workers)
        return tributary.load(os.path.join(self.folder, run))

    def test_parameters_of_other_types_have_float32_weights_on_the_servers(self):
        expected = self.run_job('float32')
        for dtype, tolerance in (('float64', 1e-5), ('bfloat16', 0.05)):
            with self.subTest(dtype=dtype):
                weights = self.run_job(dtype, dtype=dtype)
                for name, values in weights.items():
                    self.assertEqual(values.dtype, np.float32)
                    if name == 'seen':
                        continue  # Of one of the workers.
                    np.testing.assert_allclose(values, expected[name], atol=tolerance)
                np.testing.assert_array_equal(
                    self.run_job(dtype + ' 1', workers=1, dtype=dtype)['second.weight'],
                    weights['second.weight'])

    def test_declared_buffers_are_averaged_like_statistics(self):
        weights = self.run_job('average', buffers={'se*': 'average'})
        # The mean of the inputs 0 to 15, divided by 8, after twelve steps.
        self.assertAlmostEqual(weights['seen'][0], 7.5 / 8, delta=0.3)
        self.assertEqual(weights['scale'], 1)  # It does not change.
        self.assertNotIn('warning', self.log('average'))

    def test_a_buffer_that_changes_undeclared_is_said(self):
        terminal = io.StringIO()
        with contextlib.redirect_stderr(terminal):
            weights = self.run_job('undeclared')
        self.assertGreater(weights['seen'], 0)  # That of one of the workers.
        for text in (self.log('undeclared'), terminal.getvalue()):
            self.assertIn('forward changes the buffer seen', text)
        self.run_job('local', buffers={'seen': 'local'})
        self.assertNotIn('warning', self.log('local'))


if __name__ == '__main__':
    unittest.main()
