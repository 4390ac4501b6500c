#!/usr/bin/env python3
"""How a job scales with its number of workers: joining, the coordinator, losing workers.

Starts 8 servers and up to 1,000 workers on this machine, which connect over TCP, each
with connections of its own (tests/bench/many_workers.cc). A step takes about a second,
because a micro-batch takes half a second and no CPU time; all CPU time is thus the
cost of the exchange. Prints a table for RESULTS.md and draws a plot.

  tests/bench/many_workers.py --data measured.jsonl --plot tests/bench/many_workers.svg

--data: file of the measurements. If it exists, only the sizes that it lacks are measured.
Takes one to four minutes for each size, and 3 GB of memory.
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SERVERS = 8
# Workers of one process.
MOST_IN_PROCESS = 100
PAUSE_MS = 500
# Seconds before the CPU time is measured, and over which it is measured.
SETTLE, MEASURE = 8, 20
# Seconds. Longer than the default, because all processes share the cores of one machine.
LEASE = 60
# Seconds that the loss of workers is observed.
OBSERVE = 20
PROGRAMS = pathlib.Path('bazel-bin')

JOB = """
name: "many-workers"
model {{ synthetic {{ parameters: 32768 }} }}
data {{ random {{ samples: 65536 }} }}
batch {{ global: {micro_batches} micro_batches: {micro_batches} }}
optimizer {{ sgd {{ learning_rate: 1e-6 }} }}
steps: 1000000
exchange {{ transport: WIRE parameter_server {{ chunk_bytes: 16384 }} }}
evaluation {{ disabled: true }}
checkpoint {{ every_steps: 0 }}
output {{ log_every_steps: 1 }}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def cpu_seconds(process):
    """CPU time of a process so far."""
    fields = pathlib.Path(f'/proc/{process.pid}/stat').read_text().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def megabytes(process):
    """Memory of a process now."""
    text = pathlib.Path(f'/proc/{process.pid}/status').read_text()
    return int(text.split('VmRSS:')[1].split()[0]) / 1024


def count(process, kind):
    """Number of threads ("task") or descriptors ("fd") of a process."""
    return len(os.listdir(f'/proc/{process.pid}/{kind}'))


class Metrics:
    """Follows metrics.jsonl. steps: (time of arrival, step) of each line."""

    def __init__(self, path):
        self._path = path
        self._offset = 0
        self.steps = []

    def poll(self):
        if not self._path.exists():
            return
        with open(self._path, 'rb') as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b'\n'):
                    break
                self._offset += len(line)
                # The line of 1,000 workers is long; its beginning suffices.
                self.steps.append((time.monotonic(), int(line[8:20].split(b',')[0])))

    def follow(self, seconds, until=lambda: False):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            time.sleep(0.01)
            self.poll()


class Cluster:
    """The processes of one measurement."""

    def __init__(self, workers):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='many-workers-'))
        self.address = f'127.0.0.1:{free_port()}'
        micro_batches = 1 << (workers - 1).bit_length()
        job = self.folder / 'job.textproto'
        job.write_text(JOB.format(micro_batches=micro_batches))
        self.servers = []
        self.groups = []
        program = PROGRAMS / 'deploy/tributary'
        for shard in range(SERVERS):
            command = [program, 'server', '--servers', str(SERVERS), '--threads', '1',
                       '--workers', str(workers), '--lease', str(LEASE)]
            if shard == 0:
                command += [job, '--listen', self.address, '--output', self.folder / 'run']
            else:
                command += ['--shard', str(shard), '--coordinator', self.address]
            self.servers.append(self._start(command, f'server-{shard}'))
        # The first group is the one that is lost.
        self.lost = max(1, workers // 10)
        sizes = [self.lost]
        while sum(sizes) < workers:
            sizes.append(min(MOST_IN_PROCESS, workers - sum(sizes)))
        for size in sizes:
            self.groups.append(self._start(
                # Below the servers, which have machines of their own elsewhere.
                ['nice', PROGRAMS / 'tests/bench/many_workers', self.address, str(size),
                 str(SERVERS), str(PAUSE_MS)], f'workers-{len(self.groups)}'))

    def _start(self, command, name):
        with open(self.folder / f'{name}.log', 'wb') as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self):
        for process in self.groups:
            process.kill()
        self.servers[0].send_signal(signal.SIGTERM)
        for process in self.groups + self.servers:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder)


def measure(workers):
    """Returns one row of measurements."""
    begin = time.monotonic()
    cluster = Cluster(workers)
    try:
        metrics = Metrics(cluster.folder / 'run/metrics.jsonl')
        metrics.follow(600, until=lambda: metrics.steps or
                       cluster.servers[0].poll() is not None)
        if not metrics.steps:
            raise SystemExit((cluster.folder / 'server-0.log').read_text()[-2000:])
        for number, group in enumerate(cluster.groups):
            if group.poll() is not None:
                log = (cluster.folder / f'workers-{number}.log').read_text()
                raise SystemExit(f'workers have failed, exit code {group.returncode}: {log}')
        row = {'workers': workers, 'join_s': metrics.steps[0][0] - begin,
               'join_server0_cpu_s': cpu_seconds(cluster.servers[0])}
        metrics.follow(SETTLE)
        cpu = [cpu_seconds(process) for process in cluster.servers]
        started, steps = time.monotonic(), len(metrics.steps)
        metrics.follow(MEASURE)
        seconds = time.monotonic() - started
        steps = len(metrics.steps) - steps
        used = [cpu_seconds(process) - before for process, before in zip(cluster.servers, cpu)]
        others = sum(used[1:]) / len(used[1:])
        row.update({
            'step_s': seconds / max(1, steps), 'server_cpu': others / seconds,
            # Server 0 does the work of any other server, and coordinates.
            'coordinator_cpu': (used[0] - others) / seconds,
            'server0_mb': megabytes(cluster.servers[0]),
            'server_mb': sum(megabytes(p) for p in cluster.servers[1:]) / (SERVERS - 1),
            'server0_threads': count(cluster.servers[0], 'task'),
            'server0_descriptors': count(cluster.servers[0], 'fd'),
            'worker_threads': count(cluster.groups[-1], 'task'),
            'load': os.getloadavg()[0]})
        killed = time.monotonic()
        before = cpu_seconds(cluster.servers[0])
        known = len(metrics.steps)
        cluster.groups[0].kill()
        metrics.follow(OBSERVE)
        arrivals = [killed] + [arrival for arrival, _ in metrics.steps[known:]]
        gaps = [b - a for a, b in zip(arrivals, arrivals[1:])]
        row.update({'lost': cluster.lost, 'gap_s': max(gaps, default=math.inf),
                    'loss_server0_cpu_s': cpu_seconds(cluster.servers[0]) - before})
        return row
    finally:
        cluster.stop()


def table(rows):
    lines = ['| workers | join, s | step, s | coordinator, CPU ms each second | per worker, ms |'
             ' server, CPU ms each second | memory of server 0, MB | of others, MB |'
             ' threads, descriptors of server 0 | lost: step gap, s |',
             '| --- ' * 10 + '|']
    for row in rows:
        lines.append(
            f'| {row["workers"]} | {row["join_s"]:.1f} | {row["step_s"]:.2f} |'
            f' {1e3 * row["coordinator_cpu"]:.0f} |'
            f' {1e3 * row["coordinator_cpu"] / row["workers"]:.2f} |'
            f' {1e3 * row["server_cpu"]:.0f} | {row["server0_mb"]:.0f} | {row["server_mb"]:.0f} |'
            f' {row["server0_threads"]}, {row["server0_descriptors"]} |'
            f' {row["lost"]}: {row["gap_s"]:.1f} |')
    return '\n'.join(lines)


PANELS = [('join_s', 'time to join, s'), ('coordinator_cpu', "coordinator's CPU time per second, s"),
          ('gap_s', 'longest step while 10 % are lost, s')]


def plot(rows, path):
    """Draws one panel for each value, with logarithmic axes and a line through the smallest
    size that grows in proportion to the workers."""
    width, height, left, top = 250, 220, 60, 50
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{len(PANELS) * 330 + 20}" '
             f'height="{top + height + 60}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']
    sizes = [row['workers'] for row in rows]
    for number, (key, title) in enumerate(PANELS):
        x0 = left + number * 330
        values = [max(row[key], 1e-4) for row in rows]
        low = math.floor(math.log10(min(values)))
        high = max(low + 1, math.ceil(math.log10(max(values) * 1.01)))

        def x(size, x0=x0):
            share = math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
            return x0 + 15 + share * (width - 30)

        def y(value, low=low, high=high):
            return top + height * (1 - (math.log10(value) - low) / (high - low))
        parts.append(f'<text x="{x0}" y="{top - 14}" font-weight="bold">{title}</text>')
        for power in range(low, high + 1):
            parts.append(f'<line x1="{x0}" x2="{x0 + width}" y1="{y(10 ** power):.1f}" '
                         f'y2="{y(10 ** power):.1f}" stroke="#ddd"/>'
                         f'<text x="{x0 - 6}" y="{y(10 ** power) + 4:.1f}" '
                         f'text-anchor="end">{10 ** power:g}</text>')
        for size in sizes:
            parts.append(f'<text x="{x(size):.1f}" y="{top + height + 18}" '
                         f'text-anchor="middle">{size}</text>')
        # Ends where it leaves the panel.
        end = min(sizes[-1], sizes[0] * 10 ** high / values[0])
        parts.append(f'<line x1="{x(sizes[0]):.1f}" y1="{y(values[0]):.1f}" x2="{x(end):.1f}" '
                     f'y2="{y(values[0] * end / sizes[0]):.1f}" stroke="#999" '
                     'stroke-dasharray="5 4"/>')
        points = ' '.join(f'{x(s):.1f},{y(v):.1f}' for s, v in zip(sizes, values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="#1b6ca8" '
                     'stroke-width="1.6"/>')
        parts += [f'<circle cx="{x(s):.1f}" cy="{y(v):.1f}" r="3.2" fill="#1b6ca8"/>'
                  for s, v in zip(sizes, values)]
        parts.append(f'<rect x="{x0}" y="{top}" width="{width}" height="{height}" fill="none" '
                     'stroke="#333"/>'
                     f'<text x="{x0 + width / 2}" y="{top + height + 40}" '
                     'text-anchor="middle">workers</text>')
    parts.append('</svg>')
    pathlib.Path(path).write_text('\n'.join(parts) + '\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--sizes', default='10,30,100,300,1000')
    parser.add_argument('--data', required=True)
    parser.add_argument('--plot')
    options = parser.parse_args()
    data = pathlib.Path(options.data)
    rows = [json.loads(line) for line in data.read_text().splitlines()] if data.exists() else []
    for workers in map(int, options.sizes.split(',')):
        if any(row['workers'] == workers for row in rows):
            continue
        rows.append(measure(workers))
        print(json.dumps(rows[-1]), flush=True)
        with open(data, 'a', encoding='utf-8') as file:
            file.write(json.dumps(rows[-1]) + '\n')
    rows.sort(key=lambda row: row['workers'])
    print(table(rows))
    if options.plot:
        plot(rows, options.plot)


if __name__ == '__main__':
    main()
