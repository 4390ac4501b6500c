"""Opens the dashboard of many runs in a headless Chromium: the list of runs,
their comparison, their logs and resources, and the files that the page saves.

    runs_page_test.py TRIBUTARY [SCREENSHOTS]

With the folder SCREENSHOTS, also writes pictures for the manual.
"""
import csv
import json
import os
import re
import shutil
import sys
import time
import unittest

from chromium import Chromium
from make_run import make_run
from page_case import PageCase, READY, SCREENSHOTS, read_lines

RUNS = 500
HOSTILE = '<img src=x onerror=document.title=1>'
SHOWN = '[...document.querySelectorAll("#legend span")].map((s) => s.innerText)'


def click(selector):
    return f'document.querySelector({json.dumps(selector)}).click()'


@unittest.skipUnless(shutil.which('chromium'), 'needs the package chromium')
class RunsPageTest(PageCase):

    def make_sweep(self, runs, count):
        """Runs whose learning rates differ, and whose names begin with s."""
        for i in range(count):
            make_run(os.path.join(runs, f's{i:03d}'), 400, 2, 4, 'sweep',
                     rate=0.001 * (i + 1))

    def saved(self, folder, name):
        """Waits for a file that the browser saves."""
        path = os.path.join(folder, name)
        deadline = time.monotonic() + 30
        while not os.path.exists(path) or not os.path.getsize(path):
            self.assertLess(time.monotonic(), deadline, os.listdir(folder))
            time.sleep(0.05)
        return path

    def test_a_running_job_among_many_runs(self):
        runs = os.path.join(self.folder, 'runs')
        for i in range(RUNS - 1):
            name = HOSTILE if i == 7 else f'old{i:03d}'
            make_run(os.path.join(runs, name), 10, 1, 1, name)
        _, run, _ = self.train()
        url = self.dashboard(runs, run)
        with Chromium() as browser:
            # A dashboard that stood still for a few seconds takes the job for
            # gone at first, and shows others, too.
            for _ in range(3):
                before = len(browser.requested())
                browser.open(url)
                first = browser.wait_for(
                    'document.querySelector("#runs tbody tr.live") && '
                    'document.querySelector("#runs tbody tr").innerText')
                # About 0.5 s on an idle machine.
                seconds = browser.evaluate('performance.now()') / 1000
                print(f'{RUNS} runs: the running job is shown after '
                      f'{seconds:.2f} s')
                browser.wait_for(READY % 'curves')
                shown = browser.evaluate(SHOWN)
                if shown == ['run']:
                    break
            self.assertIn('run', first)
            self.assertEqual(shown, ['run'])
            # However many runs there are, the page reads only those it shows.
            key = browser.evaluate(
                'document.querySelector("#runs tbody tr.live").dataset.run')
            read = re.findall(r'[?&]run=([^&\s]*)',
                              '\n'.join(browser.requested()[before:]))
            self.assertEqual(set(read), {key})
            self.assertEqual(browser.evaluate(
                'document.querySelectorAll("#runs tbody tr").length'), RUNS)
            self.assertEqual(browser.evaluate('document.title'), 'Tributary')
            self.assertEqual(
                browser.evaluate('document.querySelectorAll("img").length'), 0)
            self.check_quiet(browser, url)

    def test_addresses_name_the_same_runs_after_others_begin(self):
        runs = os.path.join(self.folder, 'runs')
        self.make_sweep(runs, 3)
        url = self.dashboard(runs)
        with Chromium() as browser:
            self.show(browser, url, 'curves')
            browser.evaluate('[...document.querySelectorAll("#runs td button")]'
                             '.find((b) => b.textContent === "s001").click()')
            browser.wait_for('location.hash.includes("runs=s001-")')
            fragment = browser.evaluate('location.hash')
            for name in ('a-before', 's000-between', 'z-after'):
                make_run(os.path.join(runs, name), 10, 1, 1)
            other = self.dashboard(runs)
            for address in (url, other):
                browser.open(address + '/' + fragment)
                browser.wait_for(READY % 'curves')
                self.assertEqual(browser.evaluate(SHOWN), ['s001'])

    def test_searches_sorts_and_compares(self):
        runs = os.path.join(self.folder, 'runs')
        self.make_sweep(runs, 12)
        url = self.dashboard(runs)
        with Chromium() as browser:
            self.show(browser, url, 'curves')
            browser.wait_for('document.getElementById('
                             '"sort-optimizer.sgd.learning_rate") !== null')
            def names():
                return [row[1] for row in self.values(browser, 'runs')]
            browser.evaluate(click('[id="sort-optimizer.sgd.learning_rate"]'))
            # As numbers: 0.002 comes before 0.012.
            self.assertEqual(names(), [f's{i:03d}' for i in range(12)])
            browser.evaluate(click('[id="sort-optimizer.sgd.learning_rate"]'))
            self.assertEqual(names(), [f's{i:03d}' for i in range(11, -1, -1)])
            browser.evaluate(
                'const search = document.getElementById("search");'
                'search.value = "LEARNING_RATE=0.01";'
                'search.dispatchEvent(new Event("input"))')
            self.assertEqual(names(), ['s011', 's010', 's009'])
            browser.evaluate(click('#show-found'))
            browser.press('2')
            browser.wait_for(READY % 'compare')
            browser.wait_for('document.querySelectorAll("#comparison thead th")'
                             '.length === 4')
            table = {row[0]: row[1:] for row in
                     self.values(browser, 'comparison')}
            self.assertEqual(table['optimizer.sgd.learning_rate'],
                             ['0.012', '0.011', '0.01'])
            self.assertEqual(
                table['training loss'],
                [[line['loss'] for line in read_lines(os.path.join(runs, name))
                  if 'loss' in line][-1] for name in ('s011', 's010', 's009')])
            # The other fields of the job files do not differ.
            self.assertEqual([*table][-1], 'optimizer.sgd.learning_rate')
            self.picture(browser, 'dashboard-compare.png')
            # More runs than colors: the patterns of the lines differ.
            browser.evaluate(
                'document.getElementById("search").value = "";'
                'document.getElementById("search")'
                '.dispatchEvent(new Event("input"));' + click('#show-found'))
            browser.press('1')
            browser.wait_for('document.querySelectorAll("#legend canvas")'
                             '.length === 12')
            samples = browser.evaluate(
                '[...document.querySelectorAll("#legend canvas")]'
                '.map((canvas) => canvas.toDataURL())')
            self.assertEqual(len(set(samples)), 12)
            browser.evaluate(click('#chart-gradient_norm .small'))
            browser.wait_for('location.hash.includes("log=gradient_norm")')
            self.assertEqual(browser.evaluate(
                'document.querySelectorAll(".small[aria-pressed=true]").length'),
                             1)
            if SCREENSHOTS:
                self.take_curves(browser, url)
            self.check_quiet(browser, url)

    def take_curves(self, browser, url):
        """Takes a picture of charts with the crosshair."""
        key = browser.evaluate('location.hash.match(/runs=([^&]*)/)[1]')
        browser.open(f'{url}/#view=curves&log=loss,gradient_norm&runs={key}',
                     height=960)
        browser.wait_for(READY % 'curves')
        browser.evaluate(
            'const chart = document.querySelector(".chart");'
            'const box = chart.getBoundingClientRect();'
            'chart.dispatchEvent(new MouseEvent("mousemove", '
            '{clientX: box.left + 180, clientY: box.top + 90}))')
        self.picture(browser, 'dashboard-curves.png')

    def figures(self, browser):
        """The charts that are visible: their numbers and titles."""
        return browser.evaluate(
            'Object.fromEntries([...document.querySelectorAll('
            '"figure:not([hidden])")].map((f) => '
            '[f.id, f.querySelector("strong").textContent]))')

    def test_curves_of_metrics_that_programs_have_named(self):
        runs = os.path.join(self.folder, 'runs')
        long_name = 'mean_average_precision_at_intersection_over_union_of_' + 11 * 'x'
        make_run(os.path.join(runs, 'a'), 400, 2, 4,
                 metrics=('f1', long_name, 'constructor', '__proto__'))
        make_run(os.path.join(runs, 'b'), 400, 2, 4, metrics=('f1', 'recall'))
        make_run(os.path.join(runs, 'c'), 400, 2, 4)
        make_run(os.path.join(runs, 'd'), 400, 2, 4,
                 metrics=[f'metric_{i}' for i in range(60)])
        url = self.dashboard(runs)
        with Chromium() as browser:
            self.show(browser, url, 'curves')
            keys = browser.evaluate(
                'Object.fromEntries([...document.querySelectorAll('
                '"#runs tbody tr")].map((r) => [r.cells[1].textContent, '
                'r.dataset.run]))')
            fixed = None
            # Also runs without such metrics, and without any of a run before.
            for shown, named in (
                    ('c', []), ('ab', ['f1', 'recall', long_name, 'constructor',
                                       '__proto__']),
                    ('bc', ['f1', 'recall']), ('c', []),
                    ('d', [f'metric_{i}' for i in range(60)])):
                chosen = ','.join(keys[name] for name in shown)
                browser.open(f'{url}/#view=curves&runs={chosen}')
                browser.wait_for(READY % 'curves')
                figures = self.figures(browser)
                fixed = fixed or set(figures)
                self.assertEqual(set(figures), fixed | {
                    f'chart-evaluation_{name}' for name in named}, shown)
                for name in named:
                    self.assertEqual(figures[f'chart-evaluation_{name}'],
                                     f'Evaluation {name}')
                for width in (400, 1280):
                    browser.open(f'{url}/#view=curves&runs={chosen}', width=width)
                    browser.wait_for(READY % 'curves')
                    self.assertLessEqual(browser.evaluate(
                        'Math.max(document.documentElement.scrollWidth, '
                        '...[...document.querySelectorAll("figure")].map((f) => '
                        'f.getBoundingClientRect().left + f.scrollWidth))'),
                        width, shown)
            browser.open(f'{url}/#view=curves&runs={keys["a"]},{keys["b"]}')
            browser.wait_for(READY % 'curves')
            browser.evaluate(
                'document.querySelector("#chart-evaluation_f1 .chart").focus()')
            browser.press('ArrowRight')
            shown = browser.evaluate(
                '[...document.querySelectorAll("#chart-evaluation_f1 output '
                'div")].map((row) => row.textContent)')
            lines = [line for line in read_lines(os.path.join(runs, 'a'))
                     if 'evaluation_f1' in line]
            self.assertEqual(len(shown), 3, shown)
            step = int(shown[0].split()[1])
            value = [line['evaluation_f1'] for line in lines
                     if line['step'] == step][0]
            for row in shown[1:]:
                self.assertAlmostEqual(float(row[1:]), value, 3)
            self.show(browser, url, 'compare')
            table = {row[0]: row[1:] for row in
                     self.values(browser, 'comparison')}
            column = browser.evaluate(
                '[...document.querySelectorAll("#comparison thead th")]'
                '.map((cell) => cell.textContent)').index('a') - 1
            self.assertEqual(table['evaluation f1'][column],
                             lines[-1]['evaluation_f1'])
            self.assertEqual(table['evaluation recall'][column], '–')
            self.check_quiet(browser, url)

    def test_logs_and_resources_of_all_processes(self):
        run = os.path.join(self.folder, 'run')
        make_run(run, 400, 2, 4)
        url = self.dashboard(run)
        with Chromium() as browser:
            self.show(browser, url, 'log')
            rows = self.values(browser, 'log')
            # Newest first.
            self.assertEqual([row[1] for row in rows],
                             ['output', 'warning', 'info'])
            self.assertEqual(rows[0][3], 'Traceback (most recent call last):\n'
                             '  <script>x</script>')
            self.assertEqual(rows[1][2:], ['server 0', 'first\nsecond'])
            browser.evaluate(
                'const choice = document.getElementById("process");'
                'choice.value = "all"; choice.dispatchEvent(new Event("change"))')
            browser.wait_for('document.querySelectorAll("#log tbody tr")'
                             '.length === 9')
            self.assertEqual({row[2] for row in self.values(browser, 'log')},
                             {'server-0', 'worker-0', 'worker-1'})
            self.show(browser, url, 'resources')
            self.assertEqual(browser.evaluate(SHOWN),
                             ['server 0', 'worker 0', 'worker 1'])
            self.assertEqual(
                browser.evaluate('[...document.querySelectorAll('
                                 '"figure:not([hidden])")].map((f) => f.id)'),
                ['chart-cpus', 'chart-memory', 'chart-sent', 'chart-received',
                 'chart-gpu', 'chart-gpu_memory'])
            browser.evaluate('document.querySelector(".chart").focus()')
            browser.press('ArrowRight')
            self.picture(browser, 'dashboard-resources.png', whole=True)
            self.assertIn('worker 1', browser.evaluate(
                'document.querySelector("#chart-gpu output").innerText'))
            self.check_quiet(browser, url)

    def test_saves_charts_and_metrics(self):
        run = os.path.join(self.folder, 'run')
        make_run(run, 400, 2, 4)
        url = self.dashboard(run)
        folder = os.path.join(self.folder, 'saved')
        os.makedirs(folder)
        lines = read_lines(run)
        losses = [line['loss'] for line in lines if 'loss' in line]
        with Chromium() as browser:
            browser.call('Page.setDownloadBehavior', behavior='allow',
                         downloadPath=folder)
            self.show(browser, url, 'curves')
            buttons = '#chart-loss .tools button:nth-child'
            browser.evaluate(click(buttons + '(2)'))
            with open(self.saved(folder, 'loss.csv'), encoding='utf-8',
                      newline='') as file:
                rows = list(csv.reader(file))
            self.assertEqual(rows[0][:3], ['line', 'step', 'Training loss'])
            saved = [float(row[2]) for row in rows if row[0] == 'run']
            self.assertEqual(saved, losses)
            browser.evaluate(click(buttons + '(3)'))
            with open(self.saved(folder, 'loss.png'), 'rb') as file:
                self.assertEqual(file.read(8), b'\x89PNG\r\n\x1a\n')
            browser.evaluate(click('#metrics-csv a'))
            key = browser.evaluate('document.querySelector("#runs tbody tr")'
                                   '.dataset.run')
            with open(self.saved(folder, key + '.csv'), encoding='utf-8',
                      newline='') as file:
                rows = list(csv.DictReader(file))
            self.assertEqual(len(rows), len(lines))
            self.assertEqual([float(row['loss']) for row in rows if row['loss']],
                             [float(f'{loss:.9g}') for loss in losses])
            self.check_quiet(browser, url)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
