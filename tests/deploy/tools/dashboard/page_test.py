"""Opens the dashboard in a headless Chromium and compares what it shows with
the files of runs and with `tributary status`.

    page_test.py TRIBUTARY [SCREENSHOTS]

With the folder SCREENSHOTS, also writes pictures for the manual.
"""
import json
import os
import shutil
import sys
import time
import unittest

from chromium import Chromium
from make_run import make_run
from page_case import (PageCase, READY, SCREENSHOTS, VIEWS, is_training,
                       read_lines)


def contrast(first, second):
    """The contrast ratio of two colors "#rrggbb" (WCAG 2.1)."""
    def luminance(color):
        parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055)**2.4
                 for p in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@unittest.skipUnless(shutil.which('chromium'), 'needs the package chromium')
class PageTest(PageCase):

    def check_processes(self, browser, status):
        """Compares the live table with an answer of `status --json` before it
        and one after it."""
        def facts(processes):
            return {f"{p['role']} {p['number']}": p for p in processes}
        for _ in range(50):
            before = facts(status()['processes'])
            # The page asks once a second, and is told the previous answer.
            time.sleep(3)
            rows = {row[0]: row for row in self.values(browser, 'processes')}
            after = facts(status()['processes'])
            if before.keys() == after.keys() == rows.keys():
                break
        self.assertEqual(rows.keys(), after.keys())
        for name, row in rows.items():
            self.assertLessEqual(before[name]['step'], row[1], name)
            self.assertLessEqual(row[1], after[name]['step'], name)
            self.assertEqual(row[5], after[name]['place'] or '–' if
                             name.startswith('server') else '–')

    def check_events(self, browser, url, run):
        """Compares the table of events with events.jsonl."""
        self.show(browser, url, 'log', height=1000)
        if SCREENSHOTS:
            browser.evaluate(
                'const choice = document.getElementById("process");'
                'choice.value = "all"; choice.dispatchEvent(new Event("change"))')
            browser.wait_for('new Set([...document.querySelectorAll('
                             '"#log tbody tr")].map((r) => r.dataset.log)).size'
                             ' === 3')
            self.picture(browser, 'dashboard-logs.png')
        with open(os.path.join(run, 'events.jsonl'), encoding='utf-8') as file:
            events = [json.loads(line) for line in file]
        kinds = [event['kind'] for event in events]
        self.assertIn('worker_lost', kinds)
        self.assertEqual([event['number'] for event in events
                          if event['kind'] == 'worker_lost'][0], 1)
        self.assertIn('checkpoint', kinds)
        self.assertEqual({event['attempt'] for event in events}, {1, 2, 3})
        self.assertEqual(
            [row[1:4] + row[5:] for row in self.values(browser, 'events')],
            [[event['step'], event['attempt'], event['kind'], event['message']]
             for event in reversed(events[-200:])])

    def test_a_finished_run(self):
        runs = os.path.join(self.folder, 'runs')
        # A name that would be a script if it were inserted as HTML.
        name = '<img src=x onerror=document.title=1>'
        make_run(os.path.join(runs, name), 1000, 3, 10, name)
        with open(os.path.join(runs, name, 'events.jsonl'), 'w',
                  encoding='utf-8') as file:
            for attempt, text in (1, 'old'), (2, 'first'), (2, 'second'):
                print(json.dumps({
                    'id': 1, 'time': 1e9, 'step': 0, 'attempt': attempt,
                    'severity': 'info', 'kind': 'stage', 'message': text,
                }), file=file)
        make_run(os.path.join(runs, 'plain'), 500, 64, 10)
        url = self.dashboard(runs)
        lines = [line for line in read_lines(os.path.join(runs, name))
                 if is_training(line)]
        with Chromium() as browser:
            self.show(browser, url, 'curves')
            rows = {row[1]: row for row in self.values(browser, 'runs')}
            self.assertEqual(set(rows), {name, 'plain'})
            self.assertEqual(rows[name][3:6], [1000, lines[-1]['loss'],
                                               lines[-1]['samples_per_second']])
            browser.evaluate('[...document.querySelectorAll("#runs td button")]'
                             f'.find((b) => b.textContent === {json.dumps(name)})'
                             '.click()')
            browser.wait_for('document.querySelectorAll("#legend span").length'
                             ' === 1')
            self.assertEqual(browser.evaluate('document.title'), 'Tributary')
            self.assertEqual(
                browser.evaluate('document.querySelectorAll("img").length'), 0)
            # The crosshair shows a line's loss.
            browser.evaluate('document.querySelector(".chart").focus()')
            browser.press('ArrowRight')
            shown = browser.evaluate(
                '[...document.querySelectorAll("figure:not([hidden]) output")]'
                '.map((output) => output.hidden ? "" : output.textContent)')
            # The charts share the crosshair.
            self.assertEqual(len(shown), 7)
            for text in shown:
                self.assertIn(name, text)
            # Zooming in asks for that part of the run.
            browser.press('+')
            browser.wait_for('location.hash.includes("from=")')
            browser.press('0')
            browser.wait_for('!location.hash.includes("from=")')

            browser.press('3')
            browser.wait_for(READY % 'time')
            rows = self.values(browser, 'workers')
            self.assertEqual(len(rows), 3)
            for rank, row in enumerate(rows):
                newest = [line['workers'][rank] for line in lines[-40:]]
                self.assertEqual(row[0], f'worker {rank}')
                for value, field in zip(row[2:], (
                        'leaves', 'forward_ms', 'backward_ms', 'data_ms',
                        'exchange_ms', 'waiting_ms')):
                    self.assertAlmostEqual(
                        value, sum(w[field] for w in newest) / len(newest), 9)

            with open(os.path.join(runs, name, 'summary.json'),
                      encoding='utf-8') as file:
                summary = json.load(file)
            browser.press('5')
            browser.wait_for(READY % 'cluster')
            facts = {row[0]: row[1] for row in self.values(browser, 'summary')}
            self.assertEqual(facts['final loss'], summary['final_loss'])
            self.assertEqual(facts['parameters'], summary['parameters'])
            # Of the newest attempt.
            self.assertEqual([row[0] for row in self.values(browser, 'stages')],
                             ['first', 'second'])
            self.assertEqual([row[:3] for row in self.values(browser, 'tables')],
                             [['users', 2000, 160000]])
            browser.press('6')
            browser.wait_for(READY % 'exchange')
            rows = self.values(browser, 'bytes')
            self.assertEqual([row[1] for row in rows],
                             [p['bytes_sent'] for p in summary['processes']])
            # Each of three workers computes one subtree of the four
            # micro-batches: 1, 1 and 2 of them.
            self.assertEqual([row[5] for row in rows[:3]], 3 * [9488])
            browser.evaluate('document.getElementById("show-found").click()')
            browser.press('7')
            browser.wait_for(READY % 'job')
            fields = {row[0] for row in self.values(browser, 'differences')}
            self.assertEqual(fields, {'name', 'steps', 'batch',
                                      'batch.global', 'batch.micro_batches'}
                             - {'batch'})
            browser.press('8')
            browser.wait_for(READY % 'log')
            self.check_quiet(browser, url)

            for view in VIEWS:
                self.show(browser, url, view, width=400)
                self.assertLessEqual(browser.evaluate(
                    'document.documentElement.scrollWidth'), 400, view)
            self.check_quiet(browser, url)

    def test_colors_can_be_read(self):
        url = self.dashboard(self.folder)
        with Chromium() as browser:
            for dark in (False, True):
                self.show(browser, url, 'curves', dark=dark)
                colors = browser.evaluate(
                    'Object.fromEntries(["background", "panel", "text", '
                    '"muted", "accent", "alert-background", "run0", "run1", '
                    '"run2", "run3", "run4", "run5", "run6", "run7", "run8", '
                    '"run9"].map((name) => [name, '
                    'getComputedStyle(document.documentElement)'
                    '.getPropertyValue("--" + name).trim()]))')
                self.assertEqual(dark, contrast(colors['background'],
                                                '#000000') < 2)
                for name in ('background', 'panel'):
                    for text in ('text', 'muted', 'accent'):
                        self.assertGreaterEqual(
                            contrast(colors[name], colors[text]), 4.5, text)
                    for line in range(10):
                        self.assertGreaterEqual(
                            contrast(colors[name], colors[f'run{line}']), 3)
                self.assertGreaterEqual(
                    contrast(colors['alert-background'], colors['text']), 4.5)

    def test_a_live_job_with_kills(self):
        train, run, _ = self.train()
        url = self.dashboard(run)
        with Chromium() as browser:
            self.show(browser, url, 'cluster')
            browser.wait_for('document.querySelectorAll("#processes tbody tr")'
                             '.length === 3', 60)
            # The page's step lies between those of two answers of `status`.
            def status():
                return self.status(run)
            def step():
                return status()['step']
            self.check_processes(browser, status)
            before = step()
            browser.wait_for(f'Number(document.querySelector("#runs tbody tr")'
                             f'.cells[3].dataset.value) >= {before}')
            shown = self.values(browser, 'runs')[0][3]
            self.assertLessEqual(shown, step())
            for victim in ('worker .*--rank 1', 'server '):
                if victim.startswith('worker'):
                    reached = step()
                    self.kill(train, victim)
                    browser.wait_for(
                        'Number(document.querySelector("#runs tbody tr")'
                        f'.cells[3].dataset.value) > {reached + 50}', 60)
                else:
                    self.kill(train, victim)
                    browser.wait_for(
                        'document.body.innerText.includes("Attempt 2; ")', 60)
            if SCREENSHOTS:
                self.show(browser, url, 'curves', dark=True, height=860)
                self.picture(browser, 'dashboard-dark.png')
                self.show(browser, url, 'time')
                self.picture(browser, 'dashboard-time.png')
                self.show(browser, url, 'time', width=400, height=860)
                self.picture(browser, 'dashboard-narrow.png')
            self.show(browser, url, 'curves', height=860)
            self.stop(train)
            browser.wait_for('document.querySelector("#runs tbody tr").cells[2]'
                             '.textContent === "stopped"', 60)
            steps = read_lines(run)[-1]['step'] + 500
            train = self.start('train', '--resume', run, '--workers', '2',
                               '--steps', str(steps))
            self.assertEqual(train.wait(timeout=60), 0)
            # The page asks for news only as long as a job is live.
            self.show(browser, url, 'curves', height=860)
            browser.wait_for('document.querySelector("#runs tbody tr").cells[2]'
                             '.textContent === "done"')
            lines = read_lines(run)
            newest = [line for line in lines if is_training(line)][-1]
            # The page asks for the speed after it has seen the end.
            browser.wait_for('Number(document.querySelector("#runs tbody tr").cells[5]'
                             f'.dataset.value) === {newest["samples_per_second"]!r}')
            row = self.values(browser, 'runs')[0]
            with open(os.path.join(run, 'summary.json'),
                      encoding='utf-8') as file:
                self.assertEqual(row[3:6], [steps, json.load(file)['final_loss'],
                                            newest['samples_per_second']])
            self.assertEqual(row[3], newest['step'])
            # Up to this step, there are no more lines than the most points.
            last = 20000
            series = browser.evaluate(
                f'fetch("/api/series?run=0&points=4000&to={last}")'
                '.then((r) => r.json())')
            lines = [line for line in lines if line['step'] <= last]
            training = [line for line in lines if is_training(line)]
            used = [process for line in training
                    for process in line.get('resources', [])]
            self.assertEqual({(p['role'], p['number']) for p in used},
                             {('server', 0), ('worker', 0), ('worker', 1)})
            for process in used:
                self.assertGreater(process['memory_bytes'], 1e6)
                self.assertGreaterEqual(process['cpus'], 0)
                self.assertLess(process['cpus'], os.cpu_count() + 1)
            self.assertEqual(series['step'], [line['step'] for line in training])
            self.assertEqual(series['fields']['loss']['mean'],
                             [line['loss'] for line in training])
            self.assertEqual(series['evaluation']['loss'],
                             [line['evaluation_loss'] for line in lines
                              if 'evaluation_loss' in line])
            self.check_events(browser, url, run)
            self.check_quiet(browser, url)
        self.assertFalse(os.path.exists(os.path.join(run, 'server.json')))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
