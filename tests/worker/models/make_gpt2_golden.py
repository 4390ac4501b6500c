"""Writes golden/gpt2: a small GPT-2 of transformers, its logits, and the losses
of ten training steps.

  python3 make_gpt2_golden.py

Needs torch, transformers and safetensors from PyPI. model.safetensors and
logits.safetensors were made with transformers 5.23.0 and torch 2.15.0,
steps.safetensors with transformers 5.24.0 and torch 2.13.0.
"""
import os

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'golden', 'gpt2')
STEPS, BATCH = 10, 3

config = GPT2Config(n_layer=2, n_head=2, n_embd=16, n_positions=8, vocab_size=32,
                    bos_token_id=None, eos_token_id=None)


def decayed(model):
    """Returns groups of parameters: weight decay applies to matrices only."""
    parameters = list(model.parameters())
    return [{'params': [p for p in parameters if p.dim() > 1]},
            {'params': [p for p in parameters if p.dim() == 1], 'weight_decay': 0}]


def make_logits():
    torch.manual_seed(7)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(FOLDER)
    for name in ('config.json', 'generation_config.json'):
        os.remove(os.path.join(FOLDER, name))
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    with torch.no_grad():
        logits = model(tokens).logits[0]
    save_file({'tokens': tokens[0].float(), 'logits': logits.contiguous()},
              os.path.join(FOLDER, 'logits.safetensors'))


def losses(tokens, labels, make_optimizer):
    """Returns the mean loss of each step, from the weights of FOLDER, in
    evaluation mode, that is, without dropout."""
    model = GPT2LMHeadModel(config).eval()
    tensors = load_file(os.path.join(FOLDER, 'model.safetensors'))
    missing, extra = model.load_state_dict(tensors, strict=False)
    assert missing == ['lm_head.weight'] and not extra, (missing, extra)  # Tied.
    model.double()
    optimizer = make_optimizer(decayed(model))
    values = []
    for step in range(STEPS):
        loss = torch.nn.functional.cross_entropy(
            model(tokens[step]).logits.flatten(0, 1), labels[step].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    return torch.tensor(values)


def make_steps():
    torch.manual_seed(8)
    # Two batches in turn, which the model learns by heart.
    tokens, labels = (torch.randint(32, (2, BATCH, 8)).repeat(STEPS // 2, 1, 1)
                      for _ in range(2))
    save_file({
        'tokens': tokens.float(), 'labels': labels.float(),
        'sgd': losses(tokens, labels, lambda groups: torch.optim.SGD(
            groups, lr=0.1, momentum=0.9)),
        'adamw': losses(tokens, labels, lambda groups: torch.optim.AdamW(
            groups, lr=1e-2, weight_decay=0.1)),
    }, os.path.join(FOLDER, 'steps.safetensors'))


make_logits()
make_steps()
