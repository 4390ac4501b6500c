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
    learning_rate: %g
  }
}
steps: %d
'''


def resources(rng, workers, done):
    """What a server and workers with GPUs use."""
    return [{
        'role': role, 'number': number, 'cpus': round(cpus + 0.2 * rng.random(), 3),
        'memory_bytes': int(4e7 * (1 + number + done)),
        'sent_per_second': int(rate * (1 + 0.2 * rng.random())),
        'received_per_second': int(rate * (1 + 0.2 * rng.random())),
        **({'gpu_percent': int(80 + 15 * rng.random()),
            'gpu_memory_bytes': int(9e9)} if role == 'worker' else {})}
        for role, number, cpus, rate in
        [('server', 0, 0.6, workers * 5e6)] +
        [('worker', rank, 1.5, 5e6) for rank in range(workers)]]


def lines(steps, workers, log_every, rate, metrics):
    rng = random.Random(1)
    seconds = 0.0
    for step in range(log_every, steps + 1, log_every):
        duration = 0.02 + 0.002 * rng.random()
        seconds += duration * log_every
        speed = 3 * math.sqrt(rate / 0.01)
        loss = (0.2 + 2 * rate + 4 * math.exp(-speed * step / steps) +
                0.05 * rng.random())
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
            'learning_rate': rate,
            'gradient_norm': 10 ** (1 - 2 * step / steps) * (1 + rng.random() / 4),
            'samples': 64 * log_every,
            'samples_per_second': 64 / duration, 'step_seconds': duration,
            'seconds': seconds, 'resources_count': workers + 1,
            'workers': members,
            'waiting': {'rank': slow, 'ms': 2.5, 'phase': 'forward'},
            'resources': resources(rng, workers, step / steps)}
        if step % (steps // 10) == 0:
            yield {'step': step, 'evaluation_loss': loss + 0.1,
                   'evaluation_accuracy': 1 - loss / 5, 'seconds': seconds,
                   **{f'evaluation_{name}': scale * (1 - loss / 6)
                      for scale, name in enumerate(metrics, 1)}}


def make_run(folder, steps, workers, log_every, name='made', rate=0.01,
             metrics=()):
    """`metrics` are names of metrics of the program."""
    os.makedirs(folder, exist_ok=True)
    leaves = 1 << (workers - 1).bit_length()
    with open(os.path.join(folder, 'job.textproto'), 'w', encoding='utf-8') as file:
        escaped = name.encode('unicode_escape').decode().replace('"', '\\"')
        file.write(JOB % (escaped, leaves, leaves, rate, steps))
    last = {}
    with open(os.path.join(folder, 'metrics.jsonl'), 'w', encoding='utf-8') as file:
        for line in lines(steps, workers, log_every, rate, metrics):
            file.write(json.dumps(line, separators=(',', ':')) + '\n')
            last.update(line)
    summary = {
        'name': name, 'status': 'done', 'steps': steps, 'final_loss': last['loss'],
        'evaluation': {'loss': last['evaluation_loss'],
                       'accuracy': last['evaluation_accuracy']},
        'seconds': last['seconds'], 'unit': 'rows', 'attempt': 1,
        'workers': workers, 'workers_lost': 0, 'servers': 2,
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
                       'peak_memory_bytes': 60000000, 'cpu_seconds': 2.5,
                       'tables': [{'name': 'users', 'rows': 1200, 'bytes': 96000}]},
                      {'role': 'server', 'rank': 1, 'bytes_sent': 0, 'bytes_received': 0,
                       'peak_memory_bytes': 60000000, 'cpu_seconds': 2.5,
                       'tables': [{'name': 'users', 'rows': 800, 'bytes': 64000}]}]}
    os.makedirs(os.path.join(folder, 'logs'), exist_ok=True)
    for process in ['server 0'] + [f'worker {rank}' for rank in range(workers)]:
        path = os.path.join(folder, 'logs', process.replace(' ', '-') + '.log')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(f'2026-01-31T12:00:00.000001Z info {process}: begins\n'
                       f'2026-01-31T12:00:01.000002Z warning {process}: first\\nsecond\n'
                       'Traceback (most recent call last):\n  <script>x</script>\n')
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
