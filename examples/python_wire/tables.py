"""A worker's part in the tables of a job; see "Tables" in proto/PROTOCOL.md."""

import itertools

import numpy as np

import data
import payloads
import rows
import steps


# Micro-batches whose rows are requested ahead. A server refuses more than 4096
# requests that it has not answered.
MOST_AHEAD = 1024


class RowSum:
    """The gradient sums of rows of a node, for each table."""

    def __init__(self, tables):
        self.tables = tables

    def plus(self, right, encoding):
        return RowSum([a.plus(b, encoding) for a, b in zip(self.tables, right.tables)])


class Tables:
    """Requests rows, and sends their gradients.

    Args:
        module: the stubs of parameter_server.proto.
        job: the resolved job.
        exchanges: the calls to the servers; a list that `connect` fills later.
    """

    def __init__(self, module, job, exchanges):
        self._module, self._exchanges = module, exchanges
        self._encoding = payloads.row_encoding(job)
        self._tables = list(job.sparse.table)
        self._lag = job.sparse.fixed_lag
        consistency = job.exchange.parameter_server.consistency
        self._newest = consistency.WhichOneof('mode') == 'asynchronous'
        self._features = data.features(job)
        self._numbers = itertools.count()
        self._waiting = {}   # By the number of the request and the server.
        self._ahead = {}     # What was requested for (step, leaf).
        self._complete = {}  # By server: the version that it has announced.

    # ---- Received messages.

    def on_complete(self, server, message):
        self._complete[server] = message.version

    def on_rows(self, server, message):
        requested = self._waiting[message.request, server]
        requested.take(self._module, message)
        if requested.complete:
            del self._waiting[message.request, server]

    def version(self):
        """The version that all servers have announced, or None."""
        if len(self._complete) < len(self._exchanges):
            return None
        return min(self._complete.values())

    # ---- Rows.

    def _request(self, version, samples):
        """Requests the rows of samples: for each feature, the keys of each sample."""
        keys = [set() for _ in self._tables]
        for feature, of_samples in zip(self._features, samples):
            for of_sample in of_samples:
                keys[feature.table].update(of_sample)
        keys = [np.array(sorted(of_table), np.uint64) for of_table in keys]
        number, parts = next(self._numbers), []
        for server, exchange in enumerate(self._exchanges):
            own = [k[rows.servers_of(k, t.buckets, len(self._exchanges)) == server]
                   for k, t in zip(keys, self._tables)]
            parts.append(rows.Requested(own, [t.dim for t in self._tables]))
            self._waiting[number, server] = parts[-1]
            exchange.send(rows.request(self._module, number, version, own))
        return parts

    def expect(self, step, leaf, samples):
        """Requests the rows of a micro-batch of a step ahead."""
        if (step, leaf) not in self._ahead:
            version = -1 if self._newest else max(step - self._lag, 0)
            self._ahead[step, leaf] = self._request(version, samples)

    def read(self, step, leaf, samples):
        """Requests the rows of a micro-batch, unless `expect` has. Returns their parts."""
        self.expect(step, leaf, samples)
        parts = self._ahead.pop((step, leaf))
        self._ahead = {key: kept for key, kept in self._ahead.items() if key[0] >= step}
        return parts

    def read_version(self, version, samples):
        return self._request(version, samples)

    def vectors(self, parts, samples):
        """Returns the vectors of each feature, [samples, dim], when all parts are
        complete, or None if rows are gone."""
        if any(part.gone for part in parts):
            return None
        found = [{} for _ in self._tables]
        for part in parts:
            for of_table, table in zip(found, part.tables()):
                of_table.update(zip(table.keys.tolist(), table.values))
        pooled = []
        for feature, of_samples in zip(self._features, samples):
            vectors = np.zeros((len(of_samples), self._tables[feature.table].dim),
                               np.float32)
            for vector, keys in zip(vectors, of_samples):
                scale = np.float32(1) / np.float32(len(keys)) \
                    if feature.pooling == 'MEAN' and keys else np.float32(1)
                for key in keys:
                    vector += scale * found[feature.table][key]
            pooled.append(vectors)
        return pooled

    # ---- Gradients.

    def leaf_sum(self, samples, vector_gradients):
        """Returns the gradients of the rows of a micro-batch."""
        sums = []
        for number, table in enumerate(self._tables):
            own = [i for i, f in enumerate(self._features) if f.table == number]
            total = rows.leaf_gradients(
                table.dim, [(self._features[i].pooling, samples[i]) for i in own],
                [vector_gradients[i] for i in own])
            sums.append(total.rounded(self._encoding))
        return RowSum(sums)

    def send(self, step, node, samples, sums, rate):
        """Sends the sum of a node to all servers. sums: {leaf node: RowSum}. rate: the
        learning rate to state, or None."""
        total = steps.node_sum(node, sums, self._encoding)
        for server, exchange in enumerate(self._exchanges):
            own = [part.of_server(server, table.buckets, len(self._exchanges))
                   for part, table in zip(total.tables, self._tables)]
            for message in rows.contribution(self._module, step, node, samples, own,
                                             self._encoding, rate):
                exchange.send(message)
