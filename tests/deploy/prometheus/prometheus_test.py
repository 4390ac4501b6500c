"""Scrapes a job with Debian's Prometheus, and kills a worker.

  prometheus_test.py TRIBUTARY DEPLOY_FOLDER RULES_TEST

DEPLOY_FOLDER is deploy/prometheus. Needs the package prometheus; without it, the
test passes with a remark.
"""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

TRIBUTARY, DEPLOY, RULES_TEST = (os.path.abspath(path) for path in sys.argv[1:4])

JOB = """
model { mlp { hidden: 64 } }
data { random { samples: 4096 shape: 32 classes: 4 } }
batch { global: 64 micro_batches: 8 }
optimizer { sgd { learning_rate: 0.01 } }
steps: 1000000
checkpoint { every_steps: 1000000 }
output { tensorboard: false }
"""


def free_ports(count):
    """Returns the first of `count` consecutive free ports. The system gives none
    of them to a program that connects or listens on port 0 in the meantime."""
    with open('/proc/sys/net/ipv4/ip_local_port_range', encoding='utf-8') as file:
        lowest, highest = map(int, file.read().split())
    ports = [*range(1024, lowest - count), *range(highest + 1, 65536 - count)]
    while True:
        first = random.choice(ports)
        try:
            with contextlib.ExitStack() as held:
                for port in range(first, first + count):
                    held.enter_context(socket.create_server(('127.0.0.1', port)))
            return first
        except OSError:
            continue


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


@unittest.skipUnless(shutil.which('prometheus'), 'needs the package prometheus')
class PrometheusTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get('TEST_TMPDIR'))
        self.processes = []

    def tearDown(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)

    def start(self, *arguments):
        log = open(os.path.join(self.folder, f'log{len(self.processes)}'), 'wb')
        process = subprocess.Popen(arguments, stdout=log, stderr=log)
        log.close()
        self.processes.append(process)
        return process

    def wait_for(self, what, condition):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for process in self.processes:
                self.assertIsNone(process.poll(), 'a process has ended early')
            try:
                value = condition()
                if value:
                    return value
            except OSError:
                pass
            time.sleep(0.2)  # There is nothing to wait on in another process.
        self.fail(f'no {what} within 60 s')

    def test_the_files_are_valid(self):
        rules = os.path.join(DEPLOY, 'rules.yml')
        subprocess.run(['promtool', 'check', 'rules', rules], check=True)
        with open(RULES_TEST, encoding='utf-8') as file:
            tests = file.read().replace('@RULES@', rules)
        path = os.path.join(self.folder, 'rules_test.yml')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(tests)
        subprocess.run(['promtool', 'test', 'rules', path], check=True)

    def test_a_lost_worker_fires_an_alert(self):
        first = free_ports(4)
        job = os.path.join(self.folder, 'job.textproto')
        run = os.path.join(self.folder, 'run')
        with open(job, 'w', encoding='utf-8') as file:
            file.write(JOB)
        self.start(TRIBUTARY, 'train', job, '--output', run, '--workers', '2',
                   '--metrics-listen', f'127.0.0.1:{first}')
        pages = [f'http://127.0.0.1:{first + i}/metrics' for i in range(3)]
        self.wait_for('trained step', lambda: re.search(
            r'^tributary_step [1-9]', fetch(pages[0]), re.M))
        self.wait_for('metrics of worker 1', lambda: re.search(
            r'^tributary_worker_micro_batches_total [1-9]', fetch(pages[2]), re.M))
        for page in pages:
            check = subprocess.run(['promtool', 'check', 'metrics'],
                                   input=fetch(page).encode(), capture_output=True,
                                   check=False)
            self.assertEqual((check.returncode, check.stdout + check.stderr), (0, b''))

        # The rules' metrics exist.
        known = set(re.findall(r'^(tributary_\w+?)(?:_bucket|_sum|_count)?(?:\{| )',
                               ''.join(map(fetch, pages)), re.M))
        known |= {f'tributary_step_seconds_{part}' for part in ('sum', 'count')}
        with open(os.path.join(DEPLOY, 'rules.yml'), encoding='utf-8') as file:
            used = set(re.findall(r'\btributary_\w+', file.read()))
        self.assertLessEqual(used, known)

        # So do those of the dashboard, except those of GPUs and of events that
        # have not happened.
        with open(os.path.join(DEPLOY, 'grafana.json'), encoding='utf-8') as file:
            panels = json.load(file)['panels']
        expressions = [target['expr'].replace('$run', '.*')
                       for panel in panels for target in panel['targets']]
        self.assertGreater(len(expressions), 15)
        used = set(re.findall(r'\btributary_\w+', ' '.join(expressions)))
        used = {re.sub('_bucket$', '', name) for name in used}
        self.assertLessEqual(used - {'tributary_gpu_utilization_ratio',
                                     'tributary_evaluation_loss'}, known)

        for name in ('prometheus.yml', 'rules.yml'):
            with open(os.path.join(DEPLOY, name), encoding='utf-8') as file:
                text = file.read().replace('interval: 5s', 'interval: 1s')
            with open(os.path.join(run, name), 'w', encoding='utf-8') as file:
                file.write(text)
        port = free_ports(1)
        self.start('prometheus', f'--config.file={run}/prometheus.yml',
                   f'--storage.tsdb.path={self.folder}/data',
                   f'--web.listen-address=127.0.0.1:{port}')
        api = f'http://127.0.0.1:{port}/api/v1/'

        def value_of(expression):
            query = urllib.parse.urlencode({'query': expression})
            result = json.loads(fetch(f'{api}query?{query}'))['data']['result']
            return {one['metric'].get('number', ''): float(one['value'][1])
                    for one in result}

        self.wait_for('scrape of all processes',
                      lambda: value_of('sum(up)').get('') == 3)
        self.assertEqual(value_of('tributary_workers'), {'0': 2})
        # Named after the process that is silent, not after server 0.
        self.assertEqual(
            set(value_of('tributary_process_silent_seconds{role="worker"}')),
            {'0', '1'})
        for expression in expressions:
            value_of(expression)  # Raises an error if it is not valid.
        # increase() needs a value from before the loss.
        self.wait_for('counter', lambda: value_of('tributary_workers_lost_total'))
        log = fetch(pages[2])
        self.assertIn('rank="1"', log)
        victim = subprocess.run(
            ['pgrep', '-P', str(self.processes[0].pid), '-f', 'worker .*--rank 1'],
            check=True, capture_output=True).stdout.split()
        os.kill(int(victim[0]), signal.SIGKILL)
        self.wait_for('alert', lambda: [
            alert for alert in json.loads(fetch(api + 'alerts'))['data']['alerts']
            if alert['labels']['alertname'] == 'TributaryWorkerLost'
            and alert['state'] == 'firing' and alert['labels']['run'] == run])


unittest.main(argv=sys.argv[:1])
