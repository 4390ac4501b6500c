"""Copies between a GPU and the library's memory."""

import os
import unittest
import unittest.mock

import support
import tributary

try:
    import torch
    from tributary._device_copies import GpuCopies, PinnedCopies, copies_for

    from late_copies import LateCopies
except ImportError:
    torch = None

COPIED_DIGITS = os.path.join(support.WORKERS, 'copied_digits.py')
EMULATED_GPU = os.path.join(support.WORKERS, 'emulated_gpu_digits.py')
BROKEN_COPIES = os.path.join(support.WORKERS, 'broken_copies.py')


@support.needs_torch
class PinnedCopiesTest(unittest.TestCase):

    def setUp(self):
        self.backend = LateCopies()
        self.copies = PinnedCopies(torch.device('cpu'), self.backend)
        self.done = []

    def send(self, number, values, to):
        self.copies.send(torch.tensor(values), to, 1,
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
        self.assertEqual(self.backend.orders, 2 * [('new', 'current')])

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
class GpuCopiesTest(unittest.TestCase):
    """The order of streams; they are those of LateCopies."""

    def setUp(self):
        self.backend = LateCopies()
        self.copies = GpuCopies(torch.device('cpu'), self.backend)
        self.item = unittest.mock.Mock(gpu_stream=7)

    def test_weights_are_read_between_the_librarys_work(self):
        self.copies.begin(self.item)
        self.assertEqual(self.backend.orders, [('current', 7)])
        to = torch.zeros(2)
        self.copies.load(to, torch.ones(2))
        self.assertEqual(to.tolist(), [1, 1])
        self.assertEqual(self.backend.orders, [('current', 7), (7, 'current')])

    def test_the_library_reads_a_gradient_after_the_copy(self):
        self.copies.begin(self.item)
        self.backend.orders.clear()
        to = torch.zeros(2)
        done = unittest.mock.Mock(side_effect=lambda: self.backend.orders.append('done'))
        self.copies.send(torch.ones(2), to, 1, done)
        self.assertEqual(to.tolist(), [1, 1])
        self.assertEqual(self.backend.orders, [(7, 'current'), 'done'])

    def test_the_host_waits_for_the_weights_of_an_evaluation(self):
        self.copies.begin(unittest.mock.Mock(spec=['begin', 'end']))
        self.copies.load(torch.zeros(2), torch.ones(2))
        self.assertEqual((self.backend.orders, self.backend.current.waits), ([], 0))
        self.copies.finish()
        self.assertEqual(self.backend.current.waits, 1)

    def test_reads_a_loss(self):
        await_loss = self.copies.read(torch.tensor([2.5], requires_grad=True))
        self.assertEqual(self.backend.current.waits, 0)
        self.assertEqual(await_loss(), 2.5)
        self.assertEqual(self.backend.current.waits, 1)

    def test_reads_a_loss_on_another_device(self):
        copies = GpuCopies(torch.device('cuda', 0), self.backend)
        self.assertEqual(copies.read(torch.tensor(2.5))(), 2.5)
        self.assertEqual(self.backend.current.waits, 0)  # Its event would come too early.


@support.needs_torch
class ChoiceTest(unittest.TestCase):

    def choose(self, session, gpu_memory=True):
        with unittest.mock.patch('tributary._device_copies.CudaBackend', LateCopies):
            return copies_for(torch.device('cuda', 1), session, gpu_memory)

    def test_uses_host_memory_on_request(self):
        session = unittest.mock.Mock(_on_gpu=False)
        self.assertIsInstance(self.choose(session, gpu_memory=False), PinnedCopies)
        session.use_gpu.assert_not_called()
        session.pin_for_gpu.assert_called_once_with(1)

    def test_refuses_host_memory_after_use_gpu(self):
        session = unittest.mock.Mock(_on_gpu=True)
        with self.assertRaisesRegex(tributary.Error, 'module is on the CPU'):
            copies_for(torch.device('cpu'), session, True)
        with self.assertRaisesRegex(tributary.Error, 'gpu_memory is False'):
            self.choose(session, gpu_memory=False)

    def test_uses_the_gpus_memory(self):
        session = unittest.mock.Mock(_on_gpu=False)
        self.assertIsInstance(self.choose(session), GpuCopies)
        session.use_gpu.assert_called_once_with(1)
        session.pin_for_gpu.assert_not_called()

    def test_uses_host_memory_if_the_worker_cannot_use_the_gpus(self):
        session = unittest.mock.Mock(_on_gpu=False)
        session.use_gpu.side_effect = tributary.Error('no CUDA')
        session.pin_for_gpu.side_effect = tributary.Error('no driver')
        self.assertIsInstance(self.choose(session), PinnedCopies)
        session.pin_for_gpu.assert_called_once_with(1)


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


@support.needs_torch
class EmulatedGpuJobTest(support.JobTest):
    """Jobs whose weights and gradients are in the memory of the emulated GPU, which
    runs all work as late as CUDA may."""

    JOB = os.path.join(support.EXAMPLES, 'digits.textproto')

    def setUp(self):
        super().setUp()
        self.native = os.path.join(self.folder, 'native')
        os.mkdir(self.native)
        for name, target in (
                ('tributary', 'tests/gpu/tributary_on_emulated_gpu'),
                ('libtributary_c.so',
                 'tests/library/c_api/libtributary_c_on_emulated_gpu.so')):
            os.symlink(os.path.abspath(target), os.path.join(self.native, name))

    def train_on_gpu(self, run, workers, server_device, **environment):
        with unittest.mock.patch.object(tributary._native, '_FOLDER', self.native):
            return self.train(run, self.JOB, EMULATED_GPU, workers,
                              CopiedJobTest.SETTINGS,
                              {'EXAMPLES': support.EXAMPLES, 'NATIVE': self.native,
                               **environment},
                              arguments=['--server-device', server_device])

    def assert_equal_bits(self, a, b):
        for field in ('weights_sha256', 'evaluation', 'final_loss'):
            self.assertEqual(a[field], b[field])

    def test_has_the_bits_of_a_module_on_the_cpu(self):
        plain = self.train('plain', self.JOB,
                           os.path.join(support.EXAMPLES, 'digits.py'),
                           settings=CopiedJobTest.SETTINGS)
        for workers in (1, 2):
            gpu = self.train_on_gpu(f'cpu{workers}', workers, 'cpu')
            self.assert_equal_bits(gpu, plain)
            self.assertIn('pass through the host', self.log(f'cpu{workers}'))

    def test_has_the_same_bits_if_a_worker_is_killed(self):
        marker = os.path.join(self.folder, 'marker')
        whole = self.train_on_gpu('whole', 1, 'cuda')
        killed = self.train_on_gpu('killed', 2, 'cuda', MARKER=marker)
        self.assertTrue(os.path.exists(marker))
        self.assertGreaterEqual(killed['workers_lost'], 1)
        self.assert_equal_bits(killed, whole)

    def test_shares_the_memory_of_the_servers_gpu(self):
        expected = self.train_on_gpu('cpu', 1, 'cpu')
        for workers in (1, 2):
            shared = self.train_on_gpu(f'gpu{workers}', workers, 'cuda')
            self.assert_equal_bits(shared, expected)
            self.assertIn("stay in the memory of the server's GPU",
                          self.log(f'gpu{workers}'))


if __name__ == '__main__':
    unittest.main()
