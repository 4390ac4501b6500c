#!/usr/bin/env python3
"""Counts the lines that change in programs of usual shapes to train with several workers:
with PyTorch's DistributedDataParallel or the trainer's own processes, and with Tributary.
Prints a Markdown table.

usage: tests/bench/adopt/adopt.py [--run] [PROGRAM...]

With --run, trains each program alone, with two processes of DDP (torchrun), and with two
workers, and prints how long that takes, and the CPU time of all processes, which depends
less on what else the machine does. It needs the package tributary, torchvision, lightning,
transformers and accelerate.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
# The jobs, without the name of the model.
JOBS = {
    'mnist': 'data { external { train_samples: 512 } } batch { global: 32 micro_batches: 2 } '
             'epochs: 3 optimizer { adamw { learning_rate: 0.002 weight_decay: 0.01 } }',
    'gpt_loop': 'data { external { train_samples: 256 } } '
                'batch { global: 32 micro_batches: 2 } steps: 30 clip_norm: 1 '
                'optimizer { adamw { learning_rate: 0.003 weight_decay: 0.1 } }',
    'gpt_class': 'data { external { train_samples: 400 } } '
                 'batch { global: 40 micro_batches: 2 } epochs: 4 '
                 'optimizer { adamw { learning_rate: 0.005 weight_decay: 0.1 } }',
    'resnet18': 'data { external { train_samples: 32 } } '
                'batch { global: 16 micro_batches: 2 } epochs: 2 '
                'optimizer { sgd { learning_rate: 0.05 momentum: 0.9 weight_decay: 1e-4 } }',
    'text_trainer': 'data { external { train_samples: 256 } } '
                    'batch { global: 32 micro_batches: 2 } epochs: 2 '
                    'optimizer { adamw { learning_rate: 0.002 } }',
    'autoencoder': 'data { external { train_samples: 512 } } '
                   'batch { global: 32 micro_batches: 2 } epochs: 3 '
                   'optimizer { adam { learning_rate: 0.002 } }',
    'text_accelerate': 'data { external { train_samples: 512 } } '
                       'batch { global: 32 micro_batches: 2 } epochs: 3 '
                       'optimizer { adamw { learning_rate: 0.01 weight_decay: 0.01 } }',
}


def program(name, kind):
    return os.path.join(FOLDER, f'{name}_{kind}.py')


def changed_lines(before, after):
    """Returns the number of lines that diff shows as added, removed, or changed."""
    output = subprocess.run(['diff', '-w', before, after], capture_output=True, text=True,
                            check=False).stdout
    count = 0
    for hunk in re.split(r'^\d+(?:,\d+)?[acd]\d+(?:,\d+)?$', output, flags=re.M)[1:]:
        count += max(len(re.findall(r'^<', hunk, re.M)), len(re.findall(r'^>', hunk, re.M)))
    return count


def count(name):
    """Returns the lines of a program, and how many change for DDP and for Tributary."""
    plain = program(name, 'plain')
    with open(plain, encoding='utf-8') as file:
        lines = len(file.readlines())
    return (lines, *(changed_lines(plain, program(name, kind))
                     for kind in ('ddp', 'tributary')))


def train(name, kind, folder):
    """Trains, and returns the seconds that it took, and the CPU seconds."""
    path = program(name, kind)
    if kind == 'tributary':
        job = os.path.join(folder, 'job.textproto')
        with open(job, 'w', encoding='utf-8') as file:
            file.write(f'model {{ external {{ name: "{name}" }} }} {JOBS[name]}\n')
        command = [sys.executable, '-c', 'from tributary._program import main; main()',
                   'train', job, '--worker-command', f'{sys.executable} {path}',
                   '--workers', '2']
    elif kind == 'ddp' and name != 'autoencoder':  # Lightning starts its own processes.
        command = [sys.executable, '-m', 'torch.distributed.run', '--nproc-per-node', '2',
                   '--rdzv-backend', 'c10d', '--rdzv-endpoint', 'localhost:0', path]
    else:
        command = [sys.executable, path]
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                          env={**os.environ, 'OMP_NUM_THREADS': '1'})
    if done.returncode != 0:
        sys.exit(f'{os.path.basename(path)} has failed:\n{done.stdout}{done.stderr}')
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (time.monotonic() - begin, used.ru_utime + used.ru_stime -
            before.ru_utime - before.ru_stime)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--run', action='store_true')
    parser.add_argument('programs', nargs='*', default=list(JOBS))
    arguments = parser.parse_args()
    columns = ['program', 'lines', 'changed for DDP', 'changed for Tributary']
    if arguments.run:
        columns += ['plain', 'DDP', 'Tributary']
    print('| ' + ' | '.join(columns) + ' |')
    print('| --- |' + ' ---: |' * (len(columns) - 1))
    for name in arguments.programs:
        cells = [name, *map(str, count(name))]
        if arguments.run:
            for kind in ('plain', 'ddp', 'tributary'):
                with tempfile.TemporaryDirectory() as folder:
                    seconds, cpu = train(name, kind, folder)
                    cells.append(f'{seconds:.0f} s ({cpu:.1f} CPU s)')
        print('| ' + ' | '.join(cells) + ' |', flush=True)


if __name__ == '__main__':
    main()
