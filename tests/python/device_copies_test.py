"""Copies between a GPU and the library's memory."""

import os
import unittest

import support

try:
    import torch
    from tributary._device_copies import DeviceCopies

    from late_copies import LateCopies
except ImportError:
    torch = None

COPIED_DIGITS = os.path.join(support.WORKERS, 'copied_digits.py')
BROKEN_COPIES = os.path.join(support.WORKERS, 'broken_copies.py')


@support.needs_torch
class DeviceCopiesTest(unittest.TestCase):

    def setUp(self):
        self.backend = LateCopies()
        self.copies = DeviceCopies(torch.device('cpu'), self.backend)
        self.done = []

    def send(self, number, values, to):
        self.copies.send(torch.tensor(values), to,
                         lambda: self.done.append((number, to.tolist())))

    def test_loads_weights(self):
        to = torch.zeros(6)
        for first in (0, 10):
            self.copies.load(to, torch.arange(first, first + 6).float())
            self.assertEqual(to.tolist(), list(range(first, first + 6)))

    def test_waits_for_the_weights_before_the_library_reuses_its_memory(self):
        for number, end in enumerate((self.copies.finish, self.copies.cancel)):
            self.copies.load(torch.zeros(1), torch.ones(1))
            self.assertEqual(self.backend.current.waits, number)
            end()
            self.assertEqual(self.backend.current.waits, number + 1)

    def test_hands_gradients_over_when_they_are_copied(self):
        last, first = torch.zeros(2, 2), torch.zeros(2)
        self.send(1, [[1., 2.], [3., 4.]], last)
        self.send(0, [5., 6.], first)
        self.assertEqual(self.done, [])
        self.assertEqual(last.tolist(), [[0, 0], [0, 0]])
        self.copies.finish()
        self.assertEqual(self.done, [(1, [[1, 2], [3, 4]]), (0, [5, 6])])
        # The copy stream waits for the stream that computes the gradients.
        self.assertEqual(self.backend.ordered, 2)

    def test_hands_gradients_over_while_others_are_copied(self):
        first, second = torch.zeros(1), torch.zeros(1)
        self.send(1, [1.], first)
        self.copies._copying[0][0].synchronize()  # The device has copied it.
        self.send(0, [2.], second)
        self.assertEqual(self.done, [(1, [1])])
        self.copies.finish()
        self.assertEqual(self.done, [(1, [1]), (0, [2])])

    def test_does_not_hand_over_cancelled_gradients(self):
        first, second = torch.zeros(1), torch.zeros(1)
        self.send(1, [1.], first)
        self.copies.cancel()
        self.assertEqual(first.tolist(), [1])  # The copy no longer writes there.
        self.send(0, [2.], second)
        self.copies.finish()
        self.assertEqual(self.done, [(0, [2])])


@support.needs_torch
class CopiedJobTest(support.JobTest):

    JOB = os.path.join(support.EXAMPLES, 'digits.textproto')
    SETTINGS = {'steps': 20, 'evaluation.every_steps': 10}

    def test_late_copies_have_the_same_bits(self):
        plain = self.train('plain', self.JOB,
                           os.path.join(support.EXAMPLES, 'digits.py'),
                           settings=self.SETTINGS)
        for workers in (1, 2):
            copied = self.train(str(workers), self.JOB, COPIED_DIGITS, workers,
                                self.SETTINGS, {'EXAMPLES': support.EXAMPLES})
            self.assertEqual(copied['evaluation'], plain['evaluation'])
            self.assertEqual(copied['final_loss'], plain['final_loss'])

    def test_no_copy_is_under_way_when_a_program_that_has_failed_leaves_the_job(self):
        job = self.write_job('broken', support.external_job(samples=4, more="""
            optimizer { sgd { learning_rate: 0.1 } }
            batch { global: 4 micro_batches: 1 }
            steps: 3"""))
        for where in ('forward', 'backward', 'loop'):
            self.assert_fails([where + ' has failed'], where, job, BROKEN_COPIES,
                              environment={'WHERE': where})
            self.assertIn('weights awaited: True, copies of gradients under way: 0',
                          self.log(where))


if __name__ == '__main__':
    unittest.main()
