"""Compares GPT-2 with transformers: logits, training steps and the export.

  python3 compare_gpt2.py TRIBUTARY GPT2_LOGITS FOLDER [--size small|tiny]

TRIBUTARY is the program, GPT2_LOGITS is //tests/worker/models:gpt2_logits, and
FOLDER an empty folder for about 5 GB of files (`tiny`: less than 1 MB). Needs
torch, transformers and safetensors from PyPI, and about 5 GB of memory.
Downloads nothing: the weights are random, from a seed. `small` has the sizes of
GPT-2 small, with 124 million parameters.

Fails unless all of these hold, in float32:
- the largest difference of a logit is at most 1e-4, for the forward pass and
  for the decoder with its cache;
- the losses of ten steps with SGD, and of ten steps with AdamW, agree within
  1e-4 of their value;
- weights that were imported and exported again have the same bytes, and
  transformers loads the export, with the same logits as before;
- the logits of the trained model, exported, agree within 1e-3.
"""
import argparse
import json
import os
import subprocess
import sys

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', '..', 'examples', 'python_wire'))
import sampling  # noqa: E402

SIZES = {
    'small': GPT2Config(),
    'tiny': GPT2Config(n_layer=3, n_head=4, n_embd=64, n_positions=48,
                       vocab_size=301, bos_token_id=None, eos_token_id=None),
}
BATCH, SAMPLES, STEPS = 2, 8, 10
TRAINING_CONTEXT = 40  # With the whole context, steps would take minutes.


def decayed(model):
    """Returns groups of parameters: weight decay applies to matrices only."""
    parameters = list(model.parameters())
    return [{'params': [p for p in parameters if p.dim() > 1]},
            {'params': [p for p in parameters if p.dim() == 1], 'weight_decay': 0}]


OPTIMIZERS = {
    'sgd': ('sgd { learning_rate: 0.01 momentum: 0.9 }',
            lambda model: torch.optim.SGD(decayed(model), lr=0.01, momentum=0.9)),
    'adamw': ('adamw { learning_rate: 1e-4 weight_decay: 0.01 }',
              lambda model: torch.optim.AdamW(decayed(model), lr=1e-4, weight_decay=0.01)),
}
JOB = """
model {
  gpt { layers: %d heads: %d width: %d context: %d vocabulary: %d }
  initial_weights { path: "%s" %s }
}
data { random { samples: %d } }
batch { global: %d micro_batches: %d }
optimizer { %s }
steps: %d
evaluation { disabled: true }
checkpoint { every_steps: 0 }
output { log_every_steps: 1 sample_bytes: 0 tensorboard: false }
"""


def make_model(size):
    """Returns a model with random weights that differ from initial weights."""
    torch.manual_seed(5)
    config = SIZES[size]
    for rate in ('attn_pdrop', 'embd_pdrop', 'resid_pdrop'):
        setattr(config, rate, 0.0)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def batch(model, step):
    """Returns tokens and labels of a step of a job with data.random."""
    config = model.config
    context, vocabulary = config.n_positions, config.vocab_size
    parts = [sampling.words(0, sampling.MADE_UP_DATA, a, 0, SAMPLES * context)
             for a in (0, 1)]
    _, samples = sampling.micro_batch(1, SAMPLES, BATCH, 1, step, 0)
    return tuple(torch.tensor((part % np.uint64(vocabulary)).astype(np.int64)
                              .reshape(SAMPLES, context)[samples])
                 for part in parts)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command[:4])}: {done.stderr}{done.stdout}')


def train(program, folder, name, model, source, steps, optimizer, freeze=''):
    config = model.config
    job, output = (os.path.join(folder, f'{name}{end}') for end in ('.textproto', ''))
    with open(job, 'w', encoding='utf-8') as file:
        file.write(JOB % (config.n_layer, config.n_head, config.n_embd,
                          config.n_positions, config.vocab_size, source, freeze, SAMPLES,
                          BATCH, 1, optimizer, steps))
    run(program, 'train', job, '--output', output, '--workers', '1',
        '--servers', '1', '--threads', '1')
    exported = os.path.join(folder, name + '-exported')
    run(program, 'export', output, '--format', 'huggingface', '--output', exported)
    with open(os.path.join(output, 'metrics.jsonl'), encoding='utf-8') as file:
        lines = [json.loads(line) for line in file]
    return [line['loss'] for line in lines if 'loss' in line], exported


def largest(a, b):
    return (a - b).abs().max().item()


def check(what, value, limit):
    print(f'{what}: {value:.2e} (at most {limit:.0e})', flush=True)
    if not value <= limit:
        sys.exit(f'{what} is {value}, above {limit}')


def compare_logits(tool, folder, model, source):
    tokens = torch.randint(model.config.vocab_size,
                           (1, min(24, model.config.n_positions)))
    path = os.path.join(folder, 'logits.safetensors')
    run(tool, source, *map(str, tokens[0].tolist()), path)
    with torch.no_grad():
        expected = model(tokens).logits[0]
    ours = load_file(path)
    print(f'logits are up to {expected.abs().max():.2f}')
    check('largest difference of a logit, forward',
          largest(ours['forward'], expected[7::8]), 1e-4)
    check('largest difference of a logit, decoder',
          largest(ours['decoded'], expected), 1e-4)


def shorten(model, folder):
    """Writes the model with a context of TRAINING_CONTEXT."""
    positions = model.transformer.wpe
    positions.weight = torch.nn.Parameter(positions.weight[:TRAINING_CONTEXT].clone())
    model.config.n_positions = positions.num_embeddings = TRAINING_CONTEXT
    model.save_pretrained(folder)


def compare_round_trip(program, folder, model, source):
    _, exported = train(program, folder, 'unchanged', model, source, 1,
                        'sgd { learning_rate: 1 }', 'freeze: "*"')
    before, after = (load_file(os.path.join(path, 'model.safetensors'))
                     for path in (source, exported))
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    for key, value in before.items():
        assert torch.equal(value, after[key]), key
    loaded = GPT2LMHeadModel.from_pretrained(exported).eval()
    tokens, _ = batch(model, 0)
    with torch.no_grad():
        check('difference of a logit after import and export',
              largest(model(tokens).logits, loaded(tokens).logits), 0)
    print(f'{len(before)} tensors have the same bytes after import and export')


def compare_training(program, folder, source, name):
    text, make = OPTIMIZERS[name]
    model = GPT2LMHeadModel.from_pretrained(source).eval()
    losses, exported = train(program, folder, name, model, source, STEPS, text)
    optimizer = make(model)
    expected = []
    for step in range(STEPS):
        tokens, labels = batch(model, step)
        logits = model(tokens).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1),
                                                 labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert len(losses) == STEPS, losses
    print(f'{name}: losses from {expected[0]:.4f} to {expected[-1]:.4f}')
    check(f'{name}: largest relative difference of a loss',
          max(abs(a - b) / b for a, b in zip(losses, expected)), 1e-4)
    loaded = GPT2LMHeadModel.from_pretrained(exported).eval()
    tokens, _ = batch(model, 0)
    with torch.no_grad():
        check(f'{name}: largest difference of a logit after training',
              largest(model(tokens).logits, loaded(tokens).logits), 1e-3)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program')
    parser.add_argument('tool')
    parser.add_argument('folder')
    parser.add_argument('--size', choices=SIZES, default='small')
    args = parser.parse_args()
    model = make_model(args.size)
    source = os.path.join(args.folder, 'source')
    model.save_pretrained(source)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f'{count} parameters, torch {torch.__version__}')
    compare_logits(args.tool, args.folder, model, source)
    compare_round_trip(args.program, args.folder, model, source)
    short = os.path.join(args.folder, 'short')
    shorten(model, short)
    for name in OPTIMIZERS:
        compare_training(args.program, args.folder, short, name)


main()
