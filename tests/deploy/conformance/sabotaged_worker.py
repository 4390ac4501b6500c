#!/usr/bin/env python3
"""The worker of examples/python_wire with one fault: sabotaged_worker.py FAULT."""

import os
import sys

import grpc

sys.path.insert(0, os.path.abspath('examples/python_wire'))
# pylint: disable=wrong-import-position
import sampling  # noqa: E402
import steps  # noqa: E402
import worker  # noqa: E402

Membership = worker.Membership
first = {}


def before_sending(change):
    """Changes each message of a call before it is sent."""
    send = worker.Call.send

    def changed(call, message):
        if change(message) is not False:
            send(call, message)
    worker.Call.send = changed


def change_sums(change):
    leaf_sum = Membership.leaf_sum

    def changed(self, *arguments):
        total = leaf_sum(self, *arguments)
        return steps.Sum(*change(total.gradient, total.samples, total.loss))
    Membership.leaf_sum = changed


def keep_first(message, name):
    """Sets the field of Hello to the value of the first Hello."""
    if hasattr(message, 'hello') and message.WhichOneof('message') == 'hello':
        setattr(message.hello, name, first.setdefault(name, getattr(message.hello, name)))


def other_samples():
    micro_batch = sampling.micro_batch
    sampling.micro_batch = lambda seed, *rest: micro_batch(seed + 1, *rest)


def wrong_fingerprint():
    prepare = Membership.prepare

    def changed(self, job):
        ready = prepare(self, job)
        ready.data.fingerprint ^= 1
        return ready
    Membership.prepare = changed


def no_synced(message):
    return not (hasattr(message, 'synced') and message.WhichOneof('report') == 'synced')


def unweighted_evaluation(message):
    if hasattr(message, 'evaluation'):
        if message.WhichOneof('report') == 'evaluation':
            message.evaluation.weight = 0


def every_piece_twice():
    evaluate = Membership.evaluate

    def changed(self, version, pieces):
        evaluate(self, version, pieces)
        evaluate(self, version, pieces)
    Membership.evaluate = changed


def other_micro_batches():
    nodes_of = Membership.nodes_of

    def changed(self, leaves):
        self.deal.leaf_begin = 0
        return nodes_of(self, leaves)
    Membership.nodes_of = changed
    decide = Membership.decide

    def all_leaves(self):
        task = decide(self)
        if task is None or task[0] != 'train':
            return task
        return 'train', task[1], list(range(self.job.batch.micro_batches))
    Membership.decide = all_leaves


def endless():
    run = Membership.run

    def changed(self):
        try:
            run(self)
        except worker.Ended:
            worker.threading.Event().wait()
    Membership.run = changed


FAULTS = {
    'other-samples': other_samples,
    'sample-count': lambda: change_sums(lambda g, n, loss: (g, n + 1, loss)),
    'twice-the-gradient': lambda: change_sums(lambda g, n, loss: (2 * g, n, loss)),
    'nan-loss': lambda: change_sums(lambda g, n, loss: (g, n, float('nan'))),
    'fingerprint': wrong_fingerprint,
    'evaluation-weight': lambda: before_sending(unweighted_evaluation),
    'evaluates-twice': every_piece_twice,
    'other-micro-batches': other_micro_batches,
    'no-synced': lambda: before_sending(no_synced),
    'old-incarnation': lambda: before_sending(lambda m: keep_first(m, 'incarnation')),
    'old-attempt': lambda: before_sending(lambda m: keep_first(m, 'attempt')),
    'never-joins-again': lambda: setattr(worker, 'REJOIN', ()),
    'always-joins-again': lambda: setattr(worker, 'REJOIN', tuple(grpc.StatusCode)),
    'never-stops': endless,
}

if __name__ == '__main__':
    FAULTS[sys.argv.pop(1)]()
    sys.exit(worker.main())
