"""Reads data sets and computes their fingerprint and DataFacts; see proto/DATA.md."""

import csv
import gzip
import json
import math
import os
import struct

import numpy as np

import sampling
import xxh3


class Data:
    """Samples [n, values] in float32 and their targets, for training and held out."""

    def __init__(self, train, test, classes, unit, fingerprint, encoding=''):
        self.train, self.test, self.encoding = train, test, encoding.encode()
        self.classes, self.unit, self.fingerprint = classes, unit, fingerprint
        self.sample_values = 0 if train[0].ndim == 1 else train[0].shape[1]

    def facts(self, job, message):
        """Fills a DataFacts. `job` is resolved."""
        samples = len(self.train[1])
        message.train_samples = samples
        message.steps_per_epoch = sampling.steps_per_epoch(
            samples, getattr(job.batch, 'global'))
        message.steps = job.steps if job.HasField('steps') else max(
            1, math.ceil(job.epochs * message.steps_per_epoch))
        held_out = 0 if job.evaluation.disabled else len(self.test[1])
        message.evaluation_pieces = -(-held_out // job.evaluation.batch)
        message.fingerprint = self.fingerprint
        message.unit = self.unit
        message.sampler = sampling.NAME
        message.encoding.extend(self.encoding[begin:begin + 4096]
                                for begin in range(0, len(self.encoding), 4096))
        return message


class Feature:
    """A feature of `sparse`; see proto/DATA.md, Keys."""

    def __init__(self, spec, tables):
        if spec.cross:
            raise ValueError('sparse.feature.cross: this worker reads single columns')
        self.column, self.separator = spec.column, spec.separator
        self.table = [table.name for table in tables].index(spec.table)
        self.pooling = type(spec).Pooling.Name(spec.pooling)
        self._integers = spec.integer_keys
        name = '' if spec.shared_keys else spec.name or spec.column
        self._prefix = _fnv(name.encode() + b'\0')

    def keys(self, text):
        """Returns the keys of the text of a column."""
        texts = [text] if not self.separator else \
            [part.strip() for part in text.split(self.separator) if part.strip()]
        return [int(part) if self._integers else self._key(part) for part in texts]

    def _key(self, text):
        h = _fnv(text.encode(), self._prefix)
        for factor in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
            h = (h ^ h >> 33) * factor & 0xFFFFFFFFFFFFFFFF
        return h ^ h >> 33


def _fnv(data, h=0xcbf29ce484222325):
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & 0xFFFFFFFFFFFFFFFF
    return h


def features(job):
    return [Feature(spec, job.sparse.table) for spec in job.sparse.feature]


def load(job):
    if job.HasField('sparse'):
        return _keyed_csv(job)
    source = job.data.WhichOneof('source')
    if source == 'csv':
        return _csv(job)
    if source == 'idx':
        return _idx(job.data.idx)
    if source == 'random':
        return _random(job.data.random)
    raise ValueError(f'data.{source}: this worker reads csv, idx and random')


def _read(path):
    with (gzip.open if path.endswith('.gz') else open)(path, 'rb') as file:
        return file.read()


def fingerprint(files):
    return xxh3.hash64(b''.join(struct.pack('<Q', len(f)) + f for f in files))


def _rows(text):
    lines = [line for line in text.decode('utf-8-sig').splitlines()
             if line.strip() and not line.lstrip().startswith('#')]
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines)]
    try:
        for cell in rows[0]:
            float(cell)
    except ValueError:
        rows = rows[1:]  # A header.
    return np.array(rows, np.float64)


def _csv(job):
    spec = job.data.csv
    files = [_read(spec.train), _read(spec.test) if spec.HasField('test') else b'']
    regression = job.model.loss == job.model.MEAN_SQUARED_ERROR

    def part(text):
        rows = _rows(text)
        label = rows[:, spec.label_column]
        features = np.delete(rows, spec.label_column, axis=1).astype(np.float32)
        return features, label.astype(np.float32 if regression else np.int64)

    train = part(files[0])
    test = part(files[1]) if files[1] else (train[0][:0], train[1][:0])
    classes = 0 if regression else spec.classes or int(train[1].max()) + 1
    return Data(train, test, classes, 'rows', fingerprint(files))


def _keyed_csv(job):
    """Samples are lists: for each feature, the keys of a row."""
    spec = job.data.csv
    if job.data.WhichOneof('source') != 'csv':
        raise ValueError('sparse: this worker reads keys from csv')
    files = [_read(spec.train), _read(spec.test) if spec.HasField('test') else b'']
    of_job = features(job)

    def part(text, header):
        lines = [line for line in text.decode('utf-8-sig').splitlines()
                 if line.strip() and not line.lstrip().startswith('#')]
        rows = [[cell.strip() for cell in row]
                for row in csv.reader(lines, delimiter=spec.delimiter)]
        names = rows[0] if header is None else header
        samples = [[f.keys(row[names.index(f.column)]) for f in of_job]
                   for row in rows[1:]]
        keyed = np.empty(len(samples), object)
        for row, sample in enumerate(samples):
            keyed[row] = sample
        return keyed, np.array([row[spec.label_column] for row in rows[1:]], np.float32), \
            names

    train = part(files[0], None)
    test = part(files[1], train[2]) if files[1] else (train[0][:0], train[1][:0])
    used = {train[2].index(feature.column) for feature in of_job}
    encoding = {'columns': [{'left_out': True} if i in used else {}
                            for i in range(len(train[2]))],
                'format': 'tributary-csv-1',
                'label': spec.label_column % len(train[2])}
    return Data(train[:2], test[:2], 0, 'rows', fingerprint(files),
                json.dumps(encoding, separators=(',', ':')))


def _idx(spec):
    files = []
    for prefix in ('train', 't10k'):
        for name in ('images-idx3-ubyte', 'labels-idx1-ubyte'):
            path = f'{spec.directory}/{prefix}-{name}'
            files.append(_read(path if os.path.exists(path) else path + '.gz'))
    scaled = ((np.arange(256) / 255 - spec.mean) / spec.deviation).astype(np.float32)

    def part(images, labels):
        magic, count, height, width = struct.unpack('>4I', images[:16])
        if magic != 0x803 or labels[:4] != b'\0\0\x08\x01':
            raise ValueError(f'{spec.directory}: not IDX files of images and labels')
        pixels = np.frombuffer(images, np.uint8, offset=16)
        return (scaled[pixels].reshape(count, height * width),
                np.frombuffer(labels, np.uint8, offset=8).astype(np.int64))

    return Data(part(*files[:2]), part(*files[2:]), spec.classes, 'images',
                fingerprint(files))


def _random(spec):
    values = math.prod(spec.shape)

    def numbers(kind, count):
        return sampling.words(0, sampling.MADE_UP_DATA, kind, 0, count)

    features = 2 * sampling.uniform(numbers(0, spec.samples * values)) - 1
    labels = (numbers(1, spec.samples) % np.uint64(spec.classes)).astype(np.int64)
    features = features.astype(np.float32).reshape(spec.samples, values)
    return Data((features, labels), (features[:0], labels[:0]), spec.classes,
                'images' if len(spec.shape) == 3 else 'rows', spec.samples)
