#!/usr/bin/env python3
"""Measures how long a checkpoint delays training, and how fast it is written.

Trains a perceptron of 67 million parameters (SGD with momentum: 537 MB of
state) with two workers and one server on this machine, once without
checkpoints and once with. The stall is the time of a step whose version is
copied, minus the median of the three steps before it, during which nothing is
written. The steps after it share the cores with the thread that writes the
copy. For comparison, also measures one copy of the state in memory, and writing
and syncing as many bytes in the same folder.

  tests/bench/checkpoint_stall.py bazel-bin/deploy/tributary [--folder DIR]
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

JOB = """
model {{ mlp {{ hidden: 4096 hidden: 4096 hidden: 4096 }} }}
data {{ random {{ shape: 4096 classes: 4096 }} }}
batch {{ global: {batch} micro_batches: 2 }}
optimizer {{ sgd {{ learning_rate: 1e-3 momentum: 0.9 }} }}
evaluation {{ disabled: true }}
checkpoint {{ every_steps: {every} keep_last: 1 }}
output {{ log_every_steps: 1 }}
steps: {steps}
"""
PARAMETERS = 4 * (4096 * 4096 + 4096)
STATE_BYTES = 2 * 4 * PARAMETERS


def train(program, folder, every, steps, batch):
    """Seconds of each step, by step, and when each checkpoint was there."""
    job = pathlib.Path(folder, f"job-{every}.textproto")
    job.write_text(JOB.format(every=every, steps=steps, batch=batch),
                   encoding="utf-8")
    run = pathlib.Path(folder, f"run-{every}")
    subprocess.run([program, "train", str(job), "--workers", "2",
                    "--threads", "1", "--output", str(run)],
                   check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in
             (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    ends = {line["step"]: line["seconds"] for line in lines}
    seconds = {step: end - ends[step - 1] for step, end in ends.items()
               if step - 1 in ends}
    text = "".join(log.read_text(encoding="utf-8")
                   for log in (run / "logs").glob("server*"))
    times = {int(step): datetime.datetime.fromisoformat(
        when.replace("Z", "+00:00")).timestamp()
        for when, step in re.findall(r"(\S+Z) \S+.*checkpoint at step (\d+)",
                                     text)}
    return seconds, ends, times


def copy_seconds():
    """One pass over memory that reads the state and writes it elsewhere."""
    source = bytearray(os.urandom(1 << 20) * (STATE_BYTES >> 20))
    target = bytearray(len(source))
    target[:] = source
    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        target[:] = source
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def write_seconds(folder):
    """As many bytes, written and synced."""
    block = os.urandom(1 << 22)
    begin = time.perf_counter()
    with open(os.path.join(folder, "written"), "wb", buffering=0) as file:
        for _ in range(STATE_BYTES >> 22):
            file.write(block)
        os.fsync(file.fileno())
    taken = time.perf_counter() - begin
    os.unlink(os.path.join(folder, "written"))
    return taken


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", help="the tributary program")
    parser.add_argument("--folder", help="where checkpoints go")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        copy = copy_seconds()
        write = write_seconds(folder)
        calm, _, _ = train(arguments.program, folder, 0, arguments.steps,
                           arguments.batch)
        saved, ends, times = train(arguments.program, folder, arguments.every,
                                   arguments.steps, arguments.batch)
    step = statistics.median(calm.values())
    # The last one is made when nothing else is done any more.
    versions = [v for v in range(2 * arguments.every, arguments.steps,
                                 arguments.every)]
    stalls = [saved[v] - statistics.median(saved[v - i] for i in (1, 2, 3))
              for v in versions]
    slower = [sum(saved[v] for v in range(version + 1,
                                          version + arguments.every))
              - (arguments.every - 1) * step for version in versions]
    # Times in the log and in the metrics differ by when the job began.
    known = [v for v in versions if v in times]
    begin = min(times[v] - ends[v] for v in known) if known else 0
    print("| | seconds |")
    print("| --- | --- |")
    print(f"| a step, median without checkpoints | {step:.3f} |")
    print(f"| stall, median of {len(stalls)} | "
          f"{statistics.median(stalls):.3f} |")
    print(f"| stall, worst | {max(stalls):.3f} |")
    print(f"| one copy of the state in memory | {copy:.3f} |")
    beyond = statistics.median(stalls) - copy
    print(f"| stall beyond that | {beyond:.3f}"
          f" ({100 * beyond / step:.1f} % of a step) |")
    print(f"| what the steps until the next one take longer, together, median"
          f" | {statistics.median(slower):.3f} |")
    if known:
        until = [times[v] - ends[v] - begin for v in known]
        print(f"| from the step's end to the commit, more than the quickest | "
              f"{max(until):.3f} |")
    print(f"| writing and syncing as many bytes | {write:.3f} |")


if __name__ == "__main__":
    main()
