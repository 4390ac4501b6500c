#!/usr/bin/env python3
"""Measures the bytes and the memory of workers with sharded weights.

    tests/bench/parallel/sharded_weights.py PROGRAM [--width 512] [--layers 12]
                                   [--micro-batches 1,2,4,8] [--steps 12]

PROGRAM is the program `tributary`. Trains a GPT with one worker, without and
with `parallel.sharded_weights`, with and without `parallel.recompute`. For each
run, prints the bytes that the server sends and receives in a step, in model
sizes; the worker's peak memory, and what the worker's log predicts. Fails if
the weights differ, or if a step with sharded weights moves more than 3.05 model
sizes.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BATCH = 8


def worker_memory(output):
    """Returns the private memory of the run's worker in bytes, or 0."""
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
            if len(arguments) < 2 or arguments[1] != b"worker":
                continue
            if str(output).encode() not in b" ".join(arguments):
                continue
            status = (folder / "status").read_text()
        except OSError:
            continue  # It has ended.
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        return 1024 * int(found.group(1)) if found else 0
    return 0


def train(arguments, output, settings):
    command = [arguments.program, "train",
               str(ROOT / "examples/licenses.textproto"),
               "--steps", str(arguments.steps), "--workers", "1",
               "--threads", "1", "--output", str(output), "--quiet",
               "--set", "model={ gpt { layers: %d heads: 8 width: %d "
               "context: 64 } }" % (arguments.layers, arguments.width),
               "--set", "exchange.transport=WIRE",
               "--set", "evaluation.disabled=true",
               "--set", "checkpoint.every_seconds=0",
               "--set", "output.log_every_steps=1"]
    for setting in settings:
        command += ["--set", setting]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, worker_memory(output))
        time.sleep(0.02)
    if process.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}")
    summary = json.loads((output / "summary.json").read_text())
    size = 4 * summary["parameters"]
    sent = received = 0
    for process in summary["processes"]:
        if process.get("role") == "server":
            sent += process["bytes_sent"]
            received += process["bytes_received"]
    log = "".join(path.read_text()
                  for path in (output / "logs").glob("*worker*"))
    predicted = re.search(r"needs ([\d.]+) MB", log)
    # The first version comes from the worker, and without sharded weights goes
    # back to it.
    steps = arguments.steps
    return {"digest": summary["weights_sha256"], "peak": peak,
            "predicted": 1e6 * float(predicted.group(1)) if predicted else 0,
            "sent": sent / size / steps,
            "received": (received / size - 1) / steps,
            "size": size}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--micro-batches", default="1,2,4,8")
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    arguments.program = str(pathlib.Path(arguments.program).resolve())
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for text in arguments.micro_batches.split(","):
            batch = "batch={ global: %d micro_batches: %s }" % (BATCH, text)
            whole = train(arguments, pathlib.Path(folder) / f"whole{text}",
                          [batch])
            print(f"{text} micro-batches, model of {whole['size'] / 1e6:.0f} "
                  f"MB: undivided {whole['sent'] + whole['received']:.2f} "
                  f"model sizes, {whole['peak'] / 1e6:.0f} MB", flush=True)
            for recompute in ("false", "true"):
                run = train(arguments,
                            pathlib.Path(folder) / f"run{text}{recompute}",
                            [batch, "parallel={ sharded_weights: true "
                             "recompute: %s }" % recompute])
                moved = run["sent"] + run["received"]
                equal = run["digest"] == whole["digest"]
                wrong += not equal or moved > 3.05
                print(f"  sharded, recompute {recompute}: {moved:.2f} model "
                      f"sizes, {run['peak'] / 1e6:.0f} MB, predicted "
                      f"{run['predicted'] / 1e6:.0f} MB, "
                      f"{'equal' if equal else 'DIFFERENT'} weights",
                      flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
