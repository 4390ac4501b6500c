"""Stops `tributary train`, `server`, `worker` and `dashboard` at random moments.

    stop_loop.py PROGRAM FOLDER [--runs N] [--seed S] [--stall SECONDS]

In each run, one of the four commands receives SIGTERM or SIGINT: while it
starts, in its first steps, during checkpoints or at the end of its job; with
other processes of the job suspended, killed or failing, and under limits on
memory. A run fails if the command has not ended within five seconds, if it
crashes, or if it leaves a process or a file behind. `--stall` adds the time for
which a busy machine may stop a process. The seed and the number of a run
determine all choices. Exits with 1 if a run has failed.
"""

import argparse
import collections
import glob
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

MOST_SECONDS = 5.0
# How long after the command the kernel may take to end its children, whose
# SIGKILL it has sent.
MOST_SECONDS_OF_CHILDREN = 1.0
# How long the loop waits for what a run prepares, such as the first step.
PATIENCE = 30.0
# The environment variable that marks all processes of a run.
MARK = 'STOP_LOOP_RUN'

JOB = '''
name: "stopped"
model {{ mlp {{ hidden: 16 }} }}
data {{ random {{ samples: 256 shape: 8 classes: 4 }} }}
batch {{ global: 16 micro_batches: 4 }}
optimizer {{ sgd {{ learning_rate: 0.1 }} }}
steps: {steps}
checkpoint {{ every_steps: {every} }}
output {{ log_every_steps: 10 }}
'''
# Steps of a job that is stopped at its end, and the lines of metrics.jsonl that
# it has written shortly before.
FEW_STEPS = 300
LINES_NEAR_END = FEW_STEPS // 10 - 3

# Exit codes after a signal: done before it arrived, failed, wrong usage (a
# command that is no worker), stopped, and Ctrl-C.
EXPECTED_CODES = {0, 1, 2, 75, 130}
# A signal before the program has installed its handlers ends it directly.
EARLY_SIGNALS = {-signal.SIGTERM, -signal.SIGINT}


def wait_until(condition, patience=PATIENCE):
  """Returns whether the condition has become true in time."""
  deadline = time.monotonic() + patience
  while time.monotonic() < deadline:
    if condition():
      return True
    time.sleep(0.005)
  return False


def marked_processes(mark):
  """Returns the ids of the running processes of the run with this mark."""
  wanted = f'{MARK}={mark}'.encode()
  pids = []
  for path in glob.glob('/proc/[0-9]*/environ'):
    try:
      with open(path, 'rb') as file:
        if wanted in file.read().split(b'\0'):
          pids.append(int(path.split('/')[2]))
    except OSError:
      pass  # It has ended.
  return pids


def children_of(pid):
  try:
    with open(f'/proc/{pid}/task/{pid}/children') as file:
      return [int(child) for child in file.read().split()]
  except OSError:
    return []


def count_lines(path):
  try:
    with open(path, 'rb') as file:
      return file.read().count(b'\n')
  except OSError:
    return 0


class Run:
  """One run: the processes, the folder, and what was found."""

  def __init__(self, program, folder, seed, number, stall):
    self.stall = stall
    self.random = random.Random(f'{seed}-{number}')
    self.program = os.path.abspath(program)
    self.folder = os.path.join(folder, f'run-{number}')
    self.mark = f'{os.getpid()}-{seed}-{number}'
    self.output = os.path.join(self.folder, 'out')
    self.temporary = os.path.join(self.folder, 'tmp')
    os.makedirs(self.temporary)
    self.processes = []
    self.choices = []
    self.failures = []
    self.seconds = 0.0

  def choose(self, *values):
    choice = self.random.choice(values)
    self.choices.append(str(choice))
    return choice

  def start(self, arguments, memory=None):
    def limit():
      if memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    environment = {
        'PATH': os.environ.get('PATH', '/usr/bin:/bin'),
        'TMPDIR': self.temporary,
        MARK: self.mark,
    }
    log = open(
        os.path.join(self.folder, f'log-{len(self.processes)}'), 'wb')
    process = subprocess.Popen([self.program] + arguments,
                               cwd=self.folder,
                               env=environment,
                               stdin=subprocess.DEVNULL,
                               stdout=log,
                               stderr=log,
                               preexec_fn=limit,
                               start_new_session=True)
    log.close()
    self.processes.append(process)
    return process

  def write_job(self, steps, every):
    path = os.path.join(self.folder, 'job.textproto')
    with open(path, 'w') as file:
      file.write(JOB.format(steps=steps, every=every))
    return path

  def address(self):
    try:
      with open(os.path.join(self.output, 'server.json')) as file:
        return json.load(file)['address']
    except (OSError, ValueError, KeyError):
      return None

  def await_moment(self, moment, process):
    """Waits for the moment, or until the process has ended."""
    ended = lambda: process.poll() is not None
    metrics = os.path.join(self.output, 'metrics.jsonl')
    checkpoints = os.path.join(self.output, 'checkpoints')
    if moment == 'first step':
      wait_until(lambda: ended() or count_lines(metrics) > 0)
    elif moment == 'checkpoint':
      wait_until(lambda: ended() or bool(glob.glob(checkpoints + '/*')))
    elif moment == 'end':
      wait_until(lambda: ended() or count_lines(metrics) >= LINES_NEAR_END)
    longest = {'start': 0.5, 'end': 0.05}.get(moment, 0.2)
    time.sleep(self.random.uniform(0, longest))

  def disturb(self, how, others):
    """Suspends or kills some of the processes `others`."""
    if how not in ('suspend', 'suspend all', 'kill') or not others:
      return
    victim = self.random.choice(others)
    number = {'suspend': signal.SIGSTOP, 'kill': signal.SIGKILL}.get(how)
    targets = others if how == 'suspend all' else [victim]
    try:
      for pid in targets:
        os.kill(pid, number or signal.SIGSTOP)
    except ProcessLookupError:
      pass  # It has ended.
    time.sleep(self.random.uniform(0, 0.1))

  def stop(self, process):
    """Sends the signal, and checks how the process ends."""
    number = self.choose(signal.SIGTERM, signal.SIGINT)
    begin = time.monotonic()
    process.send_signal(number)
    try:
      code = process.wait(timeout=20 + self.stall)
      self.seconds = time.monotonic() - begin
    except subprocess.TimeoutExpired:
      self.seconds = time.monotonic() - begin
      self.failures.append(f'runs after {self.seconds:.0f} s')
      return
    if self.seconds > MOST_SECONDS + self.stall:
      self.failures.append(f'ended after {self.seconds:.1f} s')
    if code not in EXPECTED_CODES | EARLY_SIGNALS:
      self.failures.append(f'ended with {code}')

  def check_rest(self, names):
    for path in glob.glob(self.output + '/**', recursive=True):
      name = os.path.basename(path)
      if '.tmp-' in name or name in names:
        self.failures.append(f'left {path}')
    for name in os.listdir(self.temporary):
      self.failures.append(f'left {name} in TMPDIR')

  def clean(self):
    for pid in marked_processes(self.mark):
      try:
        os.kill(pid, signal.SIGKILL)
      except ProcessLookupError:
        pass
    for process in self.processes:
      process.wait()

  # ---- The four commands.

  def train(self):
    disturbance = self.choose('none', 'none', 'suspend', 'suspend all', 'kill',
                              'crashes', 'memory')
    moment = self.choose('start', 'first step', 'checkpoint', 'end')
    job = self.write_job(FEW_STEPS if moment == 'end' else 10**9,
                         self.choose(1, 50, 10**6))
    arguments = [
        'train', job, '--output', self.output, '--workers', '2', '--servers',
        str(self.choose(1, 2))
    ]
    if disturbance == 'crashes':
      arguments += [
          '--worker-command',
          f"sh -c 'sleep 0.0{self.random.randrange(10)}; kill -SEGV $$'"
      ]
      moment = 'start'
    memory = None
    if disturbance == 'memory':
      memory = self.choose(200, 250, 300, 350, 400, 500, 600) << 20
      moment = 'start'
    process = self.start(arguments, memory)
    self.await_moment(moment, process)
    self.disturb(disturbance, children_of(process.pid))
    self.stop(process)
    if not wait_until(lambda: not marked_processes(self.mark),
                      MOST_SECONDS_OF_CHILDREN + self.stall):
      self.failures.append('left processes')
    self.check_rest(['token', 'server.json'])

  def start_cluster(self, moment):
    job = self.write_job(FEW_STEPS if moment == 'end' else 10**9,
                         self.choose(1, 50, 10**6))
    server = self.start([
        'server', job, '--listen', '127.0.0.1:0', '--output', self.output,
        '--workers', '2'
    ])
    if not wait_until(lambda: self.address() or server.poll() is not None):
      self.failures.append('the server did not start')
    workers = []
    for _ in range(2):
      workers.append(
          self.start(['worker', '--coordinator', self.address() or '127.0.0.1:9'
                     ]))
    return server, workers

  def server(self):
    moment = self.choose('start', 'first step', 'checkpoint', 'end')
    disturbance = self.choose('none', 'suspend', 'suspend all', 'kill')
    server, workers = self.start_cluster(moment)
    self.await_moment(moment, server)
    self.disturb(disturbance, [worker.pid for worker in workers])
    self.stop(server)
    self.check_rest(['server.json'])

  def worker(self):
    moment = self.choose('start', 'first step', 'checkpoint', 'end')
    disturbance = self.choose('none', 'suspend', 'kill')
    server, workers = self.start_cluster(moment)
    self.await_moment(moment, server)
    self.disturb(disturbance, [server.pid, workers[1].pid])
    self.stop(workers[0])

  def dashboard(self):
    moment = self.choose('start', 'first step')
    server, _ = self.start_cluster('first step')
    self.await_moment('first step', server)
    if self.choose('none', 'suspend') == 'suspend':
      self.disturb('suspend', [server.pid])
    process = self.start([
        'dashboard', self.output, '--listen', '127.0.0.1:0', '--coordinator',
        self.address() or '127.0.0.1:9'
    ])
    log = os.path.join(self.folder, f'log-{len(self.processes) - 1}')
    clients = []
    if moment == 'start':
      time.sleep(self.random.uniform(0, 0.2))
    elif wait_until(lambda: count_lines(log) > 0):
      with open(log) as file:
        port = int(file.read().strip().rsplit(':', 1)[1])
      for request in (b'', b'GET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\n',
                      b'GET / HTTP'):
        clients.append(socket.create_connection(('127.0.0.1', port)))
        clients[-1].sendall(request)
      time.sleep(self.random.uniform(0, 0.3))
    self.stop(process)
    for client in clients:
      client.close()


def main():
  parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
  parser.add_argument('program')
  parser.add_argument('folder')
  parser.add_argument('--runs', type=int, default=200)
  parser.add_argument('--seed', type=int, default=1)
  parser.add_argument('--first', type=int, default=0)
  parser.add_argument('--stall', type=float, default=0)
  options = parser.parse_args()
  commands = ['train', 'server', 'train', 'worker', 'train', 'dashboard']
  times = collections.defaultdict(list)
  failed = 0
  for number in range(options.first, options.first + options.runs):
    run = Run(options.program, options.folder, options.seed, number,
              options.stall)
    command = commands[number % len(commands)]
    try:
      getattr(run, command)()
    finally:
      run.clean()
    times[command].append(run.seconds)
    if run.failures:
      failed += 1
    else:
      shutil.rmtree(run.folder)
    print(f'{number} {command} ({", ".join(run.choices)}): '
          f'{run.seconds:.2f} s {"; ".join(run.failures)}', flush=True)
  for command, seconds in sorted(times.items()):
    print(f'{command}: {len(seconds)} runs, longest {max(seconds):.2f} s, '
          f'mean {sum(seconds) / len(seconds):.2f} s')
  print(f'{options.runs - failed} passed, {failed} failed')
  return 1 if failed else 0


if __name__ == '__main__':
  sys.exit(main())
