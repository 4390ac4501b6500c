"""The promises of a job, kept by a PyTorch module."""

import os
import unittest

import support

KILLED_DIGITS = os.path.join(support.WORKERS, 'killed_digits.py')


@support.needs_torch
class PromisesTest(support.JobTest):

    def test_digits_has_the_same_bits_with_any_number_of_workers(self):
        job = os.path.join(support.EXAMPLES, 'digits.textproto')
        worker = os.path.join(support.EXAMPLES, 'digits.py')
        settings = {'steps': 40, 'evaluation.every_steps': 20}
        one = self.train('one', job, worker, settings=settings)
        self.assertGreater(one['evaluation']['accuracy'], 0.3)
        for workers in (2, 4):
            more = self.train(str(workers), job, worker, workers, settings=settings)
            self.assertEqual(more['weights_sha256'], one['weights_sha256'])
            self.assertEqual(more['evaluation'], one['evaluation'])

    def test_digits_has_the_same_bits_when_a_worker_is_killed(self):
        job = os.path.join(support.EXAMPLES, 'digits.textproto')
        settings = {'steps': 40, 'evaluation.every_steps': 20}
        environment = {'EXAMPLES': support.EXAMPLES,
                       'MARKER': os.path.join(self.folder, 'marker')}
        killed = self.train('killed', job, KILLED_DIGITS, 2, settings, environment)
        self.assertTrue(os.path.exists(environment['MARKER']))
        self.assertGreaterEqual(killed['workers_lost'], 1)
        whole = self.train('whole', job, KILLED_DIGITS, 1, settings, environment)
        self.assertEqual(killed['weights_sha256'], whole['weights_sha256'])


if __name__ == '__main__':
    unittest.main()
