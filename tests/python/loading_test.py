"""Reading the samples of micro-batches with DataLoader."""

import itertools
import os
import unittest

import tributary

import support

LOADER = os.path.join(support.WORKERS, 'loader.py')
LOCAL_STEPS = """
    exchange { parameter_server { consistency { local_steps { inner_steps: 3 } } } }"""


@support.needs_torch
class LoaderTest(support.JobTest):

    def run_loader(self, workers=1, exchange='', **config):
        # The last batch of an epoch has one micro-batch with 3 samples.
        job = self.write_job('job', support.external_job(
            config, samples=51, more=f'{exchange} '
            'optimizer { sgd { learning_rate: 0.001 } } steps: 18 '
            'batch { global: 16 micro_batches: 4 }'))
        self.train('run', job, LOADER, workers, environment={'FOLDER': self.folder})

    def lines(self, name):
        with open(os.path.join(self.folder, name), encoding='utf-8') as file:
            return [tuple(map(int, line.split())) for line in file]

    def check(self, **config):
        self.run_loader(**config)
        micro_batches = [(step, number) for step, number
                         in itertools.product(range(18), range(4))
                         if step % 4 < 3 or number == 0]
        self.assertEqual(sorted(set(self.lines('computed'))), micro_batches)
        # One worker computes what was predicted, unless it has to join again.
        (starts,), = self.lines('starts')
        self.assertLess(starts, 5)

    def test_a_sampler_gives_the_samples_of_each_micro_batch(self):
        self.check(kind='sampler', processes=0)

    def test_a_sampler_gives_the_samples_to_processes(self):
        self.check(kind='sampler', processes=2)

    def test_a_dataset_gives_the_samples_of_each_micro_batch(self):
        self.check(kind='dataset', processes=0)

    def test_a_dataset_gives_the_samples_in_processes(self):
        self.check(kind='dataset', processes=2)

    def test_samples_are_right_when_a_worker_is_killed(self):
        self.run_loader(workers=2, kind='dataset', processes=1, kill=True)
        self.assertTrue(os.path.exists(os.path.join(self.folder, 'marker')))
        self.assertEqual(len({step for step, _ in self.lines('computed')}), 18)

    def test_samples_are_right_with_local_steps(self):
        self.run_loader(exchange=LOCAL_STEPS, kind='sampler', processes=1)
        self.assertEqual(len({step for step, _ in self.lines('computed')}), 18)

    def check_mistake(self, kind, mistake, *words):
        with self.assertRaises(tributary.JobFailed) as raised:
            self.run_loader(kind=kind, processes=1, mistake=mistake)
        for word in words:
            self.assertIn(word, str(raised.exception))

    def test_another_sampler_is_an_error(self):
        self.check_mistake('sampler', 'sampler', 'the loader has another sampler')

    def test_a_batch_size_is_an_error(self):
        self.check_mistake('dataset', 'batch', 'DataLoader(samples, batch_size=None)')

    def test_persistent_processes_are_an_error(self):
        self.check_mistake('dataset', 'persistent', 'persistent_workers=True')


@support.needs_torch
class ExampleTest(support.JobTest):

    def test_augmented_images_have_the_same_bits_with_one_and_two_workers(self):
        job = os.path.join(support.EXAMPLES, 'digits.textproto')
        worker = os.path.join(support.EXAMPLES, 'images.py')
        settings = {'steps': 24, 'evaluation.every_steps': 24}
        one = self.train('one', job, worker, settings=settings)
        two = self.train('two', job, worker, 2, settings)
        self.assertEqual(one['weights_sha256'], two['weights_sha256'])
        self.assertEqual(one['evaluation'], two['evaluation'])


@support.needs_torch
class PlanTest(unittest.TestCase):

    def mismatches(self, sequence, micro_batches):
        """Returns the places of the sequence that were predicted wrongly."""
        from tributary.loading import _plan
        wrong, plan = [], iter(())
        for place, key in enumerate(sequence):
            if next(plan, None) != key:
                wrong.append(place)
                plan = _plan(sequence[:place + 1], micro_batches)
                next(plan)
        return wrong

    def test_one_worker_computes_all_micro_batches(self):
        sequence = [(step, number) for step in range(9) for number in range(4)]
        self.assertEqual(self.mismatches(sequence, 4), [0])

    def test_the_range_of_a_worker_is_known_after_one_step(self):
        sequence = [(step, number) for step in range(9) for number in (1, 2)]
        self.assertEqual(self.mismatches(sequence, 4), [0, 2])

    def test_another_range_is_known_after_two_steps(self):
        sequence = [(step, number) for step in range(5) for number in (1, 2)]
        sequence += [(step, number) for step in range(5, 15) for number in (0, 1, 2)]
        self.assertLess(max(self.mismatches(sequence, 4)), 10 + 9)

    def test_local_steps_are_known_after_three_rounds(self):
        sequence = [(3 * step + inner, number) for step in range(9)
                    for number in (2, 3) for inner in range(3)]
        self.assertLess(max(self.mismatches(sequence, 4)), 3 * 6)


if __name__ == '__main__':
    unittest.main()
