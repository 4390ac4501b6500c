#!/usr/bin/env python3
"""Measures how long the dashboard takes to open a large finished run, and the
memory that the browser uses for it.

Makes a run with the given numbers of steps and workers, starts the dashboard,
and opens its page in a headless Chromium. Prints the seconds from the request
of the page until each view is shown, and the memory of the page's process: the
largest sum of its proportional shares (PSS) after any view.

  tests/bench/dashboard_open.py bazel-bin/deploy/tributary [--steps 100000]
      [--workers 64] [--log-every 10]
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "deploy",
                                "dashboard"))
# pylint: disable=wrong-import-position
from chromium import Chromium
from make_run import make_run

VIEWS = ("curves", "time", "cluster", "exchange", "job", "log")
READY = 'document.body && document.body.dataset.ready === "%s"'


def children(pid):
    """The process ids of a process and all of its descendants."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True,
                           text=True, check=False).stdout.split()
    return [pid] + [one for child in found for one in children(int(child))]


def page_megabytes(browser):
    """The PSS of the largest renderer."""
    largest = 0
    for pid in children(browser.process.pid):
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            if "--type=renderer" not in file.read():
                continue
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            share = int(re.search(r"Pss:\s+(\d+)", file.read())[1])
        largest = max(largest, share * 1024 / 1e6)
    return largest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--log-every", type=int, default=10)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        make_run(run, flags.steps, flags.workers, flags.log_every)
        size = os.path.getsize(os.path.join(run, "metrics.jsonl"))
        print(f"{flags.steps} steps, {flags.workers} workers, "
              f"{size / 1e6:.0f} MB of metrics.jsonl")
        dashboard = subprocess.Popen(
            [flags.program, "dashboard", run, "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE, text=True)
        url = dashboard.stdout.readline().strip()
        most = 0.0
        with Chromium() as browser:
            for view in VIEWS:
                begin = time.monotonic()
                browser.open(f"{url}/#view={view}")
                browser.wait_for(READY % view)
                seconds = time.monotonic() - begin
                time.sleep(1)
                megabytes = page_megabytes(browser)
                most = max(most, megabytes)
                print(f"{view:10} {seconds:5.2f} s  {megabytes:5.0f} MB")
            print(f"most       {most:13.0f} MB")
            if browser.errors():
                raise SystemExit(browser.errors())
        dashboard.terminate()
        dashboard.wait()


if __name__ == "__main__":
    main()
