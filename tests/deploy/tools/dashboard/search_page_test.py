"""Opens the dashboard of searches in a headless Chromium and compares what it
shows with their journals.

    search_page_test.py TRIBUTARY [SCREENSHOTS]

With the folder SCREENSHOTS, also writes pictures for the manual.
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

from chromium import Chromium
from page_case import PageCase, READY, SCREENSHOTS, TRIBUTARY

HOSTILE = '<img src=x onerror=document.title=1>'
JOB = '''
model { mlp { hidden: 16 } }
data { random { samples: 256 shape: 8 classes: 3 } }
batch { global: 32 }
optimizer { sgd { learning_rate: 0.1 } }
steps: %d
output { tensorboard: false }
'''
SEARCH = '''
name: "%s"
job: "job.textproto"
parameter { path: "optimizer.sgd.learning_rate"
            number { low: 1e-3 high: 1 log: true } }
parameter { path: "optimizer.sgd.momentum"
            choice { value: "0" value: "0.9" value: "2" } }
parameter { path: "batch.global" integer { low: 16 high: 64 step: 16 }
            when { path: "optimizer.sgd.momentum" value: "0.9" } }
%s
budget { trials: %d }
'''
HALVING = '''objective { metric: "final_loss" goal: MINIMIZE }
scheduler { successive_halving { eta: 3 rungs: 3 } }
'''
SEVERAL = '''objective { metric: "final_loss" goal: MINIMIZE }
objective { metric: "parameters" goal: MINIMIZE }
parameter { path: "model.mlp.hidden" integer { low: 4 high: 64 } }
'''
FINAL = '''objective { metric: "final_loss" goal: MINIMIZE }
final { best: 2 seeds: 3 }
'''
STATES = ['running', 'complete', 'stopped', 'failed', 'queued']


def trials_of(folder):
    """Reads a journal: the state, last step and last value of each trial."""
    trials = []
    with open(os.path.join(folder, 'study.journal'), encoding='utf-8') as file:
        for line in map(json.loads, file):
            if line['op_code'] == 4:
                trials.append({'state': line.get('state', 0), 'steps': None,
                               'value': None, 'failure': ''})
            elif line['op_code'] == 6:
                trials[line['trial_id']]['state'] = line['state']
                if line.get('values'):
                    trials[line['trial_id']]['values'] = line['values']
            elif line['op_code'] == 7:
                trials[line['trial_id']].update(
                    steps=line['step'], value=line['intermediate_value'])
            elif line['op_code'] == 8:
                trials[line['trial_id']].update(line['user_attr'])
    return trials


@unittest.skipUnless(shutil.which('chromium'), 'needs the package chromium')
class SearchPageTest(PageCase):

    def tune(self, name, more, trials=12, steps=90):
        """Starts a search. Returns its process and its folder."""
        for file, text in (('job', JOB % steps), ('search', SEARCH % (
                name, more, trials))):
            with open(os.path.join(self.folder, file + '.textproto'), 'w',
                      encoding='utf-8') as out:
                out.write(text)
        folder = os.path.join(self.folder, f'study{len(self.processes)}')
        process = self.start('tune', os.path.join(self.folder, 'search.textproto'),
                             '--output', folder)
        while not os.path.exists(os.path.join(folder, 'study.journal')):
            self.assertIsNone(process.poll(), 'tune has ended')
        return process, folder

    def rows(self, browser):
        """The rows of the table of trials, by the numbers of trials."""
        return {int(row[0]): row[1:] for row in self.values(browser, 'trials')}

    def check_rows(self, browser, folder):
        trials = trials_of(folder)
        rows = self.rows(browser)
        self.assertEqual(set(rows), set(range(len(trials))))
        for number, trial in enumerate(trials):
            state, steps, value = rows[number][:3]
            self.assertEqual(state, STATES[trial['state']], number)
            self.assertEqual(steps, '–' if trial['steps'] is None else
                             trial['steps'], number)
            self.assertEqual(value, '–' if trial['value'] is None else
                             trial['value'], number)
            self.assertEqual(rows[number][-1], trial['failure'], number)
        return trials

    def test_a_search_while_it_runs_and_afterwards(self):
        count = 27 if SCREENSHOTS else 12
        tune, folder = self.tune('example' if SCREENSHOTS else HOSTILE, HALVING, count)
        url = self.dashboard(folder)
        with Chromium() as browser:
            browser.open(url)
            # The folder of a search was named.
            browser.wait_for(READY % 'search')
            self.assertEqual(tune.wait(timeout=120), 0)
            browser.wait_for('document.querySelectorAll("#trials tbody tr")'
                             f'.length === {count} && !document.getElementById('
                             '"search-summary").innerText.includes("running")', 60)
            trials = self.check_rows(browser, folder)
            self.assertEqual({trial['state'] for trial in trials}, {1, 2, 3})
            failures = [t['failure'] for t in trials if t['state'] == 3]
            self.assertIn('optimizer.sgd.momentum', failures[0])
            self.assertEqual(browser.evaluate('document.title'), 'Tributary')
            self.assertEqual(
                browser.evaluate('document.querySelectorAll("img").length'), 0)
            best = min((n for n, t in enumerate(trials) if t['state'] == 1),
                       key=lambda n: trials[n]['value'])
            self.assertIn(f'best: trial {best}', browser.evaluate(
                'document.getElementById("search-summary").innerText'))
            # The best trial is first.
            self.assertEqual(int(self.values(browser, 'trials')[0][0]), best)
            shares = browser.evaluate(
                '[...document.querySelectorAll("#importance td.number")]'
                '.map((cell) => Number(cell.dataset.value))')
            self.assertEqual(len(shares), 3)
            self.assertAlmostEqual(sum(shares), 1)
            self.assertEqual(shares, sorted(shares, reverse=True))
            self.assertEqual(
                browser.evaluate('[...document.querySelectorAll('
                                 '"#view figure")].map((f) => f.id)'),
                ['chart-history', 'chart-rungs', 'chart-parallel', 'importance'])
            self.check_marks(browser, best)
            self.picture(browser, 'dashboard-search.png', whole=True)
            self.check_a_run(browser, best)
            self.check_widths(browser, url)
            self.check_quiet(browser, url)

    def check_marks(self, browser, best):
        """The mouse finds the best trial at its place on the last axis, the
        lowest one."""
        text = browser.evaluate(
            'new Promise((resolve) => {'
            'const canvas = document.querySelector("#chart-parallel canvas");'
            'const box = canvas.getBoundingClientRect();'
            'canvas.dispatchEvent(new MouseEvent("mousemove", {'
            'clientX: box.right - 49, clientY: box.bottom - 31}));'
            'resolve(document.querySelector("#chart-parallel output")'
            '.innerText); })')
        self.assertIn(f'trial {best}\n', text)
        self.assertIn('final_loss', text)

    def check_a_run(self, browser, best):
        """The number of a trial leads to its run."""
        browser.evaluate('[...document.querySelectorAll("#trials button")]'
                         f'.find((b) => b.textContent === "{best}").click()')
        browser.wait_for(READY % 'curves')
        self.assertEqual(
            browser.evaluate('[...document.querySelectorAll("#legend span")]'
                             '.map((s) => s.innerText)'), [f'{best:05d}'])

    def check_widths(self, browser, url):
        for width in (400, 1280):
            self.show(browser, url, 'search', width=width)
            self.assertLessEqual(browser.evaluate(
                'document.documentElement.scrollWidth'), width)

    def test_several_objectives_and_searches(self):
        tune, folder = self.tune('sizes', SEVERAL, trials=8, steps=30)
        self.assertEqual(tune.wait(timeout=120), 0)
        other, another = self.tune('other', HALVING, trials=3, steps=9)
        self.assertEqual(other.wait(timeout=120), 0)
        # Paths may be longer than a line.
        parent = os.path.join(self.folder, 'long-' * 20)
        os.makedirs(parent)
        shutil.move(folder, parent)
        folder = os.path.join(parent, os.path.basename(folder))
        shutil.move(another, parent)
        url = self.dashboard(parent)
        with Chromium() as browser:
            self.show(browser, url, 'search')
            browser.evaluate(
                'const choice = document.getElementById("study-choice");'
                'choice.value = [...choice.options].find((o) => '
                'o.text.startsWith("sizes")).value;'
                'choice.dispatchEvent(new Event("change"))')
            browser.wait_for('location.hash.includes("study=") && '
                             'document.getElementById("chart-front") !== null')
            values = {n: t['values'] for n, t in enumerate(trials_of(folder))
                      if t['state'] == 1}
            front = [n for n, a in values.items() if not any(
                b[0] <= a[0] and b[1] <= a[1] and b != a
                for b in values.values())]
            self.assertIn(f'{len(front)} on the Pareto front', browser.evaluate(
                'document.getElementById("search-summary").innerText'))
            # They are the first rows.
            numbers = [int(row[0]) for row in self.values(browser, 'trials')]
            self.assertEqual(set(numbers[:len(front)]), set(front))
            self.assertEqual(
                browser.evaluate('[...document.querySelectorAll('
                                 '"#view figure")].map((f) => f.id)'),
                ['chart-history', 'chart-history-1', 'chart-front',
                 'chart-parallel', 'importance', 'importance-1'])
            rows = self.rows(browser)
            for number, pair in values.items():
                self.assertEqual(rows[number][1:3], pair)
            # These trials are no runs of the list: their study was not named.
            self.assertEqual(browser.evaluate(
                'document.querySelectorAll("#trials button").length'), 0)
            self.check_widths(browser, url)
            self.check_quiet(browser, url)

    def test_the_final_evaluation(self):
        tune, folder = self.tune('final', FINAL, trials=6, steps=18)
        self.assertEqual(tune.wait(timeout=120), 0)
        done = subprocess.run([TRIBUTARY, 'tune', 'status', folder, '--json'],
                              check=True, capture_output=True, text=True)
        final = json.loads(done.stdout)['final']
        url = self.dashboard(folder)
        with Chromium() as browser:
            self.show(browser, url, 'search')
            rows = self.values(browser, 'final-trials')
            self.assertEqual(len(rows), len(final))
            for row, trial in zip(rows, final):
                self.assertEqual(int(row[0]), trial['trial'])
                self.assertEqual(row[1:3], [trial['mean'][0], trial['deviation']])
                self.assertEqual(row[3:6], [seed['objectives'][0]
                                            for seed in trial['seeds']])
            self.assertEqual(int(self.values(browser, 'trials')[0][0]),
                             final[0]['trial'])
            self.check_widths(browser, url)
            self.check_quiet(browser, url)

    def test_without_searches_there_is_no_view_of_them(self):
        url = self.dashboard(self.folder)
        with Chromium() as browser:
            self.show(browser, url, 'curves')
            self.assertIsNone(browser.evaluate(
                'document.getElementById("tab-search")'))
            browser.press('9')
            self.assertEqual(browser.evaluate('location.hash'), '#view=curves')
            self.check_quiet(browser, url)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
