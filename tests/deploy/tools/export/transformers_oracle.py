"""Checks weights from and to Hugging Face against transformers, on demand.

  python3 transformers_oracle.py TRIBUTARY FOLDER

TRIBUTARY is the program, FOLDER an empty folder for the files. Needs torch,
transformers and safetensors from PyPI. Makes GPT-2 models with random weights,
trains each for a step that does not change float32 weights, exports it, and
compares: the tensors must have the same bytes, and the logits and the loss must
be those of transformers.
"""
import json
import os
import subprocess
import sys

import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

JOB = """
model {
  gpt { layers: 3 heads: 4 width: 64 context: 32 vocabulary: 256 tied_head: %s }
  initial_weights { path: "%s" }
}
data { text { path: "%s" } }
batch { global: 8 micro_batches: 4 }
# The change of a weight, 1e-30 times its gradient, is rounded off.
optimizer { sgd { learning_rate: 1e-30 momentum: 0 } }
steps: 1
output { sample_bytes: 0 }
"""


def make_model(folder, tied, dtype):
    torch.manual_seed(3)
    config = GPT2Config(n_layer=3, n_head=4, n_embd=64, n_positions=32,
                        vocab_size=256, bos_token_id=None, eos_token_id=None,
                        tie_word_embeddings=tied)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    model.to(dtype).save_pretrained(folder)
    return model.float()


def check(program, folder, name, tied, dtype):
    source, run, exported = (os.path.join(folder, f'{name}-{part}')
                             for part in ('source', 'run', 'exported'))
    model = make_model(source, tied, dtype)
    text = os.path.join(folder, 'text')
    with open(text, 'w', encoding='utf-8') as file:
        file.write('The quick brown fox jumps over the lazy dog.\n' * 100)
    job = os.path.join(folder, f'{name}.textproto')
    with open(job, 'w', encoding='utf-8') as file:
        file.write(JOB % (str(tied).lower(), source, text))
    subprocess.run([program, 'train', job, '--output', run, '--workers', '1'],
                   check=True, capture_output=True)
    subprocess.run([program, 'export', run, '--format', 'huggingface',
                    '--output', exported], check=True, capture_output=True)

    before = load_file(os.path.join(source, 'model.safetensors'))
    after = load_file(os.path.join(exported, 'model.safetensors'))
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    for key, value in before.items():
        assert torch.equal(value.float(), after[key]), key

    loaded = GPT2LMHeadModel.from_pretrained(exported).eval()
    tokens = torch.randint(256, (4, 32))
    with torch.no_grad():
        difference = (model(tokens).logits - loaded(tokens).logits).abs().max()
    assert difference == 0, difference

    # The loss of the first step, over windows of the text, is about that of
    # transformers over all windows.
    with open(os.path.join(run, 'summary.json'), encoding='utf-8') as file:
        summary = json.load(file)
    data = torch.tensor(list(open(text, 'rb').read()))
    windows = data.unfold(0, 33, 1)[:45]  # The text repeats after 45 bytes.
    with torch.no_grad():
        logits = model(windows[:, :-1]).logits
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), windows[:, 1:].flatten()).item()
    loss = summary['evaluation']['loss']
    assert abs(loss - expected) < 0.05 * expected, (loss, expected)
    print(f'{name}: {len(before)} tensors equal, loss {loss:.4f}, '
          f'of transformers {expected:.4f}')


def main():
    program, folder = sys.argv[1:]
    check(program, folder, 'tied', True, torch.float32)
    check(program, folder, 'untied', False, torch.float32)
    check(program, folder, 'bfloat16', True, torch.bfloat16)
    check(program, folder, 'float16', True, torch.float16)


main()
