#!/usr/bin/env python3
"""Measures the exchange of rows of tables over TCP beside bare gRPC streams.

    tests/bench/sparse/row_exchange.py PROGRAM ROW_WORKER [--dim N] [--keys N] ...

PROGRAM is the program `tributary`, and ROW_WORKER is //tests/bench/sparse:row_worker: a
worker whose micro-batches only read rows of uniformly distributed keys and send
their gradients. Trains with one server, and prints for each fixed_lag and format
the payload bytes of requests, rows and gradients in a second, both directions
added, and their share of the bytes that bare gRPC streams between as many
processes reach (`tributary bench stream`), measured right before and after.
"""

import argparse
import json
import os
import pathlib
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


def bare_grpc(options):
    """Returns the bytes per second of streams between processes, both directions."""
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
    total = 0
    for client in clients:
        counts = json.loads(client.communicate()[0])
        total += (counts["bytes_sent"] + counts["bytes_received"]) / counts["seconds"]
    server.terminate()
    server.wait()
    return total


def rows(options, lag, dtype, steps):
    """Trains; returns bytes and CPU seconds per second of training."""
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
            check=True, stdout=subprocess.DEVNULL)
        return json.loads((folder / "run" / "summary.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("row_worker", type=os.path.abspath)
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
    print("| fixed_lag | format | bytes a key | rows in GB/s | bare gRPC in GB/s | share |")
    print("| --- | --- | --- | --- | --- | --- |")
    for lag in options.lags:
        for dtype in options.dtypes:
            shares, rates, limits = [], [], []
            for _ in range(options.rounds):
                before = bare_grpc(options)
                summary = rows(options, lag, dtype, options.steps)
                limit = (before + bare_grpc(options)) / 2
                step_bytes = (summary["bytes_sent"] + summary["bytes_received"]
                              ) / options.steps
                rate = step_bytes / (1e-3 * summary["step_milliseconds"]["median"])
                shares.append(rate / limit)
                rates.append(rate / 1e9)
                limits.append(limit / 1e9)
            print(f"| {lag} | {dtype} | {step_bytes / options.batch:.0f} |"
                  f" {statistics.median(rates):.2f} |"
                  f" {statistics.median(limits):.2f} |"
                  f" {statistics.median(shares):.2f} |", flush=True)


if __name__ == "__main__":
    main()
