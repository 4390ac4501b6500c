#!/usr/bin/env python3
"""Measures the exchange of rows of tables over TCP beside bare gRPC streams.

    tests/bench/sparse/row_exchange.py PROGRAM ROW_WORKER LOCAL_ROWS [--dim N] ...

PROGRAM is the program `tributary`. ROW_WORKER is //tests/bench/sparse:row_worker: a
worker whose micro-batches only read rows of uniformly distributed keys and send
their gradients. LOCAL_ROWS is //tests/bench/sparse:local_rows, which looks up and
updates the same rows without an exchange. Trains with one server, and prints for
each fixed_lag and format the payload bytes of requests, rows and gradients in a
second, both directions added, and their share of the bytes that bare gRPC streams
between as many processes reach (`tributary bench stream`), measured right before
and after; and the CPU seconds of all processes for a GB of such bytes: of the
exchange, of bare gRPC, and of looking up and updating the rows of a GB locally. The
last column is the share of the second and the third in the first: what is left is
the cost of the exchange itself.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

JOB = """
model {{ external {{ name: "rows" }} }}
data {{ external {{ train_samples: 1000000000 }} }}
batch {{ global: {micro_batches} micro_batches: {micro_batches} }}
optimizer {{ sgd {{ learning_rate: 0.1 momentum: 0 }} }}
steps: {steps}
checkpoint {{ every_steps: 0 }}
output {{ log_every_steps: 1000 }}
exchange {{ transport: {transport} }}
sparse {{
  fixed_lag: {lag}
  wire_dtype: {dtype}
  table {{ name: "t" dim: {dim}
           row_wise_adagrad {{ learning_rate: 0.01 }} }}
  feature {{ column: "c" table: "t" pooling: NONE }}
}}
"""


def children_seconds():
    """Returns the CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def bare_grpc(options):
    """Returns bytes per second of streams between processes, both directions, and
    CPU seconds per byte."""
    before = children_seconds()
    read, write = os.pipe()
    server = subprocess.Popen(
        [options.program, "bench", "stream", "--listen", "127.0.0.1:0",
         "--ready-fd", str(write)], pass_fds=[write], stdout=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as ready:
        address = ready.readline().strip()
    clients = [subprocess.Popen(
        [options.program, "bench", "stream", "--connect", address,
         "--seconds", str(options.seconds)], stdout=subprocess.PIPE, text=True)
        for _ in range(options.workers)]
    rate = total = 0
    for client in clients:
        counts = json.loads(client.communicate()[0])
        of_client = counts["bytes_sent"] + counts["bytes_received"]
        total += of_client
        rate += of_client / counts["seconds"]
    server.terminate()
    server.wait()
    return rate, (children_seconds() - before) / total


def rows(options, lag, dtype, steps):
    """Trains; returns the summary of the run, and its CPU seconds."""
    before = children_seconds()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "job.textproto").write_text(JOB.format(
            micro_batches=options.micro_batches, steps=steps,
            lag=lag, dtype=dtype, dim=options.dim, transport=options.transport))
        subprocess.run(
            [options.program, "train", str(folder / "job.textproto"),
             "--workers", str(options.workers), "--threads", "1",
             "--output", str(folder / "run"), "--worker-command",
             f"{options.row_worker} {options.keys} {options.dim} "
             f"{options.batch // options.micro_batches}"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        summary = json.loads((folder / "run" / "summary.json").read_text())
    return summary, children_seconds() - before


def local_rows(options):
    """Returns the CPU seconds of the look-ups and updates of a step."""
    return float(subprocess.run(
        [options.local_rows, str(options.keys), str(options.dim),
         str(options.batch // options.micro_batches), str(options.micro_batches),
         str(options.steps)], check=True, stdout=subprocess.PIPE, text=True).stdout)


def measure(options, lag, dtype):
    """Returns the figures of a line of the table, after the format."""
    before, cpu_before = bare_grpc(options)
    # Neither the start of the processes nor the first steps, which create rows.
    _, first_seconds = rows(options, lag, dtype, options.steps // 4)
    summary, seconds = rows(options, lag, dtype, options.steps)
    after, cpu_after = bare_grpc(options)
    limit = (before + after) / 2
    step_bytes = (summary["bytes_sent"] + summary["bytes_received"]) / options.steps
    rate = step_bytes / (1e-3 * summary["step_milliseconds"]["median"])
    cpu = (seconds - first_seconds) / (options.steps - options.steps // 4) / step_bytes
    bare_cpu = (cpu_before + cpu_after) / 2
    local_cpu = local_rows(options) / step_bytes
    return (step_bytes / options.batch, rate / 1e9, limit / 1e9, rate / limit,
            1e9 * cpu, 1e9 * bare_cpu, 1e9 * local_cpu, (bare_cpu + local_cpu) / cpu)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("row_worker", type=os.path.abspath)
    parser.add_argument("local_rows", type=os.path.abspath)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--keys", type=int, default=200000)
    parser.add_argument("--batch", type=int, default=65536,
                        help="keys of a step")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=2,
                        help="of each measurement of bare gRPC")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transport", default="WIRE")
    parser.add_argument("--dtypes", nargs="+", default=["FLOAT32"])
    parser.add_argument("--lags", nargs="+", type=int, default=[0, 1])
    options = parser.parse_args()
    print("| fixed_lag | format | bytes a key | rows in GB/s | bare gRPC in GB/s "
          "| share | CPU seconds a GB | of bare gRPC | of local rows | share |")
    print("|" + " --- |" * 10)
    for lag in options.lags:
        for dtype in options.dtypes:
            rounds = [measure(options, lag, dtype) for _ in range(options.rounds)]
            figures = [statistics.median(values) for values in zip(*rounds)]
            print(f"| {lag} | {dtype} | {figures[0]:.0f} | "
                  + " | ".join(f"{figure:.2f}" for figure in figures[1:]) + " |",
                  flush=True)


if __name__ == "__main__":
    main()
