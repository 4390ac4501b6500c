"""Compares model.bert with transformers: ten steps, the export, and the round trip.

  python3 compare_bert.py PROGRAM [FOLDER]

PROGRAM is the program `tributary`. FOLDER contains a BERT of Hugging Face (config.json and
model.safetensors); without it, the script makes a small one with random weights. If the folder has a
tokenizer, the script also trains on a text, whose tokens, windows and masks transformers' tokenizer
and the functions of examples/python_wire compute. Needs torch, transformers and safetensors from
PyPI. The script fails if a difference is too large. Not part of
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
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '../../../examples/python_wire'))
import sampling  # pylint: disable=wrong-import-position

PROGRAM = os.path.abspath(sys.argv[1])
SAMPLES, CONTEXT, STEPS, PROBABILITY = 4, 32, 10, 0.15
LIMIT = 1e-4  # Of relative differences.
TEXT = '/usr/share/common-licenses/GPL-3'
SEED = 1


def random_data(vocabulary):
    """Returns the tokens and labels of data.random; see proto/DATA.md."""
    count = SAMPLES * CONTEXT
    tokens = (sampling.words(0, 6, 0, 0, count) % vocabulary).astype(np.int64)
    labels = (sampling.words(0, 6, 1, 0, count) % vocabulary).astype(np.int64)
    predicted = sampling.uniform(sampling.words(0, 6, 2, 0, count)) < PROBABILITY
    predicted[::CONTEXT] = True
    labels[~predicted] = -100
    shape = (SAMPLES, CONTEXT)
    return torch.from_numpy(tokens).reshape(shape), torch.from_numpy(labels).reshape(shape)


def masked(window, index, tokenizer):
    """Returns the masked tokens and the labels of a window; see proto/SAMPLING.md."""
    words = sampling.blocks(SEED, 7, 0, 0, 65536 * index + np.arange(len(window)))
    uniform = sampling.uniform(words)
    # No window of the text consists of special tokens only.
    ordinary = ~np.isin(window, tokenizer.all_special_ids)
    predicted = ordinary & (uniform[:, 0] < np.float32(PROBABILITY))
    if not predicted.any():
        predicted[np.argmin(np.where(ordinary, words[:, 0], 2**32))] = True
    drawn = (words[:, 2] * np.uint64(len(tokenizer)) >> np.uint64(32)).astype(np.int64)
    changed = np.where(uniform[:, 1] < np.float32(0.8), tokenizer.mask_token_id,
                       np.where(uniform[:, 1] < np.float32(0.9), drawn, window))
    return np.where(predicted, changed, window), np.where(predicted, window, -100)


def text_data(folder):
    """Returns the batches of the first steps of data.text: tokens and labels."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with open(TEXT, encoding='utf-8') as file:
        ids = np.array(tokenizer(file.read(), add_special_tokens=False, truncation=False,
                                 padding=False)['input_ids'], dtype=np.int64)
    train, size = int(len(ids) * (1 - 0.1)), CONTEXT - 2
    windows = train // size - 1
    assert STEPS * SAMPLES <= windows  # One epoch.
    start = int(sampling.words(SEED, 4, 0, 0, 1)[0]) * size >> 32
    for step in range(STEPS):
        tokens, labels = [], []
        for micro_batch in range(2):
            _, indexes = sampling.micro_batch(SEED, windows, SAMPLES, 2, step, micro_batch)
            for index in indexes.tolist():
                window = ids[start + index * size:start + (index + 1) * size]
                changed, label = masked(window, index, tokenizer)
                tokens.append([tokenizer.cls_token_id, *changed, tokenizer.sep_token_id])
                labels.append([-100, *label, -100])
        yield torch.tensor(np.array(tokens)), torch.tensor(np.array(labels))


def job(config, folder, optimizer, freeze='', data=f'random {{ samples: {SAMPLES} }}'):
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
data {{ {data} }}
seed: {SEED}
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


def torch_steps(model, batches, make_optimizer):
    model.eval()  # The configuration may have dropout; eval does not change anything else.
    # Without this, transformers leaves out the gradient of the row of token 0.
    model.bert.embeddings.word_embeddings.padding_idx = None
    optimizer = make_optimizer(model)
    losses = []
    for tokens, labels in batches:
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


def compare(name, config, source, work, text=False):
    optimizer, make_optimizer = OPTIMIZERS[name]
    what = f'{name}, {"text" if text else "random tokens"}'
    out = os.path.join(work, what.replace(', ', '-').replace(' ', '-'))
    if text:
        data = f'text {{ path: "{TEXT}" tokenizer: "{source}" }}'
        batches = list(text_data(source))
        losses = train(job(config, source, optimizer, data=data), out)
    else:
        batches = [random_data(config.vocab_size)] * STEPS
        losses = train(job(config, source, optimizer), out)
    model = BertForMaskedLM.from_pretrained(source, attn_implementation='eager')
    wanted = torch_steps(model, batches, make_optimizer)
    check(f'{what}: first loss', abs(losses[0] / wanted[0] - 1))
    check(f'{what}: losses', max(abs(a / b - 1) for a, b in zip(losses, wanted)))
    tensors = load_file(os.path.join(out, 'final', 'model.safetensors'))
    # The biases of keys have no gradient but that of rounding, which AdamW magnifies.
    check(f'{what}: weights', max(
        (float((tensors[key] - value).norm() / value.norm()))
        for key, value in model.state_dict().items()
        if key in tensors and float(value.norm()) > 0 and not key.endswith('key.bias')))
    loaded = BertForMaskedLM.from_pretrained(out + '-export').eval()
    tokens = batches[0][0]
    with torch.no_grad():
        wanted = model(input_ids=tokens).logits
        difference = (loaded(input_ids=tokens).logits - wanted).abs().max() / wanted.abs().max()
    check(f'{what}: logits of the export', float(difference))


with tempfile.TemporaryDirectory() as work:
    source = os.path.join(work, 'source')
    if len(sys.argv) > 2:
        # An encoder: the head gets random weights.
        torch.manual_seed(7)
        BertForMaskedLM.from_pretrained(sys.argv[2]).save_pretrained(source)
        if os.path.exists(os.path.join(sys.argv[2], 'vocab.txt')):
            AutoTokenizer.from_pretrained(sys.argv[2]).save_pretrained(source)
    else:
        torch.manual_seed(7)
        BertForMaskedLM(BertConfig(num_hidden_layers=2, num_attention_heads=4, hidden_size=64,
                                   intermediate_size=128, max_position_embeddings=64,
                                   vocab_size=300)).save_pretrained(source)
    config = BertConfig.from_pretrained(source)
    for name in OPTIMIZERS:
        compare(name, config, source, work)
        if os.path.exists(os.path.join(source, 'tokenizer.json')):
            compare(name, config, source, work, text=True)
    frozen = os.path.join(work, 'frozen')
    train(job(config, source, OPTIMIZERS['sgd'][0], 'freeze: "*"'), frozen)
    if not filecmp.cmp(os.path.join(frozen + '-export', 'model.safetensors'),
                       os.path.join(source, 'model.safetensors'), shallow=False):
        sys.exit('the round trip changed model.safetensors')
    print('round trip: equal bytes')
