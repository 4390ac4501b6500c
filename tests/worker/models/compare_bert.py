"""Compares model.bert with transformers: ten steps, the export, and the round trip.

  python3 compare_bert.py PROGRAM [FOLDER]

PROGRAM is the program `tributary`. FOLDER contains a BERT of Hugging Face (config.json and
model.safetensors); without it, the script makes a small one with random weights. Needs torch,
transformers and safetensors from PyPI. The script fails if a difference is too large. Not part of
CI: golden/bert holds results for small models (make_bert_golden.py).
"""
import filecmp
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM

PROGRAM = os.path.abspath(sys.argv[1])
SAMPLES, CONTEXT, STEPS, PROBABILITY = 4, 32, 10, 0.15
LIMIT = 1e-4  # Of relative differences of losses and weights, and of differences of logits.
MASK = 0xFFFFFFFF


def philox(purpose, a, count):
    """Returns the first numbers of a stream with seed 0; see proto/SAMPLING.md."""
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    c = [blocks & MASK, blocks >> np.uint64(32), np.full_like(blocks, a), np.zeros_like(blocks)]
    k0, k1 = (purpose * 0x85EBCA6B) & MASK, purpose
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        high0, high1 = p0 >> np.uint64(32), p1 >> np.uint64(32)
        c = [high1 ^ c[1] ^ np.uint64(k0), p1 & np.uint64(MASK),
             high0 ^ c[3] ^ np.uint64(k1), p0 & np.uint64(MASK)]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return np.stack(c, axis=1).reshape(-1)[:count]


def random_data(vocabulary):
    """Returns the tokens and labels of data.random; see proto/DATA.md."""
    count = SAMPLES * CONTEXT
    tokens = (philox(6, 0, count) % vocabulary).astype(np.int64)
    labels = (philox(6, 1, count) % vocabulary).astype(np.int64)
    predicted = (philox(6, 2, count) >> np.uint64(8)).astype(np.float32) * 2.0**-24 < PROBABILITY
    predicted[::CONTEXT] = True
    labels[~predicted] = -100
    shape = (SAMPLES, CONTEXT)
    return torch.from_numpy(tokens).reshape(shape), torch.from_numpy(labels).reshape(shape)


def job(config, folder, optimizer, freeze=''):
    return f"""
model {{
  bert {{
    layers: {config.num_hidden_layers} heads: {config.num_attention_heads}
    width: {config.hidden_size} intermediate: {config.intermediate_size}
    context: {CONTEXT} positions: {config.max_position_embeddings}
    vocabulary: {config.vocab_size} token_types: {config.type_vocab_size}
    layer_norm_epsilon: {config.layer_norm_eps} dropout: 0 mask_probability: {PROBABILITY}
  }}
  initial_weights {{ path: "{folder}" {freeze} }}
}}
data {{ random {{ samples: {SAMPLES} }} }}
batch {{ global: {SAMPLES} micro_batches: 2 }}
optimizer {{ {optimizer} }}
steps: {STEPS}
checkpoint {{ every_steps: 0 }}
output {{ log_every_steps: 1 }}
"""


def train(text, folder):
    path = folder + '.textproto'
    with open(path, 'w') as file:
        file.write(text)
    subprocess.run([PROGRAM, 'train', path, '--output', folder], check=True,
                   stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, 'metrics.jsonl')) as file:
        lines = [json.loads(line) for line in file]
    subprocess.run([PROGRAM, 'export', folder, '--format', 'huggingface', '--output',
                    folder + '-export'], check=True, stdout=subprocess.DEVNULL)
    return [line['loss'] for line in lines if 'loss' in line][:STEPS]


def torch_steps(model, tokens, labels, make_optimizer):
    model.eval()  # The configuration may have dropout; eval does not change anything else.
    # Without this, transformers leaves out the gradient of the row of token 0.
    model.bert.embeddings.word_embeddings.padding_idx = None
    optimizer = make_optimizer(model)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def adamw(model):
    groups = [{'params': [p for p in model.parameters() if p.dim() >= 2], 'weight_decay': 0.01},
              {'params': [p for p in model.parameters() if p.dim() < 2], 'weight_decay': 0.0}]
    return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.999), eps=1e-8)


OPTIMIZERS = {
    'sgd': ('sgd { learning_rate: 0.05 momentum: 0.9 }',
            lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)),
    'adamw': ('adamw { learning_rate: 1e-4 beta1: 0.9 beta2: 0.999 epsilon: 1e-8 '
              'weight_decay: 0.01 }', adamw),
}


def check(what, value):
    print(f'{what}: {value:.2e}')
    if not value <= LIMIT:
        sys.exit(f'{what} is {value}, expected at most {LIMIT}')


def compare(name, config, source, work):
    text, make_optimizer = OPTIMIZERS[name]
    out = os.path.join(work, name)
    losses = train(job(config, source, text), out)
    tokens, labels = random_data(config.vocab_size)
    model = BertForMaskedLM.from_pretrained(source, attn_implementation='eager')
    wanted = torch_steps(model, tokens, labels, make_optimizer)
    check(f'{name}: first loss', abs(losses[0] / wanted[0] - 1))
    check(f'{name}: losses', max(abs(a / b - 1) for a, b in zip(losses, wanted)))
    tensors = load_file(os.path.join(out, 'final', 'model.safetensors'))
    # The biases of keys have no gradient but that of rounding, which AdamW magnifies.
    check(f'{name}: weights', max(
        (float((tensors[key] - value).norm() / value.norm()))
        for key, value in model.state_dict().items()
        if key in tensors and float(value.norm()) > 0 and not key.endswith('key.bias')))
    loaded = BertForMaskedLM.from_pretrained(out + '-export').eval()
    with torch.no_grad():
        difference = (loaded(input_ids=tokens).logits - model(input_ids=tokens).logits).abs().max()
    check(f'{name}: logits of the export', float(difference))


with tempfile.TemporaryDirectory() as work:
    source = os.path.join(work, 'source')
    if len(sys.argv) > 2:
        # An encoder: the head gets random weights.
        torch.manual_seed(7)
        BertForMaskedLM.from_pretrained(sys.argv[2]).save_pretrained(source)
    else:
        torch.manual_seed(7)
        BertForMaskedLM(BertConfig(num_hidden_layers=2, num_attention_heads=4, hidden_size=64,
                                   intermediate_size=128, max_position_embeddings=64,
                                   vocab_size=300)).save_pretrained(source)
    config = BertConfig.from_pretrained(source)
    for name in OPTIMIZERS:
        compare(name, config, source, work)
    frozen = os.path.join(work, 'frozen')
    train(job(config, source, OPTIMIZERS['sgd'][0], 'freeze: "*"'), frozen)
    if not filecmp.cmp(os.path.join(frozen + '-export', 'model.safetensors'),
                       os.path.join(source, 'model.safetensors'), shallow=False):
        sys.exit('the round trip changed model.safetensors')
    print('round trip: equal bytes')
