#!/usr/bin/env python3
"""Measures what watching a run costs: metrics for Prometheus, TensorBoard files and a trace.

Trains the same job in turn without and with all of them, and compares the median times of a step
(`step_milliseconds.median` in summary.json) and the CPU time of all processes. The traced steps
are all steps of the run but the first 100. In turn, because other programs on the machine slow
down both in the same way; the CPU time suffers less from them than the time of a step.

    python3 tests/bench/watch_cost.py bazel-bin/deploy/tributary [--rounds 5] [--steps 600]

Prints one line per round, and at the end the median of the ratios.
"""
import argparse
import json
import pathlib
import socket
import statistics
import subprocess
import tempfile
import threading
import urllib.request

JOB = """
name: "watch_cost"
model { gpt { layers: 4 heads: 4 width: 128 context: 64 vocabulary: 256 } }
data { random { samples: 4096 } }
batch { global: 8 micro_batches: 4 }
optimizer { adamw { learning_rate: 0.001 } }
evaluation { disabled: true }
checkpoint { every_steps: 0 }
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def scrape(address, stop):
    while not stop.wait(1):
        try:
            urllib.request.urlopen(f"http://{address}/metrics", timeout=1).read()
        except OSError:
            pass  # The process has not begun, or has ended.


def train(program, folder, job, steps, watched):
    command = [program, "train", str(job), "--steps", str(steps), "--output", str(folder),
               "--workers", "2", "--threads", "1", "--quiet", "--device", "cpu"]
    stop = threading.Event()
    if watched:
        port = free_port()
        command += ["--metrics-listen", f"127.0.0.1:{port}", "--trace-steps",
                    f"100:{min(steps, 1100)}"]
        scrapers = [threading.Thread(target=scrape, args=(f"127.0.0.1:{port + i}", stop))
                    for i in range(3)]
        for scraper in scrapers:
            scraper.start()
    else:
        command += ["--set", "output.tensorboard=false"]
    result = subprocess.run(command, capture_output=True, text=True)
    stop.set()
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    summary = json.loads((folder / "summary.json").read_text())
    cpu = sum(process["cpu_seconds"] for process in summary["processes"])
    return summary["step_milliseconds"]["median"], 1000 * cpu / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--job", help="job file; default: a gpt of 0.9 million parameters")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    ratios, cpu_ratios = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        job = pathlib.Path(arguments.job) if arguments.job else folder / "job.textproto"
        if not arguments.job:
            job.write_text(JOB)
        for number in range(arguments.rounds):
            times = {}
            order = [False, True] if number % 2 == 0 else [True, False]
            for watched in order:
                times[watched] = train(arguments.program, folder / f"{number}-{watched}", job,
                                       arguments.steps, watched)
            (plain, plain_cpu), (watched, watched_cpu) = times[False], times[True]
            ratios.append(watched / plain)
            cpu_ratios.append(watched_cpu / plain_cpu)
            print(f"step: plain {plain:.3f} ms, watched {watched:.3f} ms, "
                  f"ratio {ratios[-1]:.4f}; CPU time of a step: plain {plain_cpu:.3f} ms, "
                  f"watched {watched_cpu:.3f} ms, ratio {cpu_ratios[-1]:.4f}", flush=True)
    print(f"median ratio: step {statistics.median(ratios):.4f}, "
          f"CPU time {statistics.median(cpu_ratios):.4f}")


if __name__ == "__main__":
    main()
