"""Writes golden/gpt2: a small GPT-2 of transformers, and its logits.

  python3 make_gpt2_golden.py

Needs torch, transformers and safetensors from PyPI. The files in the repository
were made with transformers 5.23.0 and torch 2.15.0.
"""
import os

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'golden', 'gpt2')

torch.manual_seed(7)
config = GPT2Config(n_layer=2, n_head=2, n_embd=16, n_positions=8, vocab_size=32,
                    bos_token_id=None, eos_token_id=None)
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
