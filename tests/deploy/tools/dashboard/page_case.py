"""What the tests of the dashboard's page have in common."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TRIBUTARY = os.path.abspath(sys.argv[1])
SCREENSHOTS = sys.argv[2] if len(sys.argv) > 2 else None
VIEWS = ('curves', 'compare', 'time', 'resources', 'cluster', 'exchange', 'job',
         'log')
READY = 'document.body && document.body.dataset.ready === "%s"'
# A micro-batch for each of two workers: with more, a busy machine may lead to an
# uneven assignment, with which a worker sends several sums of gradients a step.
JOB = '''
model { mlp { hidden: 256 hidden: 256 } }
data { random { samples: 4096 shape: 128 classes: 10 } }
batch { global: 256 micro_batches: 2 }
optimizer { sgd { learning_rate: 0.02 momentum: 0.9 } }
steps: 1000000000
evaluation { every_steps: 100 }
checkpoint { every_steps: 500 }
output { log_every_steps: 5 tensorboard: false }
'''


def read_lines(run):
    with open(os.path.join(run, 'metrics.jsonl'), encoding='utf-8') as file:
        return [json.loads(line) for line in file if line.endswith('\n')]


def is_training(line):
    return 'loss' in line


class PageCase(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get('TEST_TMPDIR'))
        self.processes = []

    def tearDown(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
            process.stdout.close()

    def start(self, *arguments):
        process = subprocess.Popen([TRIBUTARY, *arguments], text=True,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def dashboard(self, *runs):
        process = self.start('dashboard', *runs, '--listen', '127.0.0.1:0')
        url = process.stdout.readline().strip()
        self.assertRegex(url, r'^http://127\.0\.0\.1:\d+$')
        return url

    def show(self, browser, url, view, **how):
        browser.open(f'{url}/#view={view}', **how)
        browser.wait_for(READY % view)

    def values(self, browser, table):
        """The exact values of a table's cells, row by row."""
        return json.loads(browser.evaluate(
            'JSON.stringify([...document.querySelectorAll('
            f'"#{table} tbody tr")].map((row) => [...row.cells].map((cell) => '
            'cell.dataset.value === undefined ? cell.textContent : '
            'Number(cell.dataset.value))))'))

    def check_quiet(self, browser, url):
        self.assertEqual(browser.errors(), [])
        for address in browser.requested():
            self.assertTrue(address.startswith((url + '/', 'about:')), address)

    def picture(self, browser, name, whole=False):
        if SCREENSHOTS:
            time.sleep(0.3)
            browser.screenshot(os.path.join(SCREENSHOTS, name), whole)

    def kill(self, train, pattern):
        """Ends a process of the job with SIGKILL."""
        pid = subprocess.run(['pgrep', '-P', str(train.pid), '-f', pattern],
                             check=True, capture_output=True).stdout
        os.kill(int(pid.split()[0]), signal.SIGKILL)

    def train(self, name=''):
        """Starts an endless job with two workers. Returns its process, its folder
        and the address of server 0."""
        job = os.path.join(self.folder, 'job.textproto')
        with open(job, 'w', encoding='utf-8') as file:
            file.write((f'name: "{name}"' if name else '') + JOB)
        run = os.path.join(self.folder, 'run')
        train = self.start('train', job, '--output', run, '--workers', '2')
        while not os.path.exists(os.path.join(run, 'server.json')):
            self.assertIsNone(train.poll())
            time.sleep(0.05)
        with open(os.path.join(run, 'server.json'), encoding='utf-8') as file:
            return train, run, json.load(file)['address']

    def stop(self, train):
        train.send_signal(signal.SIGTERM)
        self.assertEqual(train.wait(timeout=60), 75)

    def status(self, address):
        return json.loads(subprocess.run(
            [TRIBUTARY, 'status', address, '--json'], check=True,
            capture_output=True).stdout)
