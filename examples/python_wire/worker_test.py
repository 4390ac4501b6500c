"""Checks what the worker decides and sends, without a network: each test passes on the
messages of servers."""

import argparse
import os
import tempfile
import threading
import unittest
import unittest.mock

import grpc
import numpy as np
from google.protobuf import text_format

import worker

JOB, PS, RENDEZVOUS = worker.JOB, worker.PS, worker.RENDEZVOUS

# 64 elements in 2 chunks.
MLP = '''
model { mlp { hidden: 4 } }
data { random { samples: 64 shape: 4 classes: 3 } }
batch { global: 16 micro_batches: 4 }
optimizer { sgd { learning_rate: 0.1 } }
steps: 20
evaluation { every_steps: 4 batch: 16 }
exchange { parameter_server { chunk_bytes: 128 $consistency } }
'''
ASYNCHRONOUS = 'consistency { asynchronous {} }'


KEYED = '''
model { matrix_factorization { item_feature: "item" } loss: MEAN_SQUARED_ERROR }
data { csv { train: "$folder/ratings.csv" test: "$folder/ratings.csv" } }
batch { global: 4 micro_batches: 2 }
optimizer { sgd { learning_rate: 0.1 } }
steps: 20
evaluation { every_steps: 4 batch: 16 }
exchange { parameter_server { chunk_bytes: 128 $consistency } }
sparse {
  fixed_lag: $lag
  table { name: "users" dim: 3 buckets: 2 }
  table { name: "items" dim: 3 buckets: 2 }
  feature { column: "user" table: "users" }
  feature { column: "item" table: "items" }
}
'''


class SentMessages:
    """Takes the place of a Call, and keeps what it would send."""

    def __init__(self):
        self.sent = []

    def send(self, message):
        self.sent.append(message)

    def of_kind(self, kind):
        return [getattr(m, kind) for m in self.sent if kind in
                (m.WhichOneof('message') if isinstance(m, PS.WorkerMessage)
                 else m.WhichOneof('report'),)]


def member(text=MLP, consistency='', servers=2):
    """Returns a worker that has sent Ready."""
    membership = worker.Membership(argparse.Namespace())
    membership.membership = SentMessages()
    membership.prepare(text_format.Parse(text.replace('$consistency', consistency),
                                         JOB.JobSpec()))
    membership.exchanges += [SentMessages() for _ in range(servers)]
    return membership


def order(membership, **kind):
    membership.on_order(RENDEZVOUS.CoordinatorOrder(**kind))


def deal(membership, **fields):
    order(membership, deal=RENDEZVOUS.Deal(**{'generation': 1, 'leaf_end': 4,
                                              'piece_end': 2, **fields}))


def weights(membership, chunk, version):
    part = membership.layout.chunk(chunk)
    values = np.full(part.stop - part.start, version, '<f4')
    membership.on_server_message(chunk % len(membership.exchanges), PS.ServerMessage(
        weights=PS.Weights(chunk=chunk, version=version, encoding=PS.FLOAT32,
                           payload=values.tobytes())))


def decide(membership):
    """Returns what the worker does next, without its weights."""
    task = membership.decide()
    return task[:3] if task is not None else None


def step(membership):
    """Does what the worker decides."""
    kind, *arguments = membership.decide()
    getattr(membership, kind)(*arguments)
    return kind


class OpenTest(unittest.TestCase):
    def setUp(self):
        self.worker = member()

    def initialize(self):
        order(self.worker, open=RENDEZVOUS.Open(initialize=True))
        self.assertEqual(step(self.worker), 'initialize')
        self.assertIsNone(decide(self.worker))
        for server, exchange in enumerate(self.worker.exchanges):
            initial, = exchange.of_kind('initial')
            self.assertEqual((initial.chunk, len(initial.payload)), (server, 128))

    def test_sends_the_initial_values_if_open_asks_for_them(self):
        self.initialize()

    def test_sends_them_if_a_later_open_asks_for_them(self):
        order(self.worker, open=RENDEZVOUS.Open())
        self.assertIsNone(decide(self.worker))
        self.initialize()


class VersionsTest(unittest.TestCase):
    """The chunks of one server are two versions ahead of those of the other one."""

    def setUp(self):
        self.worker = member()
        self.worker.facts.evaluation_pieces = 2
        for version in (3, 4, 5):
            weights(self.worker, 0, version)
        weights(self.worker, 1, 3)

    def test_reports_synced_when_it_has_all_chunks_at_one_version(self):
        self.assertIsNone(decide(self.worker))
        weights(self.worker, 1, 4)
        self.assertEqual(decide(self.worker), ('sync', 4))

    def test_waits_for_newer_weights(self):
        self.worker.synced = 0
        deal(self.worker)
        self.assertIsNone(decide(self.worker))
        weights(self.worker, 1, 4)
        self.assertEqual(decide(self.worker), ('evaluate', 4, [0, 1]))
        order(self.worker, evaluated=RENDEZVOUS.Evaluated(version=4))
        self.assertEqual(decide(self.worker), ('train', 4, [0, 1, 2, 3]))

    def test_does_not_wait_in_mode_asynchronous(self):
        self.worker.mode = 'asynchronous'
        self.assertEqual(decide(self.worker), ('sync', 3))
        self.worker.synced = 0
        deal(self.worker, leaf_end=0)
        order(self.worker, claimed=RENDEZVOUS.Claimed(step=5))
        self.assertEqual(decide(self.worker), ('train', 5, [0, 1, 2, 3]))
        step(self.worker)
        for exchange, version in zip(self.worker.exchanges, (5, 3)):
            contribution, = exchange.of_kind('contribution')
            self.assertEqual(contribution.base_version, version)

    def test_computes_from_the_weights_of_its_decision(self):
        self.worker.synced = 0
        deal(self.worker)
        weights(self.worker, 1, 4)
        order(self.worker, evaluated=RENDEZVOUS.Evaluated(version=4))
        kind, *arguments = self.worker.decide()
        arenas = []
        self.worker.leaf_sum = lambda step, leaf, arena: arenas.append(arena)
        weights(self.worker, 0, 6)
        getattr(self.worker, kind)(*arguments)
        self.assertEqual(set(arenas[0]), {4})


class EvaluatedTest(unittest.TestCase):
    def setUp(self):
        self.worker = member(MLP + 'schedule { decay: PLATEAU }')
        self.worker.facts.evaluation_pieces = 2
        self.worker.synced = 0

    def weights(self, version):
        for chunk in range(2):
            weights(self.worker, chunk, version)

    def rates(self):
        return [contribution.learning_rate for contribution in
                self.worker.exchanges[0].of_kind('contribution')]

    def test_computes_no_step_before_the_evaluated_version(self):
        self.weights(3)
        deal(self.worker, evaluated_version=4, rate_factor=0.5)
        self.assertIsNone(decide(self.worker))
        self.weights(4)
        self.assertEqual(step(self.worker), 'train')
        self.weights(8)
        order(self.worker, evaluated=RENDEZVOUS.Evaluated(version=8, rate_factor=0.25))
        self.assertEqual(step(self.worker), 'train')
        self.assertEqual(self.rates(), [0.1 * 0.5, 0.1 * 0.25])

    def test_awaits_the_notice_of_an_evaluation_that_weights_overtake(self):
        self.weights(0)
        deal(self.worker)
        self.weights(5)
        self.assertIsNone(decide(self.worker))
        order(self.worker, evaluated=RENDEZVOUS.Evaluated(version=4, rate_factor=0.5))
        self.assertEqual(step(self.worker), 'train')
        self.assertEqual(self.rates(), [0.1 * 0.5])

    def test_awaits_no_notice_of_an_evaluation_before_its_first_version(self):
        self.worker.synced = 5
        deal(self.worker)
        self.weights(5)
        self.assertEqual(step(self.worker), 'train')

    def test_without_a_factor_it_is_1(self):
        self.weights(0)
        deal(self.worker)
        self.assertEqual(step(self.worker), 'train')
        self.assertEqual(self.rates(), [0.1])


class RowsTest(unittest.TestCase):
    """Rows of tables on two servers, which answer requests at once."""

    def make(self, consistency='', lag=0, gone=False):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'ratings.csv'), 'w') as file:
                file.write('user,item,rating\n' + 'a,x,1\nb,y,0\n' * 8)
            text = KEYED.replace('$folder', folder).replace('$lag', str(lag))
            self.worker = member(text, consistency)
        for server, exchange in enumerate(self.worker.exchanges):
            exchange.send = lambda message, server=server, exchange=exchange: (
                exchange.sent.append(message), self.answer(server, message, gone))
        self.worker.synced = 5
        deal(self.worker, leaf_end=2, piece_end=1)
        self.announce(5)

    def answer(self, server, message, gone):
        if message.WhichOneof('message') != 'rows_request':
            return
        count = sum(message.rows_request.keys)
        self.worker.on_server_message(server, PS.ServerMessage(rows=PS.Rows(
            request=message.rows_request.request, rows=0 if gone else count,
            encoding=PS.FLOAT32, gone=gone,
            payload=b'' if gone else bytes(4 * 3 * count))))

    def announce(self, version):
        weights(self.worker, 0, version)
        for server in range(2):
            self.worker.on_server_message(server, PS.ServerMessage(
                tables_complete=PS.TablesComplete(version=version)))

    def requested(self):
        return [request.version for request in
                self.worker.exchanges[1].of_kind('rows_request')]

    def test_reads_the_version_before_and_the_next_one_ahead(self):
        self.make(lag=2)
        self.assertEqual(step(self.worker), 'train')
        self.assertEqual(self.requested(), [3, 3, 4, 4])

    def test_requests_the_rows_of_few_micro_batches_ahead(self):
        self.make()
        with unittest.mock.patch('tables.MOST_AHEAD', 1):
            step(self.worker)
        self.assertEqual(self.requested(), [5, 5, 6])

    def test_reads_the_newest_version_in_mode_asynchronous(self):
        self.make(ASYNCHRONOUS)
        order(self.worker, claimed=RENDEZVOUS.Claimed(step=7))
        self.assertEqual(step(self.worker), 'train')
        self.assertEqual(self.requested(), [-1, -1])

    def test_does_not_request_again_what_is_gone(self):
        self.make(gone=True)
        self.assertEqual(step(self.worker), 'train')
        self.assertIsNone(decide(self.worker))
        self.announce(6)
        self.assertEqual(decide(self.worker), ('train', 6, [0, 1]))
        self.announce(8)
        self.assertEqual(step(self.worker), 'evaluate')
        self.assertIsNone(decide(self.worker))


class Lock(threading.Condition):
    held = False

    def __enter__(self):
        super().__enter__()
        self.held = True

    def __exit__(self, *error):
        self.held = False
        super().__exit__(*error)


class ThreadsTest(unittest.TestCase):
    def test_a_heartbeat_reads_the_version_under_the_lock(self):
        membership = member()
        membership.changed = Lock()
        held = []

        def version():
            held.append(membership.changed.held)
            membership.leaving = True
            return 3
        membership.version = version
        with unittest.mock.patch('time.sleep'):
            membership.beat()
        self.assertEqual(held, [True])
        heartbeat, = membership.membership.of_kind('heartbeat')
        self.assertEqual(heartbeat.step, 3)

    def test_a_chunk_that_cannot_be_decoded_is_not_kept(self):
        membership = member()
        weights(membership, 0, 0)
        with self.assertRaises(ValueError):
            membership.take_weights(PS.Weights(chunk=1, encoding=PS.FLOAT32,
                                               payload=b'short'))
        self.assertIsNone(membership.version())

    def test_an_exception_for_a_message_ends_the_call_and_the_worker(self):
        for finished in (False, True):
            membership = member()
            membership.finished = finished
            call = unittest.mock.MagicMock()
            call.__iter__.return_value = iter(['message'])
            ended = threading.Event()

            def on_message(_):
                raise KeyError('a mistake')

            def on_end(*end):
                membership.on_end('server 0')(*end)
                ended.set()
            with unittest.mock.patch('traceback.print_exc') as printed:
                worker.Call(lambda requests, metadata: call, [], on_message, on_end)
                self.assertTrue(ended.wait(timeout=60))
                printed.assert_called_once()
            call.cancel.assert_called_once()
            with self.assertRaisesRegex(worker.Ended, "server 0: KeyError.'a mistake'"):
                membership.wait(lambda: None)
            self.assertEqual(membership.error.code, grpc.StatusCode.UNKNOWN)


if __name__ == '__main__':
    unittest.main()
