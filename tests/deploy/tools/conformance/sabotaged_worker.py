#!/usr/bin/env python3
"""The worker of examples/python_wire with one fault: sabotaged_worker.py FAULT."""

import os
import sys

import grpc

sys.path.insert(0, os.path.abspath('examples/python_wire'))
# pylint: disable=wrong-import-position
import payloads  # noqa: E402
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

    def changed(self, *arguments):
        evaluate(self, *arguments)
        evaluate(self, *arguments)
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
        return 'train', task[1], list(range(self.job.batch.micro_batches)), task[3]
    Membership.decide = all_leaves


def ignores_a_second_open():
    on_order = Membership.on_order

    def changed(self, order):
        if order.WhichOneof('order') != 'open' or self.open is None:
            on_order(self, order)
    Membership.on_order = changed


def endless():
    run = Membership.run

    def changed(self):
        try:
            run(self)
        except worker.Ended:
            worker.threading.Event().wait()
    Membership.run = changed


def hangs_after_a_loss():
    run = Membership.run

    def changed(self):
        try:
            run(self)
        except worker.Ended as ended:
            if ended.code in worker.REJOIN:
                worker.threading.Event().wait()
            raise
    Membership.run = changed


def forgets_the_residual():
    encode = payloads.GradientEncoder.encode

    def changed(self, values):
        self.residual[:] = 0
        return encode(self, values)
    payloads.GradientEncoder.encode = changed


def rounds_to_zero():
    def truncated(values):
        return (payloads.flush(values).view('u4') >> 16).astype('<u2')
    payloads._to_bfloat16 = truncated  # pylint: disable=protected-access


def mean_of_local_steps():
    steps.LocalSgd.outer_gradient = lambda self: self.start - self.weights


def never_averages():
    """Each micro-batch continues from its own weights."""
    own, leaf_of = {}, {}
    leaf_sum = Membership.leaf_sum
    begin, outer_gradient = steps.LocalSgd.__init__, steps.LocalSgd.outer_gradient

    def changed(self, step, leaf, arena):
        leaf_of['next'] = leaf
        return leaf_sum(self, step, leaf, arena)

    def continued(self, job, total_steps, layout, start):
        begin(self, job, total_steps, layout, own.get(leaf_of['next'], start))

    def remembered(self):
        own[leaf_of['next']] = self.weights
        return outer_gradient(self)
    Membership.leaf_sum = changed
    steps.LocalSgd.__init__ = continued
    steps.LocalSgd.outer_gradient = remembered


def old_weights():
    """Computes from the older of the two versions that it keeps."""
    def changed(self):
        return self.choose([min(self.weights[c]) for c in range(self.layout.chunks)])
    Membership.newest_weights = changed


def another_lease():
    decide = Membership.decide

    def changed(self):
        task = decide(self)
        if task is None or task[0] != 'train':
            return task
        return 'train', task[1] + 1, *task[2:]
    Membership.decide = changed


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
    'ignores-a-second-open': ignores_a_second_open,
    'never-stops': endless,
    'hangs-after-a-loss': hangs_after_a_loss,
    'forgets-the-residual': forgets_the_residual,
    'rounds-to-zero': rounds_to_zero,
    'mean-of-local-steps': mean_of_local_steps,
    'never-averages': never_averages,
    'old-weights': old_weights,
    'another-lease': another_lease,
}

if __name__ == '__main__':
    FAULTS[sys.argv.pop(1)]()
    sys.exit(worker.main())
