"""Writes golden/bert: small BERTs of transformers, their logits, losses and gradients.

  python3 make_bert_golden.py

Needs torch, transformers and safetensors from PyPI. The files in the repository
were made with the versions that their metadata names. All results are computed
in float64.
"""
import os

import safetensors
import torch
import transformers
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'golden', 'bert')
VERSIONS = {'torch': torch.__version__, 'transformers': transformers.__version__}
SIZES = dict(num_hidden_layers=2, num_attention_heads=2, hidden_size=16, intermediate_size=24,
             max_position_embeddings=12, vocab_size=32, hidden_dropout_prob=0.0,
             attention_probs_dropout_prob=0.0, num_labels=3)
CONTEXT = 10
LENGTHS = [10, 7, 2]

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
places = torch.arange(CONTEXT)
mask = (places[None, :] < torch.tensor(LENGTHS)[:, None]).long()
# Token 0 is padding: transformers computes no gradient for its row.
tokens = torch.randint(1, SIZES['vocab_size'], (len(LENGTHS), CONTEXT)) * mask
types = (places[None, :] >= 4).long() * mask


def write(name, model, labels):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter + 0.1 * torch.randn_like(parameter)).float().double())
    output = model.eval()(input_ids=tokens, attention_mask=mask, token_type_ids=types,
                          labels=torch.where(labels < 0, -100, labels))
    counted = int((labels >= 0).sum())
    (output.loss * counted).backward()
    tensors = {'tokens': tokens.int(), 'types': types.int(),
               'lengths': torch.tensor(LENGTHS, dtype=torch.int32), 'labels': labels.int(),
               'loss': (output.loss * counted).reshape(1), 'logits': output.logits}
    for key, parameter in model.named_parameters():
        tensors['weight/' + key] = parameter.float()
        tensors['gradient/' + key] = parameter.grad
    tensors = {key: value.detach().clone().contiguous() for key, value in tensors.items()}
    save_file(tensors, os.path.join(FOLDER, name + '.safetensors'), VERSIONS)


os.makedirs(FOLDER, exist_ok=True)
labels = torch.full_like(tokens, -1)
labels[0, 2], labels[0, 6], labels[1, 4], labels[2, 1] = 5, 9, 30, 0
write('masked_language_model', BertForMaskedLM(BertConfig(**SIZES)), labels)
write('classification', BertForSequenceClassification(BertConfig(**SIZES)), torch.tensor([2, 0, 1]))
