"""Writes the folder of a finished run, as large as wanted, for the dashboard.

    make_run.py FOLDER --steps 100000 --workers 64 --log-every 1
"""
import argparse
import json
import math
import os
import random

JOB = '''name: "%s"
model {
  mlp {
    hidden: 64
  }
}
data {
  random {
    samples: 4096
    shape: 32
    classes: 4
  }
}
batch {
  global: %d
  micro_batches: %d
}
optimizer {
  sgd {
    learning_rate: 0.01
  }
}
steps: %d
'''


def lines(steps, workers, log_every):
    rng = random.Random(1)
    seconds = 0.0
    for step in range(log_every, steps + 1, log_every):
        duration = 0.02 + 0.002 * rng.random()
        seconds += duration * log_every
        loss = 0.5 + 4 * math.exp(-3 * step / steps) + 0.05 * rng.random()
        slow = rng.randrange(workers)
        members = []
        for rank in range(workers):
            forward = 5 + rng.random() + (2 if rank == slow else 0)
            members.append({
                'rank': rank, 'leaves': 1.0, 'forward_ms': round(forward, 3),
                'backward_ms': round(2 * forward, 3), 'data_ms': 0.004,
                'exchange_ms': round(2 * rng.random(), 3),
                'waiting_ms': round(rng.random(), 3)})
        yield {
            'step': step, 'epoch': step / 100, 'loss': loss,
            'learning_rate': 0.01, 'gradient_norm': 1 + rng.random(),
            'samples': 64 * log_every,
            'samples_per_second': 64 / duration, 'step_seconds': duration,
            'seconds': seconds, 'workers': members,
            'waiting': {'rank': slow, 'ms': 2.5, 'phase': 'forward'}}
        if step % (steps // 10) == 0:
            yield {'step': step, 'evaluation_loss': loss + 0.1,
                   'evaluation_accuracy': 1 - loss / 5, 'seconds': seconds}


def make_run(folder, steps, workers, log_every, name='made'):
    os.makedirs(folder, exist_ok=True)
    leaves = 1 << (workers - 1).bit_length()
    with open(os.path.join(folder, 'job.textproto'), 'w', encoding='utf-8') as file:
        escaped = name.encode('unicode_escape').decode().replace('"', '\\"')
        file.write(JOB % (escaped, leaves, leaves, steps))
    last = None
    with open(os.path.join(folder, 'metrics.jsonl'), 'w', encoding='utf-8') as file:
        for line in lines(steps, workers, log_every):
            file.write(json.dumps(line, separators=(',', ':')) + '\n')
            last = line
    summary = {
        'name': name, 'status': 'done', 'steps': steps, 'final_loss': 0.7,
        'seconds': last['seconds'], 'unit': 'rows', 'attempt': 1,
        'workers': workers, 'workers_lost': 0, 'servers': 1,
        'exchange': 'parameter_server', 'parameters': 2372,
        'weights_sha256': '0' * 64,
        'processes': [{'role': 'worker', 'rank': rank,
                       'bytes_sent': 9488 * steps, 'bytes_received': 9488 * steps,
                       'peak_memory_bytes': 50000000, 'cpu_seconds': 1.5,
                       'compute_seconds': 1.25, 'data_seconds': 0.5,
                       'exchange_seconds': 0.25, 'evaluation_seconds': 0.125}
                      for rank in range(workers)] +
                     [{'role': 'server', 'rank': 0,
                       'bytes_sent': 9488 * steps * workers,
                       'bytes_received': 9488 * steps * workers,
                       'peak_memory_bytes': 60000000, 'cpu_seconds': 2.5}]}
    with open(os.path.join(folder, 'summary.json'), 'w', encoding='utf-8') as file:
        json.dump(summary, file)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('folder')
    parser.add_argument('--steps', type=int, default=1000)
    parser.add_argument('--workers', type=int, default=4)
    parser.add_argument('--log-every', type=int, default=10)
    arguments = parser.parse_args()
    make_run(arguments.folder, arguments.steps, arguments.workers,
             arguments.log_every)
