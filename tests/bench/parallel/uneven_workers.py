#!/usr/bin/env python3
"""Measures what balanced stages gain if one of two workers is slow.

    tests/bench/parallel/uneven_workers.py PROGRAM [--share 0.5]
                                  [--micro-batches 8] [--steps 24] [--rounds 3]

PROGRAM is the program `tributary`. Trains a GPT in two stages with two workers
of one thread, of which one may use a share of a core only (a quota of a control
group; needs root). Compares, in turn, the stages that the job balances for these
workers with two equal stages. Prints the tables of the balanced stages, and the
medians of the steps' times.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
PERIOD_US = 100_000
EQUAL = 'split: ["transformer.h.4.ln_1"]'  # Four of eight layers each.


@contextlib.contextmanager
def cpu_group(share):
    """Makes a control group that may use `share` of a core."""
    quota = int(share * PERIOD_US)
    mount = pathlib.Path("/sys/fs/cgroup")
    first = (mount / "cpu").is_dir()  # The first version of control groups.
    group = (mount / "cpu" if first else mount) / f"uneven-{os.getpid()}"
    group.mkdir()
    try:
        if first:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        yield group
    finally:
        group.rmdir()


def run(arguments, split, group):
    """Returns the median of the steps' times, and the table of stages."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "run"
        pipeline = f"parallel.pipeline={{ stages: 2 {split} }}"
        server = subprocess.Popen(
            [arguments.program, "server", ROOT / "examples/licenses.textproto",
             "--listen", "127.0.0.1:0", "--workers", "2", "--output", output,
             "--steps", str(arguments.steps),
             "--set", "model={ gpt { layers: 8 heads: 4 width: 256 "
                      "context: 128 tied_head: false } }",
             "--set", f"batch={{ global: {4 * arguments.micro_batches} "
                      f"micro_batches: {arguments.micro_batches} }}",
             "--set", "output.log_every_steps=2",
             "--set", "evaluation.disabled=true",
             "--set", "checkpoint.every_seconds=0", "--set", pipeline],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        address = None
        while address is None:
            line = server.stdout.readline()
            if not line:
                raise RuntimeError("the server has failed")
            found = re.search(r"127\.0\.0\.1:\d+", line)
            address = found and found.group()
        workers = []
        for rank in range(2):
            def enter(rank=rank):
                if rank == 1:
                    (group / "cgroup.procs").write_text(str(os.getpid()))
            workers.append(subprocess.Popen(
                [arguments.program, "worker", "--coordinator", address,
                 "--rank", str(rank), "--threads", "1", "--device", "cpu"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                preexec_fn=enter))
        server.communicate()
        codes = [process.wait() for process in [server, *workers]]
        if any(codes):
            raise RuntimeError(f"exit codes {codes}")
        metrics = [json.loads(line) for line in
                   (output / "metrics.jsonl").read_text().splitlines()]
        times = [line["step_seconds"] for line in metrics
                 if line.get("step_seconds")]
        events = [json.loads(line) for line in
                  (output / "events.jsonl").read_text().splitlines()]
        summary = json.loads((output / "summary.json").read_text())
        return (statistics.median(times[2:]),
                [event["message"] for event in events
                 if event["kind"] == "stage"], summary["weights_sha256"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    digests = set()
    equal, balanced = [], []
    with cpu_group(arguments.share) as group:
        for _ in range(arguments.rounds):
            for split, times in (EQUAL, equal), ("", balanced):
                seconds, table, digest = run(arguments, split, group)
                times.append(seconds)
                digests.add(digest)
            print("\n".join(table), flush=True)
    for name, times in ("equal stages", equal), ("balanced stages", balanced):
        print(f"{name}: {1e3 * statistics.median(times):.1f} ms")
    ratios = [a / b for a, b in zip(equal, balanced)]
    print(f"ratio: {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"final weights: {'equal' if len(digests) == 1 else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
