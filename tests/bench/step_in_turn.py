#!/usr/bin/env python3
"""Times a training step of Tributary and of PyTorch in turn, on one core; prints a table.

    step_in_turn.py TRIBUTARY MODEL [--python PYTHON] [--batch N] [--context N] [--rounds 5] [--seconds 10] [--core 0]
                    [--precision FLOAT32]

TRIBUTARY is the program, MODEL a model of `tributary bench step`. Each round times both systems, one process of one
thread each, pinned to the same core. `memory` is the largest resident size of the process. The last line has the
median of the ratios of the rounds. Machines drift, and other programs disturb: believe only ratios of one run.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run(command, core):
    """Runs a command that prints a JSON object. Returns the object and the largest resident size in MiB."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    process = subprocess.Popen(["taskset", "-c", str(core), *command], stdout=subprocess.PIPE, env=environment)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed")
    return json.loads(output.splitlines()[-1]), usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tributary")
    parser.add_argument("model")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", default="10")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--precision", default="FLOAT32")
    args = parser.parse_args()
    ours = [args.tributary, "bench", "step", args.model, "--json", "--seconds", args.seconds,
            "--set", f"precision={args.precision}"]
    theirs = [args.python, os.path.join(HERE, "torch_step.py"), args.model, "--seconds", args.seconds,
              "--precision", args.precision]
    if args.batch:
        ours += ["--batch", str(args.batch)]
        theirs += ["--batch", str(args.batch)]
    if args.context:
        ours += ["--set", f"model.gpt.context={args.context}"]
        theirs += ["--context", str(args.context)]
    ratios = []
    print("| round | Tributary ms | PyTorch ms | ratio | Tributary MiB | PyTorch MiB |\n| --- " + "| --- " * 5 + "|")
    for number in range(args.rounds):
        (mine, memory), (peer, peer_memory) = run(ours, args.core), run(theirs, args.core)
        ratios.append((mine["median_ms"] / peer["median_ms"], memory / peer_memory))
        print(f"| {number + 1} | {mine['median_ms']:.1f} | {peer['median_ms']:.1f} | {ratios[-1][0]:.3f} "
              f"| {memory:.0f} | {peer_memory:.0f} |", flush=True)
    time, memory = (statistics.median(column) for column in zip(*ratios))
    print(f"median ratio of the times {time:.3f}, of the memory {memory:.3f}")


if __name__ == "__main__":
    main()
