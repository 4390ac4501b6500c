"""Checks this worker's functions against the vectors in proto/testdata."""

import hashlib
import json
import os
import unittest

import numpy as np
from google.protobuf import text_format

import data
import mlp
import payloads
import rows
import sampling
import steps
import stubs

TESTDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        '../../proto/testdata')
JOB = stubs.load()['job_pb2']
PS = stubs.load()['parameter_server_pb2']


def vectors(name, member):
    with open(f'{TESTDATA}/{name}.json') as file:
        return json.load(file)[member]


def job_of(text):
    return text_format.Parse(text, JOB.JobSpec())


def floats(digits):
    return np.frombuffer(bytes.fromhex(digits), '<f4')


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def mask(v):
    """Returns the masked tokens and the labels; see proto/SAMPLING.md, Masking."""
    epoch = 2**64 - 1 if v['held_out'] else int(v['epoch'])
    tokens, probability = v['tokens'], np.float32(v['probability'])
    first = 65536 * int(v['index'])
    words = sampling.blocks(int(v['seed']), 7, epoch & 0xFFFFFFFF, epoch >> 32,
                            [first + p for p in range(len(tokens))])
    uniform = sampling.uniform(words)
    places = [p for p, token in enumerate(tokens) if token not in v['special']]
    places = places or list(range(len(tokens)))
    predicted = ([p for p in places if uniform[p, 0] < probability] or
                 [min(places, key=lambda p: (words[p, 0], p))])
    masked, labels = list(tokens), [-1] * len(tokens)
    for p in predicted:
        labels[p] = tokens[p]
        if uniform[p, 1] < np.float32(0.8):
            masked[p] = v['special'][2]
        elif uniform[p, 1] < np.float32(0.9):
            masked[p] = int(words[p, 2]) * v['vocabulary'] >> 32
    return masked, labels


class VectorsTest(unittest.TestCase):

    def same_floats(self, actual, expected):
        """Checks that the bits are equal, except that all NaNs count as equal."""
        np.testing.assert_array_equal(
            np.where(np.isnan(actual), 0x7FC00000, actual.view(np.uint32)),
            np.where(np.isnan(expected), 0x7FC00000, expected.view(np.uint32)))

    def test_messages(self):
        messages = stubs.load()['parameter_server_pb2']
        for v in vectors('messages', 'fetches'):
            message = getattr(messages, v['message'])()
            text_format.Parse(v['text'], message)
            self.assertEqual(message.SerializeToString(), bytes.fromhex(v['bytes']))

    def test_philox(self):
        for v in vectors('sampling', 'philox'):
            counter = [np.array([c], np.uint64) for c in v['counter']]
            self.assertEqual(sampling.philox(counter, v['key'])[0].tolist(), v['words'])

    def test_streams(self):
        for v in vectors('sampling', 'streams'):
            block = sampling.blocks(int(v['seed']), v['purpose'], v['a'], v['b'],
                                    int(v['block']))
            self.assertEqual(block.tolist(), v['words'])
            self.assertEqual(sampling.uniform(block).tolist(), v['uniform'])

    def test_order_of_samples(self):
        for v in vectors('sampling', 'order'):
            epoch, indexes = sampling.micro_batch(
                int(v['seed']), v['samples'], v['global'], v['micro_batches'],
                v['step'], v['micro_batch'])
            self.assertEqual(epoch, v['epoch'])
            self.assertEqual(indexes.tolist(), v['indexes'])

    def test_masking(self):
        for v in vectors('sampling', 'masking'):
            masked, labels = mask(v)
            self.assertEqual(masked, v['masked'])
            self.assertEqual(labels, v['labels'])

    def test_fingerprints(self):
        tested = 0
        for v in vectors('data', 'fingerprints'):
            files = [bytes(i * 7 % 251 for i in range(size)) for size in v['sizes']]
            if sum(v['sizes']) + 8 * len(files) > 240:
                self.assertEqual(data.fingerprint(files), int(v['fingerprint']))
                tested += 1
        self.assertGreater(tested, 5)

    def test_random_data(self):
        for v in vectors('data', 'random'):
            job = job_of(v['job'])
            if not job.model.HasField('gpt'):
                features, labels = data.load(job).train
                self.assertEqual(digest(features), v['features_sha256'])
                self.assertEqual(digest(labels.astype('<i4')), v['labels_sha256'])

    def test_facts(self):
        message = stubs.load()['rendezvous_pb2'].DataFacts
        os.chdir(TESTDATA)
        for v in vectors('data', 'facts'):
            job = job_of(v['job'])
            job.batch.micro_batches = v['micro_batches']
            job.evaluation.batch = v['evaluation_batch']
            facts = data.load(job).facts(job, message())
            for name in ('train_samples', 'steps_per_epoch', 'steps',
                         'evaluation_pieces', 'unit', 'sampler'):
                self.assertEqual(getattr(facts, name), v[name])
            self.assertEqual(facts.fingerprint, int(v['fingerprint']))

    def test_tables_and_initial_values(self):
        tested = 0
        for v in vectors('models', 'models'):
            job = job_of(v['job'])
            parameters = [(p['name'], p['shape'], p['group']) for p in v['parameters']]
            layout = steps.Layout(parameters, v['chunk_elements'])
            self.assertEqual(layout.offsets, [p['offset'] for p in v['parameters']])
            self.assertEqual(layout.elements, v['arena_elements'])
            self.assertEqual([layout.chunk(c).stop - layout.chunk(c).start
                              for c in range(layout.chunks)], v['chunk_sizes'])
            self.assertEqual(layout.signature, v['signature'])
            if job.model.HasField('mlp'):
                table, fan_in = mlp.table(job, data.load(job))
                self.assertEqual([(n, list(s), g) for n, s, g in table], parameters)
                values = mlp.initial_values(job.seed, layout, fan_in)
                self.assertEqual(digest(values), v['sha256'])
                tested += 1
        self.assertEqual(tested, 3)

    def test_nodes(self):
        for v in vectors('tree', 'nodes'):
            self.assertEqual(steps.nodes(v['begin'], v['end'], v['leaves']), v['nodes'])

    def test_sixteen_bit_payloads(self):
        for v in vectors('encodings', 'sixteen_bits'):
            exchange = JOB.ExchangeSpec(
                wire_dtype=JOB.ExchangeSpec.WireDtype.Value(v['encoding']))
            values, decoded = floats(v['values']), floats(v['decoded'])
            payload = payloads.GradientEncoder(exchange, len(values)).encode(values)
            self.assertEqual(payload.hex(), v['payload'])
            self.same_floats(payloads.decode(v['encoding'], payload, len(values)), decoded)
            self.same_floats(payloads.round_to(v['encoding'], values), decoded)

    def test_compressed_payloads(self):
        for v in vectors('encodings', 'compressed'):
            exchange = JOB.ExchangeSpec()
            if v['encoding'] == 'TOP_K':
                exchange.compression.top_k.fraction = v['fraction']
            else:
                exchange.compression.eight_bit.SetInParent()
            gradient, residual = floats(v['gradient']), floats(v['residual'])
            encoder = payloads.GradientEncoder(exchange, len(gradient))
            encoder.residual = residual.copy()
            payload = encoder.encode(gradient)
            self.assertEqual(payload.hex(), v['payload'])
            self.same_floats(encoder.residual, floats(v['residual_after']))
            decoded = payloads.decode(v['encoding'], payload, len(gradient))
            np.testing.assert_allclose(decoded + encoder.residual, residual + gradient,
                                       rtol=1e-6, atol=1e-7)

    def rows_of(self, v):
        keys = [int(key) for key in v['keys']]
        return rows.Rows(keys, floats(v['values']).reshape(-1, v['dim']))

    def same_rows(self, actual, v):
        expected = self.rows_of(v)
        self.assertEqual(actual.keys.tolist(), expected.keys.tolist())
        self.same_floats(actual.values, expected.values)

    def test_places_of_keys(self):
        for v in vectors('rows', 'placements'):
            hashed = rows.key_hash([int(v['key'])])
            self.assertEqual(hashed.tolist(), [int(v['hash'])])
            self.assertEqual(int(hashed[0]) % v['buckets'], v['bucket'])
            self.assertEqual(rows.servers_of([int(v['key'])], v['buckets'], v['servers']),
                             [v['server']])

    def test_requests_of_rows(self):
        for v in vectors('rows', 'requests'):
            keys = [[int(key) for key in of_table] for of_table in v['keys']]
            message = rows.request(PS, v['request'], v['version'], keys)
            self.assertEqual(message.SerializeToString().hex(), v['message'])

    def test_answers_with_rows(self):
        for v in vectors('rows', 'answers'):
            requested = rows.Requested([list(range(n)) for n in v['keys']], v['dims'])
            for message in v['messages']:
                self.assertFalse(requested.complete)
                requested.take(PS, PS.ServerMessage.FromString(bytes.fromhex(message)).rows)
            self.assertTrue(requested.complete)
            values, begin = floats(v['values']), 0
            for table, count, dim in zip(requested.tables(), v['keys'], v['dims']):
                end = begin + count * dim
                self.same_floats(table.values, payloads.round_rows(
                    v['encoding'], values[begin:end].reshape(count, dim)))
                begin = end

    def test_eight_bit_rows(self):
        for v in vectors('rows', 'eight_bits'):
            row, decoded = floats(v['values'])[np.newaxis], floats(v['decoded'])[np.newaxis]
            payload = payloads.encode_rows('EIGHT_BIT_ROWS', row)
            self.assertEqual(payload.hex(), v['payload'])
            self.same_floats(payloads.decode_rows('EIGHT_BIT_ROWS', payload, *row.shape),
                             decoded)
            self.same_floats(payloads.round_rows('EIGHT_BIT_ROWS', row), decoded)

    def test_contributions_of_rows(self):
        for v in vectors('rows', 'contributions'):
            messages = rows.contribution(PS, v['step'], v['node'], v['weight'],
                                         [self.rows_of(table) for table in v['tables']],
                                         v['encoding'])
            self.assertEqual([m.SerializeToString().hex() for m in messages],
                             v['messages'])
        for v in vectors('rows', 'long_contributions'):
            keys = np.arange(v['rows'])[:, np.newaxis]
            values = (keys + 3 * np.arange(v['dim'])) % 251 / 8 - 10
            tables = [rows.Rows(np.arange(v['rows']), values),
                      rows.Rows([1], [[2 / 8 - 10, 5 / 8 - 10]])]
            messages = rows.contribution(PS, 7, 3, 16, tables, 'FLOAT32')
            self.assertEqual([hashlib.sha256(m.SerializeToString()).hexdigest()
                              for m in messages], v['sha256'])

    def test_gradients_of_rows(self):
        for v in vectors('rows', 'leaf_gradients'):
            features = []
            for feature in v['features']:
                keys = [int(key) for key in feature['keys']]
                begins = [0] + feature['ends'][:-1]
                features.append((feature['pooling'],
                                 [keys[b:e] for b, e in zip(begins, feature['ends'])]))
            gradients = floats(v['vector_gradients']).reshape(
                -1, len(features), v['dim'])
            self.same_rows(rows.leaf_gradients(
                v['dim'], features, [gradients[:, f] for f in range(len(features))]),
                v['rows'])

    def test_sums_of_rows(self):
        for v in vectors('rows', 'node_sums'):
            left, right = self.rows_of(v['left']), self.rows_of(v['right'])
            self.same_rows(left.plus(right, v['encoding']), v['sum'])
            self.same_rows(right.plus(left, v['encoding']), v['sum'])

    def test_learning_rates(self):
        for v in vectors('steps', 'rates'):
            rates = [steps.learning_rate(job_of(v['job']), v['steps'], step)
                     for step in range(v['steps'])]
            np.testing.assert_allclose(rates, v['rates'], rtol=1e-14)

    def test_local_sgd(self):
        for v in vectors('steps', 'trajectories'):
            parameters = [(p['name'], p['shape'], p['group']) for p in v['parameters']]
            local_sgd = steps.LocalSgd(job_of(v['job']), v['total_steps'],
                                       steps.Layout(parameters, 16),
                                       floats(v['start']))
            for i, step in enumerate(v['steps']):
                local_sgd.step(v['first_step'] + i, floats(step['gradient_sum']),
                               step['samples'])
                np.testing.assert_allclose(local_sgd.weights, floats(step['weights']),
                                           rtol=1e-6, atol=1e-7)
            self.assertEqual(local_sgd.samples, v['total_samples'])
            np.testing.assert_allclose(local_sgd.outer_gradient(),
                                       floats(v['outer_gradient']), rtol=1e-4, atol=1e-5)


if __name__ == '__main__':
    unittest.main()
