#!/usr/bin/env python3
"""Times one training step of BERT-base with Tributary and with PyTorch, in turn.

    taskset -c 0 bert_step.py PROGRAM [--batch 2] [--context 128] [--rounds 3] [--seconds 20]

PROGRAM is the program `tributary`. Masked language model, AdamW, dropout 0.1, one thread, float32. PyTorch runs
BertForMaskedLM of transformers (torch and transformers from PyPI). Prints the median step time of each system, their
ratio, and the largest resident memory of each process.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time


def torch_step(batch, context, seconds):
    import torch
    from transformers import BertConfig, BertForMaskedLM
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = BertForMaskedLM(BertConfig()).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    tokens = torch.randint(model.config.vocab_size, (batch, context))
    labels = torch.where(torch.rand(batch, context) < 0.15, tokens, -100)
    labels[:, 0] = tokens[:, 0]
    times = []
    begin = time.monotonic()
    while len(times) < 3 or time.monotonic() < begin + seconds:
        start = time.monotonic()
        optimizer.zero_grad()
        model(input_ids=tokens, labels=labels).loss.backward()
        optimizer.step()
        times.append(time.monotonic() - start)
    return 1000 * statistics.median(times[1:])


def run(command):
    """Returns the output of the command, and the largest resident memory of its process in MiB."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f'{command[0]} failed')
    return output, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('--batch', type=int, default=2)
    parser.add_argument('--context', type=int, default=128)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=20)
    flags = parser.parse_args()
    sizes = [flags.batch, flags.context, flags.seconds]
    if flags.program == 'torch':
        print(torch_step(*sizes))
        return
    ours = [flags.program, 'bench', 'step', 'gpt', '--json', '--batch', str(flags.batch), '--seconds',
            str(flags.seconds), '--set', f'model.bert={{context: {flags.context}}}', '--set',
            'data.random={samples: 16}', '--set', 'optimizer.adamw={learning_rate: 1e-4 weight_decay: 0.01}']
    theirs = [sys.executable, __file__, 'torch'] + [f'--{name}={value}' for name, value in
                                                    zip(('batch', 'context', 'seconds'), sizes)]
    times, memory = {'tributary': [], 'torch': []}, {}
    for _ in range(flags.rounds):
        output, memory['tributary'] = run(ours)
        times['tributary'].append(json.loads(output)['median_ms'])
        output, memory['torch'] = run(theirs)
        times['torch'].append(float(output))
    for name, values in times.items():
        print(f'{name}: {statistics.median(values):.0f} ms, {memory[name]:.0f} MiB')
    print(f'ratio: {statistics.median(a / b for a, b in zip(*times.values())):.3f}')


main()
