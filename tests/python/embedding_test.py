"""Modules whose rows are in tables on the servers."""

import os
import subprocess
import sys
import unittest

import numpy as np

import tributary
from tributary import _native

import support

WORKER = os.path.join(support.WORKERS, 'tables.py')
STEPS = 12
JOB = """
    name: "tables"
    seed: 7
    model { external { name: "tables" } }
    data { external { train_samples: 96 evaluation_samples: 10 } }
    optimizer { sgd { learning_rate: 0.1 momentum: 0 } }
    batch { global: 32 micro_batches: 4 }
    evaluation { every_steps: 100 }
    checkpoint { every_steps: 4 }
    output { log_every_steps: 1 }
    sparse {
      fixed_lag: LAG
      table { name: "movies" dim: 4 buckets: 5 adagrad { learning_rate: 0.2 } }
      table { name: "tags" dim: 3 buckets: 4
              sgd { learning_rate: 0.3 momentum: 0 } normal: 0.5 }
      feature { column: "watched" table: "movies" pooling: MEAN integer_keys: true }
      feature { column: "shown" table: "movies" pooling: NONE integer_keys: true }
      feature { column: "tags" table: "tags" integer_keys: true }
    }"""


@support.needs_torch
class EmbeddingTest(support.JobTest):

    def run_tables(self, run, workers=1, form='session', servers=1, announce=False, lag=0,
                   environment=None, **settings):
        variables = {'FORM': form, **({'ANNOUNCE': '1'} if announce else {}),
                     **(environment or {})}
        return self.train(run, self.write_job('job', JOB.replace('LAG', str(lag))), WORKER,
                          workers, {'steps': STEPS, **settings}, variables, servers)

    def tributary(self, *arguments):
        return subprocess.run([_native.program(), *arguments], cwd=self.folder, check=False,
                              capture_output=True, text=True)

    def rows(self, run, table):
        """Returns the rows of a run by their keys."""
        folder = f'{run}-{table}'
        done = self.tributary('sparse', 'export', run, '--table', table, '--output', folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        keys, values = (np.load(os.path.join(self.folder, folder, name + '.npy'))
                        for name in ('keys', 'values'))
        return dict(zip(keys.tolist(), values))

    def check_equal(self, run, summary, other):
        """Compares a run with another, whose summary is `other`."""
        self.assertEqual(summary['weights_sha256'], other['weights_sha256'])
        self.assertEqual(summary['evaluation'], other['evaluation'])
        done = self.tributary('checkpoint', 'diff', run, 'one')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def check_any_number_of_workers(self, form, lag=0):
        one = self.run_tables('one', form=form, lag=lag)
        for workers, servers in ((2, 1), (4, 3)):
            run = f'{form}-{workers}'
            self.check_equal(run, self.run_tables(run, workers, form, servers, True, lag),
                             one)
        return one

    def test_a_session_has_the_same_bits_with_any_number_of_workers(self):
        one = self.check_any_number_of_workers('session')
        self.check_equal('arrays', self.run_tables('arrays', 2, 'arrays'), one)

    def test_a_loop_has_the_same_bits_with_any_number_of_workers(self):
        self.check_any_number_of_workers('loop')

    def test_rows_of_an_earlier_version_have_the_same_bits(self):
        late = self.check_any_number_of_workers('session', lag=1)
        now = self.run_tables('now')
        self.assertNotEqual(late['weights_sha256'], now['weights_sha256'])

    def check_kill(self, kill):
        marker = os.path.join(self.folder, 'marker')
        one = self.run_tables('one')
        killed = self.run_tables('killed', 2, announce=True,
                                 environment={'KILL': kill, 'MARKER': marker})
        self.assertTrue(os.path.exists(marker))
        self.check_equal('killed', killed, one)
        return killed

    def test_has_the_same_bits_when_a_worker_is_killed(self):
        self.assertGreaterEqual(self.check_kill('worker')['workers_lost'], 1)

    def test_has_the_same_bits_when_the_server_is_killed(self):
        self.check_kill('server')

    def test_has_the_weights_and_the_rows_of_plain_pytorch(self):
        import torch
        for form in ('session', 'loop'):
            self.run_tables(form, 2, form, environment={'FOLDER': self.folder})
            package = os.path.dirname(os.path.dirname(tributary.__file__))
            # Only the form `session` saves the first rows, which both have.
            subprocess.run([sys.executable, WORKER, self.folder, str(STEPS)], check=True,
                           env={**os.environ, 'FORM': form, 'PYTHONPATH': package})
            plain = torch.load(os.path.join(self.folder, 'plain'))
            weights = tributary.load(os.path.join(self.folder, form))
            for name, values in weights.items():
                expected = plain[name.replace('output.', '')].numpy()
                np.testing.assert_allclose(values, expected, atol=2e-6)
            for table in ('movies', 'tags'):
                expected = plain[table].numpy()
                first, last = (np.load(os.path.join(self.folder, f'{table}-{name}.npy'))
                               for name in ('first', 'last'))
                self.assertGreater(abs(last - first).max(), 0.01)
                np.testing.assert_allclose(last[1:], expected[1:], atol=2e-6)
                rows = self.rows(form, table)
                self.assertEqual(sorted(rows), sorted(set(rows) & set(range(12))))
                for key, row in rows.items():
                    np.testing.assert_array_equal(row, last[key])

    def test_threads_of_one_process_have_the_bits_of_processes(self):
        sys.path.insert(0, support.WORKERS)
        os.environ.update(FORM='session', ANNOUNCE='1')
        import tables
        one = self.run_tables('one')
        threads = tributary.train(JOB.replace('LAG', '0'),
                                  os.path.join(self.folder, 'threads'), in_process=True,
                                  worker=tables.work, workers=2, settings={'steps': STEPS})
        self.check_equal('threads', threads, one)

    def test_the_example_learns(self):
        path = os.path.join(support.EXAMPLES, 'recommend')
        summary = self.train('run', path + '.textproto', path + '.py', 2)
        self.assertGreater(summary['evaluation']['accuracy'], 0.9)
        # The last step of an epoch has micro-batches without samples.
        self.assertEqual(summary['workers_lost'], 0)

    def in_worker(self, check, before=lambda session: None):
        """Calls before(session), and in a micro-batch check(session), in a job in this
        process."""
        import torch
        checked = []

        def work():
            session = tributary.connect()
            before(session)
            model = tributary.DistributedDataParallel(torch.nn.Linear(1, 1), session)
            for step in session:
                for batch in step.micro_batches:
                    if not checked:
                        check(session)
                        checked.append(True)
                    batch.backward(model(torch.ones(1, 1)).sum())
                for piece in step.evaluation:
                    piece.report(loss_sum=0.0)

        tributary.train(JOB.replace('LAG', '0'), os.path.join(self.folder, 'run'),
                        in_process=True, worker=work, workers=1, settings={'steps': 1})
        self.assertEqual(checked, [True])

    def test_has_the_bags_of_pytorch_without_keys(self):
        import torch

        def check(session):
            for last in (False, True):
                ours = tributary.EmbeddingBag(session, 'tags', include_last_offset=last)
                plain = torch.nn.EmbeddingBag(4, 3, mode='sum', include_last_offset=last)
                for offsets in ([], [0], [0, 0]):
                    keys = torch.zeros(0, dtype=torch.int64)
                    offsets = torch.tensor(offsets, dtype=torch.int64)
                    if len(offsets) >= last:
                        bags = ours(keys, offsets)
                        self.assertEqual(bags.tolist(), plain(keys, offsets).tolist())
                        self.assertEqual(bags.shape[1], 3)
                        bags.sum().backward()
                for keys, offsets in (([1, 2], [1, 2]), ([1, 2], []), ([1, 2], [3]),
                                      ([1, 2], [0, 3]), ([], [1]), ([1, 2], [0, 2, 1])):
                    with self.subTest((keys, offsets, last)), \
                            self.assertRaisesRegex(tributary.Error, 'tags'):
                        ours(torch.tensor(keys, dtype=torch.int64),
                             torch.tensor(offsets, dtype=torch.int64))
            with self.assertRaisesRegex(tributary.Error, 'no numbers'):
                ours(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))

        self.in_worker(check)

    def test_mistakes_are_errors(self):
        import torch
        made, one, bag = {}, torch.tensor([[1]]), tributary.EmbeddingBag

        def check(mistake, words):
            with self.assertRaises(tributary.Error) as raised:
                mistake()
            for word in words:
                self.assertIn(word, str(raised.exception))

        def outside(session):
            made['tags'], made['watched'] = bag(session, 'tags'), bag(session, 'watched')
            for mistake, words in (
                    (lambda: bag(session, 'films'), ["'films'", 'watched', 'tags']),
                    (lambda: bag(session, 'tags', mode='mean'), ["'tags'", 'SUM', 'MEAN']),
                    (lambda: tributary.Embedding(session, 'watched'),
                     ["'watched'", 'pooling: NONE']),
                    (lambda: bag(session, 'shown'), ["'shown'", 'tributary.Embedding']),
                    (lambda: made['tags'](one), ["'tags'", 'outside'])):
                check(mistake, words)

        def inside(_):
            for mistake, words in (
                    (lambda: made['tags'](one.float()), ["'tags'", 'float32']),
                    (lambda: made['tags'](one[0]), ["'tags'", 'dimensions']),
                    (lambda: made['watched'](torch.tensor([1, 2]), torch.tensor([1])),
                     ["'watched'", 'offsets'])):
                check(mistake, words)

        self.in_worker(inside, outside)


class KeysTest(support.JobTest):

    def test_has_the_keys_of_the_data_format(self):
        # "Keys" in proto/DATA.md has these test vectors.
        self.assertEqual(tributary.keys_of(['68fd1e64'], 'C1').view(np.uint64)[0],
                         0xc34784fdf2595470)
        self.assertEqual(tributary.keys_of([b'\xff\0x', 'Z'], 'user').view(np.uint64)[0],
                         0xdededcdade4619f9)
        self.assertEqual(tributary.keys_of(['42'])[0], 0x23ba00f836c1c978)
        self.assertEqual(tributary.keys_of([]).dtype, np.int64)


if __name__ == '__main__':
    unittest.main()
