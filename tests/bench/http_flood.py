#!/usr/bin/env python3
"""Measures how a flood of connections to the metrics port and to the dashboard
slows training and honest readers down. Only addresses of this machine are used.

Trains the built-in gpt with one server and one worker. After a third of the
steps, opens many connections to the metrics port of server 0 and to a
dashboard. Each sends a part of a request's head, and then a byte now and then;
those that are closed are opened again. Meanwhile, asks both for an answer once
in a while, as Prometheus and a browser do. Prints the median time of a step
before and during the flood, and the times of the honest answers.

  tests/bench/http_flood.py bazel-bin/deploy/tributary [--connections N]
      [--steps N] [--port P]
"""

import argparse
import json
import pathlib
import resource
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request


class Flood:
    """Connections to two ports, fed by one thread."""

    def __init__(self, ports, count):
        self.ports, self.count = ports, count
        self.opened = self.closed = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def open(self, i):
        peer = socket.socket()
        peer.setblocking(False)
        try:
            peer.connect(("127.0.0.1", self.ports[i % len(self.ports)]))
        except BlockingIOError:
            pass
        self.opened += 1
        return peer

    def run(self):
        peers = [self.open(i) for i in range(self.count)]
        begun = [False] * self.count
        while not self.stop.wait(0.2):
            for i, peer in enumerate(peers):
                if i % 5 != int(time.monotonic() * 5) % 5:
                    continue  # A byte of each once a second.
                try:
                    peer.send(b"a" if begun[i] else
                              b"GET /metrics HTTP/1.1\r\nX-A: ")
                    begun[i] = True
                except BlockingIOError:
                    pass  # Not accepted yet.
                except OSError:
                    self.closed += 1
                    peer.close()
                    peers[i], begun[i] = self.open(i), False
        for peer in peers:
            peer.close()


def ask(url, times):
    began = time.monotonic()
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            answer.read()
        times.append(time.monotonic() - began)
    except OSError as error:
        times.append(float("inf"))
        print(f"no answer from {url}: {error}")


def lines_of(run):
    try:
        text = (run / "metrics.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(True)
            if line.endswith("\n")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--port", type=int, default=29690)
    flags = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder, "run")
        train = subprocess.Popen(
            [flags.program, "train", "--workers", "1", "--threads", "1",
             "--steps", str(flags.steps), "--log-every", "1", "--output",
             str(run), "--metrics-listen", f"127.0.0.1:{flags.port}", "--set",
             "evaluation.disabled=true"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(lines_of(run)) < flags.steps // 3:
            if train.poll() is not None:
                raise SystemExit("the job has ended before the flood")
            time.sleep(0.1)
        dashboard = subprocess.Popen(
            [flags.program, "dashboard", str(run), "--listen",
             f"127.0.0.1:{flags.port + 10}"], stdout=subprocess.PIPE)
        dashboard.stdout.readline()
        flood = Flood([flags.port, flags.port + 10], flags.connections)
        begins = len(lines_of(run))
        flood.thread.start()
        metrics, pages = [], []
        while train.poll() is None and len(lines_of(run)) < flags.steps - 5:
            ask(f"http://127.0.0.1:{flags.port}/metrics", metrics)
            ask(f"http://127.0.0.1:{flags.port + 10}/api/runs", pages)
            time.sleep(0.5)
        flood.stop.set()
        flood.thread.join()
        alive = dashboard.poll() is None
        dashboard.terminate()
        code = train.wait()
        times = [line["step_seconds"] for line in lines_of(run)
                 if line.get("step_seconds")]
    before = statistics.median(times[5:begins])
    during = statistics.median(times[begins:])
    print(f"{flood.opened} connections opened, {flood.closed} closed by the "
          f"servers; train ended with {code}, dashboard alive: {alive}")
    print(f"step: {1e3 * before:.1f} ms before, {1e3 * during:.1f} ms during "
          f"the flood, ratio {during / before:.2f}")
    for name, answers in (("/metrics", metrics), ("/api/runs", pages)):
        print(f"{name}: {len(answers)} answers, median "
              f"{1e3 * statistics.median(answers):.0f} ms, slowest "
              f"{1e3 * max(answers):.0f} ms")


if __name__ == "__main__":
    main()
