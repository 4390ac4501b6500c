#!/usr/bin/env python3
"""Measures the speed-up of a pipeline over one worker with one thread.

    tests/bench/parallel/pipeline_speed.py PROGRAM [--stages 2] [--micro-batches 4,8]
                                  [--steps 60] [--rounds 3] [--torch PYTHON]

PROGRAM is the program `tributary`. Trains a GPT whose layers divide evenly, in
turn with one worker and with one worker for each stage, all with one thread, and
prints the medians of the steps' times. `limit` is what the schedule allows if
all passes of all stages take the same time and transfers take none. With
--torch, PYTHON (which has PyTorch) trains the same model in turn with them, in
one process and with the schedules of torch.distributed.pipelining.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]

MODEL = ("model={ gpt { layers: %d heads: 4 width: 256 context: 128 "
         "tied_head: false } }")
SAMPLES = 4  # In a micro-batch.
SCHEDULES = ["ZERO_BUBBLE", "ONE_F_ONE_B", "GPIPE"]
TORCH_SCHEDULES = ["1F1B", "InterleavedZeroBubble", "ZBVZeroBubble",
                   "DualPipeV"]


def limit(schedule, stages, micro_batches):
    passes = 3 * micro_batches
    idle = stages - 1 if schedule == "ZERO_BUBBLE" else 3 * (stages - 1)
    return stages * passes / (passes + idle)


def step_seconds(program, settings, workers, steps):
    """Returns the median of the step times, without the first ones."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "run"
        command = [program, "train", str(ROOT / "examples/licenses.textproto"),
                   "--steps", str(steps), "--workers", str(workers),
                   "--threads", "1", "--output", str(output), "--quiet",
                   "--set", "output.log_every_steps=5",
                   "--set", "evaluation.disabled=true",
                   "--set", "checkpoint.every_seconds=0"]
        for setting in settings:
            command += ["--set", setting]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        lines = (output / "metrics.jsonl").read_text().splitlines()
        times = [json.loads(line).get("step_seconds") for line in lines]
        return statistics.median([time for time in times[2:] if time])


def torch_seconds(python, schedule, arguments, micro_batches):
    """Returns the median of PyTorch's step times."""
    script = pathlib.Path(__file__).with_name("torch_pipeline.py")
    output = subprocess.run(
        [python, str(script), "--schedule", schedule,
         "--stages", str(arguments.stages), "--layers", str(arguments.layers),
         "--samples", str(SAMPLES), "--micro-batches", str(micro_batches),
         "--steps", str(arguments.steps // 2)],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return json.loads(output.splitlines()[-1])["step_ms"] / 1e3


def show(name, whole, staged, remark=""):
    ratios = [a / b for a, b in zip(whole, staged)]
    print(f"  {name}: {1e3 * statistics.median(staged):.1f} ms, speed-up "
          f"{statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f}){remark}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--micro-batches", default="4,8")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--torch")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.program).resolve())
    for text in arguments.micro_batches.split(","):
        count = int(text)
        common = [MODEL % arguments.layers,
                  "batch={ global: %d micro_batches: %d }" %
                  (SAMPLES * count, count)]
        whole = []
        staged = {schedule: [] for schedule in SCHEDULES}
        torch_whole = []
        torch_staged = {schedule: [] for schedule in TORCH_SCHEDULES}
        for _ in range(arguments.rounds):
            whole.append(step_seconds(program, common, 1, arguments.steps))
            for schedule in SCHEDULES:
                pipeline = ("parallel.pipeline={ stages: %d schedule: %s }" %
                            (arguments.stages, schedule))
                staged[schedule].append(
                    step_seconds(program, common + [pipeline],
                                 arguments.stages, arguments.steps))
            if not arguments.torch:
                continue
            torch_whole.append(
                torch_seconds(arguments.torch, "none", arguments, count))
            for schedule in TORCH_SCHEDULES:
                torch_staged[schedule].append(
                    torch_seconds(arguments.torch, schedule, arguments, count))
        print(f"{count} micro-batches: one worker "
              f"{1e3 * statistics.median(whole):.1f} ms", flush=True)
        for schedule in SCHEDULES:
            ratio = limit(schedule, arguments.stages, count)
            show(schedule, whole, staged[schedule], f", limit {ratio:.2f}")
        if arguments.torch:
            print(f"  PyTorch: one process "
                  f"{1e3 * statistics.median(torch_whole):.1f} ms", flush=True)
            for schedule in TORCH_SCHEDULES:
                show(f"PyTorch {schedule}", torch_whole,
                     torch_staged[schedule])
    return 0


if __name__ == "__main__":
    sys.exit(main())
