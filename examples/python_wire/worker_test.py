"""Checks what the worker decides and sends, without a network: each test passes on the
messages of servers."""

import argparse
import unittest

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
        self.worker.synced = True
        deal(self.worker)
        self.assertIsNone(decide(self.worker))
        weights(self.worker, 1, 4)
        self.assertEqual(decide(self.worker), ('evaluate', 4, [0, 1]))
        order(self.worker, evaluated=RENDEZVOUS.Evaluated(version=4))
        self.assertEqual(decide(self.worker), ('train', 4, [0, 1, 2, 3]))

    def test_does_not_wait_in_mode_asynchronous(self):
        self.worker.mode = 'asynchronous'
        self.assertEqual(decide(self.worker), ('sync', 3))
        self.worker.synced = True
        deal(self.worker, leaf_end=0)
        order(self.worker, claimed=RENDEZVOUS.Claimed(step=5))
        self.assertEqual(decide(self.worker), ('train', 5, [0, 1, 2, 3]))
        step(self.worker)
        for exchange, version in zip(self.worker.exchanges, (5, 3)):
            contribution, = exchange.of_kind('contribution')
            self.assertEqual(contribution.base_version, version)

    def test_computes_from_the_weights_of_its_decision(self):
        self.worker.synced = True
        deal(self.worker)
        weights(self.worker, 1, 4)
        order(self.worker, evaluated=RENDEZVOUS.Evaluated(version=4))
        kind, *arguments = self.worker.decide()
        arenas = []
        self.worker.leaf_sum = lambda step, leaf, arena: arenas.append(arena)
        weights(self.worker, 0, 6)
        getattr(self.worker, kind)(*arguments)
        self.assertEqual(set(arenas[0]), {4})


if __name__ == '__main__':
    unittest.main()
