#!/usr/bin/env python3
"""A worker for Tributary in Python, written from the pages in proto/ alone.

Needs grpcio, NumPy and protobuf. Trains the built-in models `mlp` and, with tables of
embeddings, `matrix_factorization`.
"""

import argparse
import functools
import os
import queue
import socket
import sys
import threading
import time
import traceback

import grpc
import numpy as np

import data
import factors
import mlp
import payloads
import sampling
import steps
import stubs
import tables

MODULES = stubs.load()
JOB = MODULES['job_pb2']
PS = MODULES['parameter_server_pb2']
RENDEZVOUS = MODULES['rendezvous_pb2']
REJOIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED,
          grpc.StatusCode.DEADLINE_EXCEEDED)


class Ended(Exception):
    """Raised when a call has ended, or when this worker cannot compute the job."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Call:
    """A call with messages in both directions. A thread passes on received messages.

    Args:
        on_end: called with the code and the details of the end, when no message follows.
            The code is None if on_message has raised an exception.
    """

    def __init__(self, method, metadata, on_message, on_end):
        self._outgoing = queue.SimpleQueue()
        self._call = method(iter(self._outgoing.get, None), metadata=metadata)
        self._ended = threading.Event()
        threading.Thread(target=self._receive, args=(on_message, on_end),
                         daemon=True).start()

    def _receive(self, on_message, on_end):
        code, details = grpc.StatusCode.OK, 'the call has ended'
        try:
            for message in self._call:
                on_message(message)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
        except Exception as error:  # A mistake in on_message; nobody else sees it.
            traceback.print_exc()
            self.cancel()
            code, details = None, repr(error)
        self.half_close()
        self._ended.set()
        on_end(code, details)

    def send(self, message):
        self._outgoing.put(message)

    def half_close(self):
        self._outgoing.put(None)

    def cancel(self):
        self._call.cancel()

    def await_end(self):
        self._ended.wait(timeout=30)


def check_supported(job):
    """Raises ValueError for what this worker does not implement."""
    known = type(job)()
    known.CopyFrom(job)
    known.DiscardUnknownFields()
    if known.ByteSize() != job.ByteSize():
        raise ValueError('the job has fields that this worker does not know; use the '
                         '.proto files of the same release')
    mode = job.exchange.parameter_server.consistency.WhichOneof('mode')
    factors_only = job.model.matrix_factorization
    if job.model.WhichOneof('kind') == 'matrix_factorization' and (
            factors_only.hidden or job.model.loss != job.model.MEAN_SQUARED_ERROR):
        raise ValueError('model.matrix_factorization: this worker supports no hidden '
                         'layers, and loss MEAN_SQUARED_ERROR')
    for field, value, supported in (
            ('model', job.model.WhichOneof('kind'), ('mlp', 'matrix_factorization')),
            ('exchange', job.exchange.WhichOneof('kind'), ('parameter_server',)),
            ('consistency', mode, (None, 'synchronous', 'local_steps', 'asynchronous')),
            ('precision', JOB.JobSpec.Precision.Name(job.precision), ('FLOAT32', 'TF32')),
            ('exchange.transport',
             JOB.ExchangeSpec.Transport.Name(job.exchange.transport), ('AUTO', 'WIRE'))):
        if value not in supported:
            raise ValueError(f'{field} is {value}; this worker supports '
                             + ', '.join(str(name) for name in supported if name))


class Membership:
    """Takes part in a job once, from Join to Farewell."""

    def __init__(self, options):
        self.options = options
        self.changed = threading.Condition()  # Guards what the calls receive.
        self.error = self.admission = self.open = self.deal = None
        self.must_initialize = self.finished = self.leaving = False
        self.synced = None        # The version that Synced has reported.
        self.last_version = None  # Known when the job is finished.
        self.evaluated = 0
        self.rate_factors = {}  # By the first version for which they hold.
        self.weights = {}  # By chunk: {version: values}, the newest two.
        self.done = set()  # (version, micro-batch) and (version, 'piece', number).
        self.lease = self.lease_requested = None  # Mode asynchronous only.
        self.outcomes, self.refused = 0, False
        self.exchanges = []
        self.leaves, self.leaf_seconds = 0, 0.0
        self.channels = []
        self.tables = None  # In jobs with tables.

    # ---- Connecting.

    def channel(self, address):
        arguments = [('grpc.max_receive_message_length', 4 << 20),
                     ('grpc.max_send_message_length', 4 << 20),
                     ('grpc.use_local_subchannel_pool', 1)]
        folder = self.options.tls_dir
        if not folder:
            channel = grpc.insecure_channel(address, arguments)
        else:
            def read(name):
                with open(os.path.join(folder, name), 'rb') as file:
                    return file.read()
            credentials = grpc.ssl_channel_credentials(
                read('ca.pem'), read('worker-key.pem'), read('worker.pem'))
            arguments.append(('grpc.ssl_target_name_override', 'server.tributary'))
            channel = grpc.secure_channel(address, credentials, arguments)
        self.channels.append(channel)
        return channel

    def metadata(self):
        if not self.options.token_file:
            return []
        with open(self.options.token_file) as file:
            # Further lines are tokens that replace this one or were replaced by it.
            return [('authorization', f'Bearer {file.read().split()[0]}')]

    def report(self, **kind):
        self.membership.send(RENDEZVOUS.WorkerReport(**kind))

    # ---- Received messages, on the threads of the calls.

    def on_end(self, name):
        def end(code, details):
            with self.changed:
                if code is None:
                    code = grpc.StatusCode.UNKNOWN
                elif self.finished:  # The servers may leave first.
                    code = grpc.StatusCode.OUT_OF_RANGE
                elif code == grpc.StatusCode.OK:
                    code = grpc.StatusCode.UNAVAILABLE
                if not self.leaving and self.error is None:
                    self.error = Ended(code, f'{name}: {details}')
                self.changed.notify_all()
        return end

    def on_evaluated(self, version, message):
        self.evaluated = max(self.evaluated, version)
        if message.HasField('rate_factor'):
            self.rate_factors[version] = message.rate_factor

    def rate_of(self, step):
        """Returns the learning rate to state for a step; None: none."""
        if self.job.schedule.decay != self.job.schedule.PLATEAU:
            return None
        version = max((v for v in self.rate_factors if v <= step), default=None)
        return (steps.learning_rate(self.job, self.rounds, step)
                * self.rate_factors.get(version, 1))

    def on_order(self, order):
        with self.changed:
            kind = order.WhichOneof('order')
            if kind == 'admission':
                self.admission = order.admission
            elif kind == 'open':
                self.open = order.open
                self.must_initialize |= order.open.initialize  # Also if it is the second.
            elif kind == 'deal':
                if self.deal is None or order.deal.generation > self.deal.generation:
                    self.deal = order.deal
                    self.show(order.deal)
                self.on_evaluated(order.deal.evaluated_version, order.deal)
            elif kind == 'evaluated':
                self.on_evaluated(order.evaluated.version, order.evaluated)
            elif kind == 'claimed':
                self.lease, self.lease_requested = order.claimed.step, False
            elif kind == 'finished':
                self.finished = True
                self.last_version = order.finished.version
                if order.finished.stopped:
                    self.error = Ended(grpc.StatusCode.CANCELLED, 'the job was stopped')
            self.changed.notify_all()

    def show(self, deal):
        """Shows the servers which micro-batches are assigned to this worker."""
        if self.mode == 'asynchronous':
            return
        for exchange in self.exchanges:
            exchange.send(PS.WorkerMessage(assigned=PS.Assigned(
                generation=deal.generation, leaf_begin=deal.leaf_begin,
                leaf_end=deal.leaf_end, secret=deal.secret)))

    def on_server_message(self, server, message):
        with self.changed:
            kind = message.WhichOneof('message')
            if kind == 'weights':
                self.take_weights(message.weights)
            elif kind == 'rows':
                self.tables.on_rows(server, message.rows)
            elif kind == 'tables_complete':
                self.tables.on_complete(server, message.tables_complete)
            elif kind == 'outcome' and message.outcome.step == self.lease:
                self.outcomes += 1
                self.refused |= message.outcome.refused
                if self.outcomes == self.layout.chunks:
                    self.done.discard((self.lease, 'lease'))
                    if not self.refused:
                        self.lease = None
            self.changed.notify_all()

    def take_weights(self, weights):
        part = self.layout.chunk(weights.chunk)
        values = payloads.decode(PS.Encoding.Name(weights.encoding), weights.payload,
                                 part.stop - part.start)
        if weights.difference:
            before = self.weights[weights.chunk][weights.version - 1]
            values = payloads.flush(before + values)
        versions = self.weights.setdefault(weights.chunk, {})
        versions[weights.version] = values
        for old in sorted(versions)[:-2]:
            del versions[old]

    def wait(self, decide):
        """Waits until decide() returns something other than None."""
        with self.changed:
            while True:
                if self.error is not None:
                    raise self.error
                task = decide()
                if task is not None:
                    return task
                self.changed.wait()

    # ---- The states.

    def run(self):
        try:
            self.take_part()
        finally:
            self.leaving = True
            for exchange in self.exchanges:
                exchange.cancel()
            self.membership.cancel()
            for channel in self.channels:
                channel.close()

    def take_part(self):
        options = self.options
        stub = MODULES['rendezvous_pb2_grpc'].RendezvousStub(
            self.channel(options.coordinator))
        self.membership = Call(stub.Membership, self.metadata(), self.on_order,
                               self.on_end(f'coordinator {options.coordinator}'))
        self.report(join=RENDEZVOUS.Join(protocol_version=2, rank=options.rank,
                                         host=socket.gethostname(), pid=os.getpid()))
        threading.Thread(target=self.beat, daemon=True).start()
        admission = self.wait(lambda: self.admission)
        print(f'admitted as rank {admission.rank}, attempt {admission.attempt}',
              file=sys.stderr, flush=True)
        try:
            ready = self.prepare(admission.job)
        except (ValueError, OSError) as error:
            self.report(failure=RENDEZVOUS.Failure(message=str(error), exit_code=2))
            self.membership.half_close()
            self.membership.await_end()
            raise Ended(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        self.report(ready=ready)
        self.wait(lambda: self.open)
        self.connect()
        while True:
            kind, *arguments = self.wait(self.decide)
            if kind == 'finish':
                break
            getattr(self, kind)(*arguments)
        self.leaving = True
        for exchange in self.exchanges:
            exchange.half_close()
        self.report(farewell=RENDEZVOUS.Farewell(statistics=self.statistics()))
        self.membership.half_close()
        for call in (*self.exchanges, self.membership):
            call.await_end()

    def prepare(self, job):
        check_supported(job)
        self.job, self.data = job, data.load(job)
        self.facts = self.data.facts(job, RENDEZVOUS.DataFacts())
        keyed = job.HasField('sparse')
        parameters, self.fan_in = (factors.table(job), None) if keyed else \
            mlp.table(job, self.data)
        server = job.exchange.parameter_server
        self.layout = steps.Layout(parameters, server.chunk_bytes // 4)
        self.model = (factors.MatrixFactorization if keyed else mlp.Mlp)(job, self.layout)
        if keyed:
            self.tables = tables.Tables(PS, job, self.exchanges)
        self.mode = server.consistency.WhichOneof('mode')
        self.inner_steps = (server.consistency.local_steps.inner_steps
                            if self.mode == 'local_steps' else 1)
        self.rounds = -(-self.facts.steps // self.inner_steps)
        self.rounding = JOB.ExchangeSpec.WireDtype.Name(job.exchange.wire_dtype)
        self.encoders = []
        for chunk in range(self.layout.chunks):
            part = self.layout.chunk(chunk)
            self.encoders.append(payloads.GradientEncoder(job.exchange,
                                                          part.stop - part.start))
        ready = RENDEZVOUS.Ready(data=self.facts, device='numpy')
        ready.table.chunk_elements = self.layout.chunk_elements
        for name, shape, group in parameters:
            ready.table.parameter.add(name=name, shape=shape,
                                      group=PS.OptimizerGroup.Value(group))
        return ready

    def connect(self):
        admission = self.admission
        for server, address in enumerate(admission.server_address):
            stub = MODULES['parameter_server_pb2_grpc'].ParameterServerStub(
                self.channel(address or self.options.coordinator))
            exchange = Call(stub.Exchange, self.metadata(),
                            functools.partial(self.on_server_message, server),
                            self.on_end(f'server {address or "0"}'))
            self.exchanges.append(exchange)
            exchange.send(PS.WorkerMessage(hello=PS.Hello(
                incarnation=admission.incarnation, secret=admission.secret,
                signature=self.layout.signature,
                attempt=admission.attempt, job_id=admission.job_id)))

    def initialize(self):
        self.must_initialize = False
        arena = factors.initial_values(self.layout) if self.tables else \
            mlp.initial_values(self.job.seed, self.layout, self.fan_in)
        for chunk in range(self.layout.chunks):
            self.server_of(chunk).send(PS.WorkerMessage(initial=PS.Initial(
                chunk=chunk, payload=arena[self.layout.chunk(chunk)].tobytes())))

    def server_of(self, chunk):
        return self.exchanges[chunk % len(self.exchanges)]

    def version(self):
        """Returns the smallest of the newest versions of the chunks, or None."""
        if len(self.weights) < self.layout.chunks:
            return None
        version = min(max(versions) for versions in self.weights.values())
        if self.tables is None:
            return version
        # A version is complete when all servers have the rows of the step before.
        announced = self.tables.version()
        return None if announced is None else min(version, announced)

    def decide(self):
        """Returns what to do next and its arguments, or None to wait."""
        version = self.version()
        if self.finished:
            return ('finish',) if version == self.last_version else None
        if self.must_initialize:
            return ('initialize',)
        if version is None:
            return None
        asynchronous = self.mode == 'asynchronous'
        weights = self.weights_of(version)
        if weights is None and not asynchronous:
            return None  # Step `version` is complete: newer weights are on their way.
        if self.synced is None:
            return 'sync', version
        deal = self.deal
        if deal is None:
            return None
        if version < self.evaluated:
            return None  # The steps before are complete; their rates may be unknown.
        due = self.last_evaluation_due(version)
        if due == version and self.evaluated < version:
            pieces = [piece for piece in range(deal.piece_begin, deal.piece_end)
                      if (version, 'piece', piece) not in self.done]
            return ('evaluate', version, pieces, weights) if pieces and weights else None
        if self.synced <= due and self.evaluated < due:
            return None  # Weights have overtaken the notice, which may change the rate.
        if asynchronous:
            if self.lease is None:
                return None if self.lease_requested else ('request_lease',)
            if (self.lease, 'lease') in self.done:
                return None
            return ('train', self.lease, list(range(self.job.batch.micro_batches)),
                    self.newest_weights())
        leaves = [leaf for leaf in range(deal.leaf_begin, deal.leaf_end)
                  if (version, leaf) not in self.done]
        return ('train', version, leaves, weights) \
            if leaves and version < self.rounds else None

    def last_evaluation_due(self, version):
        """Returns the newest version up to `version` that is to be evaluated; -1: none."""
        every = -(-self.job.evaluation.every_steps // self.inner_steps)
        last = version // every * every if every > 0 else 0
        if version == self.rounds:
            last = version
        return last if self.facts.evaluation_pieces > 0 and last > 0 else -1

    def sync(self, version):
        self.synced = version
        self.report(synced=RENDEZVOUS.Synced(version=version))

    def request_lease(self):
        self.lease_requested = True
        self.report(claim=RENDEZVOUS.Claim())

    def weights_of(self, version):
        """Returns the versions and the values of the chunks at a version; None if a chunk
        has newer ones only. The values stay as they are when newer ones arrive."""
        if any(version not in versions for versions in self.weights.values()):
            return None
        return self.choose([version] * self.layout.chunks)

    def newest_weights(self):
        """Returns what weights_of does, with the newest version of each chunk."""
        return self.choose([max(self.weights[c]) for c in range(self.layout.chunks)])

    def choose(self, versions):
        return versions, [self.weights[c][version] for c, version in enumerate(versions)]

    def evaluate(self, version, pieces, weights):
        arena = np.concatenate(weights[1])
        size = self.job.evaluation.batch
        for piece in pieces:
            part = slice(piece * size, (piece + 1) * size)
            inputs, targets = (values[part] for values in self.data.test)
            if self.tables is None:
                loss, correct = self.model.evaluate(arena, inputs, targets)
            else:
                samples = self.by_feature(inputs)
                vectors = self.await_rows(
                    self.tables.read_version(version, samples), samples)
                if vectors is None:  # The evaluation is complete.
                    self.done.update((version, 'piece', piece) for piece in pieces)
                    return
                loss, correct = self.model.evaluate(arena, vectors, targets), 0
            self.report(evaluation=RENDEZVOUS.EvaluationReport(
                version=version, piece=piece, loss_sum=loss, correct=correct,
                weight=len(targets)))
            self.done.add((version, 'piece', piece))

    # ---- A step.

    def train(self, step, leaves, weights):
        asynchronous = self.mode == 'asynchronous'
        bases, arena = weights[0], np.concatenate(weights[1])
        all_leaves = self.job.batch.micro_batches
        sums, self.row_sums = {}, {}
        for leaf in leaves:
            begin = time.monotonic()
            total = self.leaf_sum(step, leaf, arena)
            if total is None:  # The step is complete, and its rows are gone.
                self.done.update((step, leaf) for leaf in leaves)
                return
            sums[all_leaves + leaf] = total
            self.leaf_seconds += time.monotonic() - begin
            self.leaves += 1
        norm = 0.0
        if asynchronous:
            with self.changed:
                self.outcomes, self.refused = 0, False
                self.done.add((step, 'lease'))
        self.done.update((step, leaf) for leaf in leaves)
        self.done = {entry for entry in self.done if entry[0] >= step - 2}
        rate = self.rate_of(step)
        for node in self.nodes_of(leaves):
            total = steps.node_sum(node, sums, self.rounding)
            if asynchronous and (self.job.clip_norm > 0
                                 or self.job.on_nonfinite == self.job.SKIP):
                norm = steps.gradient_norm(total.gradient, max(1, total.samples))
            for chunk in reversed(range(self.layout.chunks)):
                encoder = self.encoders[chunk]
                payload = encoder.encode(total.gradient[self.layout.chunk(chunk)])
                self.server_of(chunk).send(PS.WorkerMessage(contribution=PS.Contribution(
                    step=step, chunk=chunk, node=node, weight=total.samples,
                    loss_sum=total.loss if chunk == 0 else 0,
                    encoding=PS.Encoding.Value(encoder.encoding),
                    base_version=bases[chunk] if asynchronous else 0,
                    gradient_norm=norm, learning_rate=rate, payload=payload)))
            if self.tables is not None:
                self.tables.send(step, node, total.samples, self.row_sums, rate)
        # Mode asynchronous computes from the newest rows: it requests none ahead.
        if self.tables is not None and not asynchronous and step + 1 < self.rounds:
            # They are probably those of the next step.
            for leaf in leaves[:tables.MOST_AHEAD]:
                self.tables.expect(step + 1, leaf, self.keys_of(step + 1, leaf))

    def nodes_of(self, leaves):
        """Returns the largest subtrees that cover each run of consecutive leaves."""
        found, begin = [], 0
        for i in range(1, len(leaves) + 1):
            if i == len(leaves) or leaves[i] != leaves[i - 1] + 1:
                found += steps.nodes(leaves[begin], leaves[i - 1] + 1,
                                     self.job.batch.micro_batches)
                begin = i
        return found

    def leaf_sum(self, step, leaf, arena):
        if self.tables is not None:
            return self.leaf_sum_with_rows(step, leaf, arena)
        if self.mode != 'local_steps':
            gradient, samples, loss = self.micro_batch(step, leaf, arena)
        else:
            local_sgd = steps.LocalSgd(self.job, self.facts.steps, self.layout, arena)
            loss = 0.0
            first = step * self.inner_steps
            for inner in range(first, min(first + self.inner_steps, self.facts.steps)):
                inner_sum, samples, inner_loss = self.micro_batch(inner, leaf,
                                                                  local_sgd.weights)
                local_sgd.step(inner, inner_sum, samples)
                loss += inner_loss
            gradient, samples = local_sgd.outer_gradient(), local_sgd.samples
        return steps.Sum(payloads.round_to(self.rounding, payloads.flush(gradient)),
                         samples, loss)

    def indexes(self, step, leaf):
        batch = self.job.batch
        return sampling.micro_batch(
            self.job.seed, self.facts.train_samples, getattr(batch, 'global'),
            batch.micro_batches, step, leaf)[1]

    def micro_batch(self, step, leaf, arena):
        """Returns the gradient sum, the sample count and the loss sum."""
        indexes = self.indexes(step, leaf)
        features, targets = (part[indexes] for part in self.data.train)
        gradient, loss = self.model.gradient(arena, features, targets, step, leaf)
        return gradient, len(indexes), loss

    # ---- Rows of tables.

    def by_feature(self, samples):
        """Returns for each feature the keys of each sample."""
        return [[sample[f] for sample in samples]
                for f in range(len(self.job.sparse.feature))]

    def keys_of(self, step, leaf):
        return self.by_feature(self.data.train[0][self.indexes(step, leaf)])

    def await_rows(self, parts, samples):
        self.wait(lambda: True if all(part.complete for part in parts) else None)
        return self.tables.vectors(parts, samples)

    def leaf_sum_with_rows(self, step, leaf, arena):
        samples = self.keys_of(step, leaf)
        vectors = self.await_rows(self.tables.read(step, leaf, samples), samples)
        if vectors is None:
            return None
        targets = self.data.train[1][self.indexes(step, leaf)]
        gradient, of_vectors, loss = self.model.gradient(arena, vectors, targets)
        self.row_sums[self.job.batch.micro_batches + leaf] = self.tables.leaf_sum(
            samples, of_vectors)
        return steps.Sum(payloads.round_to(self.rounding, payloads.flush(gradient)),
                         len(targets), loss)

    # ---- Heartbeats.

    def statistics(self):
        return RENDEZVOUS.ProcessStatistics(leaves=self.leaves, threads=1,
                                            leaf_seconds=self.leaf_seconds)

    def beat(self):
        while not self.leaving and self.error is None:
            # The length of the lease is not known before the admission.
            lease = self.admission.lease_ms / 1e3 if self.admission else 2
            with self.changed:
                step = self.version() if hasattr(self, 'layout') else None
            self.report(heartbeat=RENDEZVOUS.Heartbeat(
                step=step or 0, phase='idle' if step is None else 'forward',
                statistics=self.statistics()))
            time.sleep(min(lease / 10, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    # `tributary train --worker-command` sets the variables.
    environment = os.environ.get
    parser.add_argument('--coordinator', help='host:port of server 0',
                        default=environment('TRIBUTARY_COORDINATOR', '127.0.0.1:29400'))
    parser.add_argument('--tls-dir', help='ca.pem, worker.pem and worker-key.pem',
                        default=environment('TRIBUTARY_TLS_DIR'))
    parser.add_argument('--token-file', default=environment('TRIBUTARY_TOKEN_FILE'))
    parser.add_argument('--rank', type=int, default=environment('TRIBUTARY_RANK', '-1'),
                        help='requested number of this worker; -1: any')
    options = parser.parse_args()
    deadline, wait = time.monotonic() + 600, 0.05
    while True:
        membership = Membership(options)
        try:
            membership.run()
            return 0
        except Ended as ended:
            if ended.code == grpc.StatusCode.OUT_OF_RANGE:
                return 0  # The other workers have finished the job.
            if membership.admission is not None:
                deadline, wait = time.monotonic() + 600, 0.05
            again = ended.code in REJOIN and time.monotonic() < deadline
            print(f'{ended}{"; joining again" if again else ""}', file=sys.stderr,
                  flush=True)
            if not again:
                return 2 if ended.code == grpc.StatusCode.INVALID_ARGUMENT else 1
        time.sleep(wait)
        wait = min(1, 2 * wait)


if __name__ == '__main__':
    sys.exit(main())
