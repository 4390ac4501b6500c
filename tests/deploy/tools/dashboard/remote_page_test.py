"""Opens the dashboard of a live job, which it knows by its coordinator's
address only, in a headless Chromium, and compares what it shows with the files
of the run and with `tributary status`.

    remote_page_test.py TRIBUTARY [SCREENSHOTS]

With the folder SCREENSHOTS, also writes pictures for the manual.
"""
import json
import os
import re
import shutil
import socket
import sys
import unittest
import urllib.request

from chromium import Chromium
from page_case import (PageCase, READY, SCREENSHOTS, VIEWS, is_training,
                       read_lines)


@unittest.skipUnless(shutil.which('chromium'), 'needs the package chromium')
class RemotePageTest(PageCase):

    def check_cluster(self, browser, status):
        """Compares the live table of processes with `status --json`."""
        def facts(status):
            return {f"{p['role']} {p['number']}": p
                    for p in status['processes']}
        known = facts(status())
        rows = {row[0]: row for row in self.values(browser, 'processes')}
        self.assertEqual(rows.keys(), known.keys())
        for name, row in rows.items():
            process = known[name]
            self.assertEqual(process['host'], socket.gethostname())
            self.assertRegex(process['release'], r'^\d+\.\d+\.\d+$')
            # The resident memory grows a little between the answers.
            self.assertGreater(process['memory_bytes'], 1e6)
            self.assertAlmostEqual(row[6] / process['memory_bytes'], 1,
                                   delta=0.2)
            with open(f"/proc/{process['pid']}/status", encoding='utf-8') as file:
                resident = 1024 * int(re.search(r'VmRSS:\s+(\d+)',
                                                file.read())[1])
            self.assertAlmostEqual(row[6] / resident, 1, delta=0.2)
            if name == 'server 0':  # It needs no lease from itself.
                self.assertEqual(row[7], -1)
                self.assertEqual(row[8], '–')
            else:
                self.assertGreater(row[7], 0)
                self.assertLessEqual(row[7], 10000)
                self.assertEqual(row[8], f"{process['leaf_begin']} to "
                                 f"{process['leaf_end'] - 1}")
            self.assertEqual(row[9:], [process['host'], process['pid'],
                                       process['release'], 'cpu'])

    def check_exchange(self, browser, status):
        """Compares the live table of bytes with `status --json` and the law:
        the size of the weights, which each of two workers sends and receives
        once in a step."""
        before = status()
        rows = {row[0]: row for row in self.values(browser, 'bytes')}
        after = status()
        weights = 4 * after['parameters']
        self.assertEqual(after['parameters'],
                         128 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10)
        old, new = ({f"{p['role']} {p['number']}": p for p in s['processes']}
                    for s in (before, after))
        self.assertEqual(rows.keys(), new.keys())
        for name, row in rows.items():
            for column, field in ((1, 'bytes_sent'), (2, 'bytes_received'),
                                  (7, 'shared_bytes_sent'),
                                  (8, 'shared_bytes_received')):
                # The page shows the previous answer.
                self.assertLessEqual(row[column], new[name][field])
                self.assertGreaterEqual(row[column], 0.2 * old[name][field])
            if name == 'server 0':
                self.assertEqual(row[5:7], [2 * weights, 2 * weights])
                continue
            self.assertEqual(row[5:7], [weights, weights])
            for measured in row[3:5]:
                self.assertAlmostEqual(measured / weights, 1, delta=0.02)

    def check_prefix(self, browser, url, run):
        """Compares what the page shows of an ended job, whose coordinator has
        sent it, with the files of the run."""
        lines = [line for line in read_lines(run) if is_training(line)]
        self.show(browser, url, 'time')
        browser.wait_for('document.querySelectorAll("#workers tbody tr")'
                         '.length === 2')
        last = int(browser.evaluate(
            'document.querySelector("main h2").textContent.match('
            '/to ([0-9]+) /)[1]'))
        shown = [line for line in lines if line['step'] <= last]
        self.assertEqual(shown[-1]['step'], last)
        # The view has up to 40 evenly chosen lines of the end of the run.
        first = int([re.search('from=([0-9]+)', address)[1]
                     for address in browser.requested()
                     if '/api/lines' in address][-1])
        end = [line for line in shown if line['step'] >= first]
        count = min(40, len(end))
        chosen = [end[(i + 1) * len(end) // count - 1] for i in range(count)]
        for rank, row in enumerate(self.values(browser, 'workers')):
            newest = [line['workers'][rank] for line in chosen]
            for value, field in zip(row[2:], (
                    'leaves', 'forward_ms', 'backward_ms', 'data_ms',
                    'exchange_ms', 'waiting_ms')):
                self.assertAlmostEqual(
                    value, sum(w[field] for w in newest) / len(newest), 9)
        row = self.values(browser, 'runs')[0]
        self.assertEqual(row[4:6], [shown[-1]['loss'],
                                   shown[-1]['samples_per_second']])
        # All of the page's lines are lines of the file, also those of the
        # steps that were computed again.
        with urllib.request.urlopen(f'{url}/api/lines?run=0&count=200',
                                    timeout=60) as answer:
            copied = json.load(answer)
        self.assertEqual(copied['total'], len(shown))
        by_step = {line['step']: line for line in lines}
        for line in copied['lines']:
            self.assertEqual(line, by_step[line['step']])

    def test_a_live_job_by_its_coordinator(self):
        # A name that would be a script if it were inserted as HTML.
        name = ('shapes' if SCREENSHOTS else
                '<img src=x onerror=document.title=1>')
        train, run, address = self.train(name)
        def status():
            return self.status(run)
        def event_rows():
            return [row[1:4] + row[5:] for row in self.values(browser, 'events')]
        def wait_for_event(kind):
            browser.wait_for('document.querySelector("#events tr[data-kind='
                             f'{kind}]") !== null', 60)
        url = self.dashboard('--coordinator', address, '--token-file',
                             os.path.join(run, 'token'))
        with Chromium() as browser:
            self.show(browser, url, 'cluster')
            browser.wait_for('document.querySelectorAll("#processes tbody tr")'
                             '.length === 3 && [...document.querySelectorAll('
                             '"#processes tbody tr")].every((row) => '
                             'row.cells[6].dataset.value > 0)', 60)
            self.check_cluster(browser, status)
            self.picture(browser, 'dashboard-processes.png')
            browser.press('6')
            browser.wait_for(READY % 'exchange')
            # The initial weights, which are not part of a step, then are a
            # negligible part of what each worker has received.
            browser.wait_for('[...document.querySelectorAll("#bytes tbody tr")]'
                             '.filter((row) => row.cells[7].dataset.value > 1e8)'
                             '.length === 3', 60)
            self.check_exchange(browser, status)
            self.picture(browser, 'dashboard-exchange.png')
            browser.press('7')
            browser.wait_for(READY % 'job')
            with open(os.path.join(run, 'job.textproto'),
                      encoding='utf-8') as file:
                self.assertEqual(browser.evaluate(
                    'document.querySelector("pre").textContent'), file.read())
            browser.press('8')
            browser.wait_for(READY % 'log')
            self.kill(train, 'worker .*--rank 1')
            wait_for_event('worker_lost')
            wait_for_event('process_restarted')
            self.kill(train, 'server ')
            browser.wait_for('document.querySelector("#events tr[data-kind='
                             'process_restarted]")?.cells[4].textContent === '
                             '"server 0"', 60)
            shown = event_rows()
            with open(os.path.join(run, 'events.jsonl'),
                      encoding='utf-8') as file:
                events = [json.loads(line) for line in file]
            self.assertEqual([event['id'] for event in events],
                             list(range(1, len(events) + 1)))
            expected = [[event['step'], event['attempt'], event['kind'],
                         event['message']] for event in events]
            self.assertEqual(shown, expected[len(shown) - 1::-1])
            restarts = [event for event in events
                        if event['kind'] == 'process_restarted']
            self.assertEqual([(e['role'], e['number']) for e in restarts],
                             [('worker', 1), ('server', 0)])
            self.assertEqual({event['severity'] for event in restarts},
                             {'warning'})
            self.assertEqual(restarts[1]['attempt'], 2)
            for view in VIEWS:
                self.show(browser, url, view, width=400, height=860)
                self.assertLessEqual(browser.evaluate(
                    'document.documentElement.scrollWidth'), 400, view)
            self.show(browser, url, 'curves')
            self.assertEqual(browser.evaluate('document.title'), 'Tributary')
            self.assertEqual(
                browser.evaluate('document.querySelectorAll("img").length'), 0)
            self.stop(train)
            browser.wait_for('document.querySelector("#runs tbody tr").cells[2]'
                             '.textContent === "no answer"', 120)
            # Alerts appear after the view, so later than the table of runs.
            browser.wait_for('document.getElementById("alerts").textContent'
                             '.includes("does not answer, so the job has '
                             'ended")')
            self.check_prefix(browser, url, run)
            self.check_quiet(browser, url)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
