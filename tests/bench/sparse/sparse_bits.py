#!/usr/bin/env python3
"""Compares jobs with tables that differ in nothing but their processes.

    tests/bench/sparse/sparse_bits.py PROGRAM [--kills N]

PROGRAM is the program `tributary`. Trains a small model of clicks with each
number of workers, servers, transport, clipping and format of the wire that a
pairwise covering array has, for a fixed_lag of 0 and 1, with most rows on a
disk, and with in-memory replicas (of two servers or more). The rows of the
tables and the dense weights at the end must be those of one worker and one
server.
Then, with --kills, N runs more, about half of them with in-memory replicas, in
which processes of all roles are killed (SIGKILL) at seeded moments; and runs that stop half-way and are resumed with
another number of servers. Prints a table; fails if anything differs.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from covering_array import covering_array  # noqa: E402

FEATURES = 8
# Rows are admitted late, expire, and are removed for want of space.
TABLES = {
    "ids": ("row_wise_adagrad { learning_rate: 0.05 } admission { min_count: 2 } "
            "expiry { unused_steps: 7 }"),
    "others": "adam { learning_rate: 0.01 } capacity: 2000",
}
DIM = 8
STATE = [1, 2 * DIM]  # Numbers of state of a row of each table.
BUCKETS = 12

PARAMETERS = {
    "workers": [1, 2, 3, 4],
    "servers": [1, 2, 3],
    "transport": ["AUTO", "WIRE", "UNIX_SOCKET"],
    "clip": [0, 0.05],
    "dtype": ["FLOAT32", "BFLOAT16", "INT8"],
    "lag": [0, 1],
    "disk": [False, True],
    "journal": [False, True],
}


def job(row, steps):
    """Returns the text of a job file."""
    lines = [
        "model { dlrm { bottom: 16 top: 32 } }",
        "data { clicks { samples: 20000 evaluation_samples: 2000 scale: 0.001 } }",
        "batch { global: 256 micro_batches: 8 }",
        "optimizer { adam { learning_rate: 0.01 } }",
        f"steps: {steps}",
        f"clip_norm: {row['clip']}",
        "checkpoint { every_steps: 10 keep_last: 2 }",
        "exchange { wire_dtype: %s transport: %s "
        "parameter_server { chunk_bytes: 4096 } }" % (
            row["dtype"].replace("INT8", "FLOAT32"), row["transport"]),
        "recovery { journal: %s }" % (
            "true" if row["journal"] and row["servers"] > 1 else "false"),
        "sparse {",
        f"  wire_dtype: {row['dtype']}",
        f"  fixed_lag: {row['lag']}",
    ]
    for state, (name, options) in zip(STATE, TABLES.items()):
        if row["disk"]:
            # 64 rows of each bucket are in memory.
            buckets = -(-BUCKETS // row["servers"])
            row_bytes = -(-(16 + 4 * (DIM + state)) // 8) * 8
            options += f" memory_bytes: {64 * buckets * row_bytes} disk {{}}"
        lines.append(f'  table {{ name: "{name}" dim: {DIM} buckets: {BUCKETS} '
                     f"{options} }}")
    for feature in range(FEATURES):
        table = list(TABLES)[feature % len(TABLES)]
        lines.append(f'  feature {{ column: "C{3 * feature + 1}" '
                     f'table: "{table}" }}')
    return "\n".join(lines + ["}"]) + "\n"


def tables_digest(checkpoint):
    """Returns a digest of all rows, whatever number of servers has written them.

    proto/checkpoint.proto describes the files.
    """
    rows, waiting = {}, {}
    parts = checkpoint.glob("tables*.rows")
    # tables.rows, tables.1.rows, tables.2.rows, ...: what has changed since.
    for path in sorted(parts, key=lambda path: (len(path.name), path.name)):
        read_records(path.read_bytes(), rows, waiting)
    digest = hashlib.sha256()
    for kind in (rows, waiting):
        for key in sorted(kind):
            digest.update(repr((key, kind[key])).encode())
    return digest.hexdigest()


def read_records(data, rows, waiting):
    """Applies the records of a file to the dictionaries of rows and candidates."""
    assert data[:16] == b"tributary-rows-1"
    at = 16
    while at < len(data):
        table, bucket, count, candidates, removed = struct.unpack_from(
            "<IIQQQ", data, at)
        at += 32
        if table >= 2**31:  # Earlier values.
            at += count * (8 + 4 + 4 * DIM)
            continue
        keys = struct.unpack_from(f"<{count}Q", data, at)
        steps = struct.unpack_from(f"<{count}I", data, at + 8 * count)
        at += 12 * count
        size = 4 * (DIM + STATE[table])
        for key, step in zip(keys, steps):
            rows[table, key] = (bucket, step, data[at:at + size])
            waiting.pop((table, key), None)
            at += size
        for _ in range(candidates):
            key, times, step = struct.unpack_from("<QQQ", data, at)
            waiting[table, key] = (times, step)
            rows.pop((table, key), None)
            at += 24
        for key in struct.unpack_from(f"<{removed}Q", data, at):
            rows.pop((table, key), None)
            waiting.pop((table, key), None)
        at += 8 * removed
    assert at == len(data)


def result(output):
    """Returns the digests of a finished run."""
    summary = json.loads((output / "summary.json").read_text())
    newest = max((output / "checkpoints").glob("step-????????"))
    return summary["weights_sha256"][:16] + " " + tables_digest(newest)[:16]


def train(program, row, output, steps=60, resume=False, kills=None):
    """Trains, and returns the digests, or why there are none."""
    file = output.with_suffix(".textproto")
    file.write_text(job(row, steps))
    command = [program, "train", str(file), "--workers", str(row["workers"]),
               "--servers", str(row["servers"]), "--output", str(output),
               "--threads", "1"]
    if resume:
        command += ["--resume", "auto"]
    log = output.with_suffix(".log")
    with log.open("w") as to:
        process = subprocess.Popen(command, stdout=to, stderr=to)
        for moment, choice in kills or []:
            time.sleep(moment)
            children = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(process.pid)],
                stdout=subprocess.PIPE, text=True).stdout.split()
            if children and process.poll() is None:
                # The process may have ended by itself.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(children[choice % len(children)]), signal.SIGKILL)
        code = process.wait()
    if code != 0:
        lines = log.read_text().strip().splitlines()
        return f"failed ({code}): " + (lines[-1] if lines else "no output")
    return result(output)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=0,
                        help="runs with killed processes")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.program).resolve())
    whole = {}
    wrong = 0

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def wanted(row):
            key = (row["clip"], row["dtype"], row["lag"])
            if key not in whole:
                alone = dict(row, workers=1, servers=1, transport="AUTO",
                             disk=False, journal=False)
                whole[key] = train(program, alone, folder / f"whole{len(whole)}")
            return whole[key]

        def compare(digest, row, what=""):
            equal = digest == wanted(row) and not digest.startswith("failed")
            print("equal" if equal else f"DIFFERENT ({digest}, {wanted(row)})",
                  " ".join(f"{name}={value}" for name, value in row.items()),
                  what, flush=True)
            return not equal

        rows = covering_array(PARAMETERS)
        for number, row in enumerate(rows):
            wrong += compare(train(program, row, folder / f"run{number}"), row)
        for number in range(arguments.kills):
            choose = random.Random(number)
            row = {name: choose.choice(values)
                   for name, values in PARAMETERS.items()}
            row["workers"] = choose.choice([2, 3])
            if row["journal"]:
                row["servers"] = choose.choice([2, 3])
            kills = [(choose.uniform(0.2, 1.5), choose.randrange(100))
                     for _ in range(choose.choice([1, 2]))]
            wrong += compare(train(program, row, folder / f"kill{number}",
                                   kills=kills), row, f"kills={kills}")
        for lag in PARAMETERS["lag"]:
            for before, after in [(1, 3), (2, 1), (3, 2)]:
                row = {"workers": 2, "servers": before, "transport": "AUTO",
                       "clip": 0, "dtype": "FLOAT32", "lag": lag,
                       "disk": before == 2, "journal": False}
                output = folder / f"resumed{lag}{before}"
                train(program, row, output, steps=30)
                row["servers"] = after
                wrong += compare(train(program, row, output, resume=True), row,
                                 f"resumed with {after} servers after {before}")
    print(f"{wrong} different")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
