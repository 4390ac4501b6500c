"""Rows of tables: where they belong, their messages and their gradients; see "Tables" in
proto/PROTOCOL.md."""

import itertools

import numpy as np

import payloads

# Bytes of keys and values in one message, unless a single row has more.
_PART_BYTES = 1 << 20


def key_hash(keys):
    """Returns the hashes of keys, uint64."""
    h = np.asarray(keys, np.uint64)
    for factor in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
        h = (h ^ h >> np.uint64(33)) * np.uint64(factor)
    return h ^ h >> np.uint64(33)


def servers_of(keys, buckets, servers):
    """Returns the server that holds each key of a table with `buckets` buckets."""
    return (key_hash(keys) % np.uint64(buckets)).astype(np.int64) % servers


class Rows:
    """Rows of one table, or their gradients.

    Attributes:
        keys: uint64, ascending, without duplicates.
        values: float32, [keys, dim].
    """

    def __init__(self, keys, values):
        self.keys = np.asarray(keys, np.uint64)
        self.values = np.asarray(values, np.float32).reshape(len(self.keys), -1) \
            if len(self.keys) else np.zeros((0, np.shape(values)[-1]), np.float32)

    def plus(self, right, encoding):
        """Returns the sum of two nodes of the tree; an absent row adds nothing."""
        keys = np.union1d(self.keys, right.keys)
        values = np.zeros((len(keys), self.values.shape[1]), np.float32)
        for part, other in ((self, right), (right, self)):
            alone = ~np.isin(part.keys, other.keys)
            values[np.searchsorted(keys, part.keys[alone])] = part.values[alone]
        both = np.intersect1d(self.keys, right.keys)
        total = payloads.flush(self.values[np.searchsorted(self.keys, both)] +
                               right.values[np.searchsorted(right.keys, both)])
        values[np.searchsorted(keys, both)] = payloads.round_rows(encoding, total)
        return Rows(keys, values)

    def rounded(self, encoding):
        """Returns the value of a leaf of the tree."""
        return Rows(self.keys, payloads.round_rows(encoding, payloads.flush(self.values)))

    def of_server(self, server, buckets, servers):
        """Returns the rows that belong to a server."""
        own = servers_of(self.keys, buckets, servers) == server
        return Rows(self.keys[own], self.values[own])


def leaf_gradients(dim, features, vector_gradients):
    """Returns the gradients of the rows of one table that a micro-batch reads.

    Args:
        dim: of the table.
        features: for each feature, its pooling, and the list of the keys of each sample.
        vector_gradients: for each feature, float32 [samples, dim].
    """
    sums = {}
    for sample in range(len(vector_gradients[0])):
        for (pooling, keys), gradients in zip(features, vector_gradients):
            gradient = gradients[sample]
            if pooling == 'MEAN' and keys[sample]:
                gradient = np.float32(1) / np.float32(len(keys[sample])) * gradient
            for key in keys[sample]:
                sums[key] = sums.get(key, np.zeros(dim, np.float32)) + gradient
    keys = sorted(sums)
    return Rows(keys, np.array([sums[key] for key in keys]).reshape(-1, dim))


def request(module, number, version, keys):
    """Returns the message that requests rows; `keys` has those of each table."""
    return module.WorkerMessage(rows_request=module.RowsRequest(
        request=number, version=version, keys=[len(of_table) for of_table in keys],
        payload=b''.join(np.asarray(k, '<u8').tobytes() for k in keys)))


def contribution(module, step, node, weight, tables, encoding, rate=None):
    """Returns the messages that carry the gradients of `tables`. `encoding` is
    payloads.row_encoding of the job; `rate` the learning rate to state, or None."""
    messages, sent, first = [], [0] * len(tables), 0
    while True:
        counts, keys, values = [], b'', b''
        for number, rows in enumerate(tables):
            count = 0
            if number >= first:
                row_bytes = 8 + payloads.row_bytes(encoding, rows.values.shape[1])
                used = len(keys) + len(values)
                most = max((_PART_BYTES - used) // row_bytes, 1 if used == 0 else 0)
                count = min(most, len(rows.keys) - sent[number])
                part = slice(sent[number], sent[number] + count)
                keys += rows.keys[part].astype('<u8').tobytes()
                values += payloads.encode_rows(encoding, rows.values[part])
                sent[number] += count
            counts.append(count)
        while first < len(tables) and sent[first] == len(tables[first].keys):
            first += 1
        messages.append(module.WorkerMessage(row_contribution=module.RowContribution(
            step=step, node=node, weight=weight, part=len(messages),
            last=first == len(tables), keys=counts,
            encoding=module.Encoding.Value(encoding), learning_rate=rate,
            payload=keys + values)))
        if first == len(tables):
            return messages


class Requested:
    """The rows of one request to one server, whose parts arrive one after another."""

    def __init__(self, keys, dims):
        self.keys, self.dims = keys, dims
        # The dim of each row, in the order of the request.
        self._row_dims = [dim for of_table, dim in zip(keys, dims) for _ in of_table]
        self._values = []
        self.arrived, self.answered, self.gone = 0, False, False

    @property
    def complete(self):
        # A server answers a request without keys, too, when it has the version.
        return self.gone or self.answered and self.arrived == len(self._row_dims)

    def take(self, module, rows):
        """Takes a part of the answer, a message Rows."""
        self.answered, self.gone = True, rows.gone
        if rows.gone:
            return
        encoding, begin = module.Encoding.Name(rows.encoding), 0
        dims = self._row_dims[rows.first:rows.first + rows.rows]
        for dim, of_dim in itertools.groupby(dims):
            count = len(list(of_dim))
            end = begin + count * payloads.row_bytes(encoding, dim)
            self._values.append(payloads.decode_rows(
                encoding, rows.payload[begin:end], count, dim).reshape(-1))
            begin = end
        self.arrived += rows.rows

    def tables(self):
        """Returns the rows of each table."""
        values = np.concatenate(self._values) if self._values else np.zeros(0, np.float32)
        tables, begin = [], 0
        for keys, dim in zip(self.keys, self.dims):
            end = begin + len(keys) * dim
            tables.append(Rows(keys, values[begin:end].reshape(-1, dim)))
            begin = end
        return tables
