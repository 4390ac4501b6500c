"""DistributedDataParallel, with each exchange."""

import os
import unittest

import tributary

import support

JOB = os.path.join(support.EXAMPLES, 'digits.textproto')
WORKER = os.path.join(support.EXAMPLES, 'digits.py')
KILLED_DIGITS = os.path.join(support.WORKERS, 'killed_digits.py')
SETTINGS = {'steps': 24, 'evaluation.every_steps': 12}


@support.needs_torch
class ExchangeTest(support.JobTest):
    """The example digits.py, with other exchanges than the default."""

    def job(self, exchange):
        with open(JOB, encoding='utf-8') as file:
            return self.write_job('job', f'{file.read()} exchange {{ {exchange} }}')

    def check_bits(self, exchange, counts=(2, 4), **options):
        job = self.job(exchange)
        one = self.train('one', job, WORKER, settings=SETTINGS)
        for workers in counts:
            more = self.train(str(workers), job, WORKER, workers, SETTINGS, **options)
            self.assertEqual(more['weights_sha256'], one['weights_sha256'])
            self.assertEqual(more['evaluation'], one['evaluation'])
        return one

    def test_all_reduce_has_the_bits_of_servers_with_any_number_of_workers(self):
        reduced = self.check_bits('all_reduce {}')
        servers = self.train('servers', JOB, WORKER, settings=SETTINGS)
        self.assertEqual(reduced['weights_sha256'], servers['weights_sha256'])

    def test_a_sharded_optimizer_has_the_same_bits_with_any_number_of_workers(self):
        self.check_bits('all_reduce { shard_optimizer: true }', counts=(2,))

    def test_local_steps_have_the_same_bits_with_any_number_of_workers(self):
        self.check_bits('parameter_server { consistency { local_steps { inner_steps: 4 } '
                        '} }')

    def test_16_bits_on_the_wire_have_the_same_bits_with_any_number_of_workers(self):
        self.check_bits('wire_dtype: BFLOAT16', counts=(2,), servers=2)

    def test_stale_gradients_train(self):
        for mode in ('asynchronous', 'stale_synchronous'):
            summary = self.train(
                mode, self.job(f'parameter_server {{ consistency {{ {mode} {{}} }} }}'),
                WORKER, 2, {'steps': 40, 'evaluation.every_steps': 40})
            self.assertGreater(summary['evaluation']['accuracy'], 0.15)

    def test_compression_is_refused_with_batch_norm(self):
        self.assert_fails(['exchange.compression: does not work with parameter '
                           '1.running_mean'], 'run',
                          self.job('compression { eight_bit {} }'), WORKER)

    def test_all_reduce_has_the_same_bits_when_a_worker_is_killed(self):
        job = self.job('all_reduce {}')
        settings = {**SETTINGS, 'checkpoint.every_steps': 8}
        environment = {'EXAMPLES': support.EXAMPLES,
                       'MARKER': os.path.join(self.folder, 'marker')}
        killed = self.train('killed', job, KILLED_DIGITS, 2, settings, environment)
        self.assertTrue(os.path.exists(environment['MARKER']))
        whole = self.train('whole', job, KILLED_DIGITS, 1, settings, environment)
        self.assertEqual(killed['weights_sha256'], whole['weights_sha256'])


if __name__ == '__main__':
    unittest.main()
