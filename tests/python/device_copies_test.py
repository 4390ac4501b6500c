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


def has_gpu():
    return torch is not None and torch.cuda.is_available()


@support.needs_torch
class DeviceCopiesTest(unittest.TestCase):

    def setUp(self):
        self.backend = LateCopies()
        self.copies = DeviceCopies(torch.device('cpu'), 6, self.backend)
        self.done = []

    def send(self, number, values, offset, to):
        self.copies.send(torch.tensor(values), offset, to,
                         lambda: self.done.append((number, to.tolist())))

    def test_loads_weights(self):
        to = torch.zeros(6)
        for first in (0, 10):
            self.copies.load(to, torch.arange(first, first + 6).float())
            self.assertEqual(to.tolist(), list(range(first, first + 6)))

    def test_hands_gradients_over_when_they_are_copied(self):
        last, first = torch.zeros(2, 2), torch.zeros(2)
        self.send(1, [[1., 2.], [3., 4.]], 2, last)
        self.send(0, [5., 6.], 0, first)
        self.assertEqual(self.done, [])
        self.assertEqual(last.tolist(), [[0, 0], [0, 0]])
        self.copies.finish()
        self.assertEqual(self.done, [(1, [[1, 2], [3, 4]]), (0, [5, 6])])
        # The copy stream waits for the stream that computes the gradients.
        self.assertEqual(self.backend.ordered, 2)

    def test_hands_gradients_over_while_others_are_copied(self):
        first, second = torch.zeros(1), torch.zeros(1)
        self.send(1, [1.], 1, first)
        self.copies._copying[0][0].synchronize()  # The device has copied it.
        self.send(0, [2.], 0, second)
        self.assertEqual(self.done, [(1, [1])])
        self.copies.finish()
        self.assertEqual(self.done, [(1, [1]), (0, [2])])

    def test_does_not_hand_over_cancelled_gradients(self):
        to = torch.zeros(1)
        self.send(0, [1.], 0, to)
        self.copies.cancel()
        self.send(0, [2.], 0, to)
        self.copies.finish()
        self.assertEqual(self.done, [(0, [2])])


@support.needs_torch
class CopiedJobTest(support.JobTest):

    JOB = os.path.join(support.EXAMPLES, 'digits.textproto')
    SETTINGS = {'steps': 20, 'evaluation.every_steps': 10}

    def train_digits(self, run, device, workers):
        return self.train(run, self.JOB, COPIED_DIGITS, workers, self.SETTINGS,
                          {'EXAMPLES': support.EXAMPLES, 'DEVICE': device})

    def test_late_copies_have_the_same_bits(self):
        plain = self.train('plain', self.JOB,
                           os.path.join(support.EXAMPLES, 'digits.py'),
                           settings=self.SETTINGS)
        for workers in (1, 2):
            copied = self.train_digits(str(workers), 'cpu', workers)
            self.assertEqual(copied['evaluation'], plain['evaluation'])
            self.assertEqual(copied['final_loss'], plain['final_loss'])

    @unittest.skipUnless(has_gpu(), 'needs a GPU that PyTorch can use')
    def test_a_gpu_has_the_same_bits_with_any_number_of_workers(self):
        one = self.train_digits('one', 'cuda', 1)
        two = self.train_digits('two', 'cuda', 2)
        self.assertEqual(one['weights_sha256'], two['weights_sha256'])
        cpu = self.train_digits('cpu', 'cpu', 1)
        self.assertAlmostEqual(one['final_loss'], cpu['final_loss'], delta=0.01)


if __name__ == '__main__':
    unittest.main()
