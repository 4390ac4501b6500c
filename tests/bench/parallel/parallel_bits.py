#!/usr/bin/env python3
"""Compares jobs whose model is divided with the same jobs in one piece.

    tests/bench/parallel/parallel_bits.py PROGRAM [--runs-only]

PROGRAM is the program `tributary`. Trains each model once in one piece, and
then with combinations of stages, replicas, schedule, transport, recomputation,
clipping, servers, sharded weights and local steps: a pairwise covering array,
so that every pair of values of two parameters occurs in some run. Fails if
`weights_sha256` differs anywhere, and prints a table. The array is a function of this file: no random numbers of
the machine are used.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from covering_array import covering_array  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Small models with all that a cut can meet: several layers, dropout, a tied
# head, residual connections and batch norm.
MODELS = {
    "mlp": ["model={ mlp { hidden: 64 hidden: 48 hidden: 32 } }",
            "data={ random { samples: 512 shape: 40 classes: 10 } }",
            "batch={ global: 32 micro_batches: 8 }"],
    "gpt": ["model={ gpt { layers: 3 heads: 2 width: 32 context: 16 "
            "dropout: 0.1 } }",
            "batch={ global: 16 micro_batches: 8 }"],
    "resnet": ["model={ resnet { layers: [1, 1] width: 8 } }",
               "data={ random { samples: 128 shape: [3, 16, 16] "
               "classes: 10 } }",
               "batch={ global: 16 micro_batches: 8 }"],
}

# Small chunks, so that several stages share some.
COMMON = ["exchange.parameter_server.chunk_bytes=4096"]

STEPS = {
    "plain": ["clip_norm=0"],
    "clip": ["clip_norm=0.5"],
    # The last round has fewer steps.
    "local": ["clip_norm=0", "exchange.parameter_server.consistency="
              "{ local_steps { inner_steps: 4 } }"],
}

PARAMETERS = {
    "model": list(MODELS),
    "stages": [1, 2, 3, 4],
    "replicas": [1, 2, 3],
    "schedule": ["ZERO_BUBBLE", "ONE_F_ONE_B", "GPIPE"],
    "transport": ["AUTO", "WIRE"],
    "recompute": [False, True],
    # Plain steps, clipped ones, or local steps (not with sharded weights).
    "steps": ["plain", "clip", "local"],
    "servers": [1, 2],
    # Instead of a pipeline; stages and schedule then have no meaning.
    "sharded_weights": [False, True],
}


def train(program, model, output, settings, workers, servers):
    """Returns the digest of the final weights, or why there is none."""
    command = [program, "train", str(ROOT / "examples/licenses.textproto"),
               "--steps", "6", "--workers", str(workers), "--servers",
               str(servers), "--output", str(output)]
    for setting in MODELS[model] + COMMON + settings:
        command += ["--set", setting]
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        lines = done.stdout.strip().splitlines()
        return "failed: " + (lines[-1] if lines else "no output")
    summary = json.loads((output / "summary.json").read_text())
    return summary["weights_sha256"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--runs-only", action="store_true",
                        help="print the runs, and do not train")
    arguments = parser.parse_args()
    rows = covering_array(PARAMETERS)
    if arguments.runs_only:
        for row in rows:
            print(row)
        return 0
    program = str(pathlib.Path(arguments.program).resolve())
    whole = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, row in enumerate(rows):
            common = STEPS[row["steps"]]
            if row["steps"] == "local" and row["sharded_weights"]:
                common = STEPS["plain"]
            key = (row["model"], *common)
            if key not in whole:
                whole[key] = train(program, row["model"],
                                   pathlib.Path(folder) / f"whole{len(whole)}",
                                   common, workers=1, servers=1)
            sharded = row["sharded_weights"]
            divided = ("sharded_weights: true" if sharded else
                       "pipeline { stages: %d schedule: %s }" % (
                           row["stages"], row["schedule"]))
            options = common + [
                f"exchange.transport={row['transport']}",
                "parallel={ %s recompute: %s }" % (
                    divided, str(row["recompute"]).lower())]
            stages = 1 if sharded else row["stages"]
            digest = train(program, row["model"],
                           pathlib.Path(folder) / f"run{number}", options,
                           workers=stages * row["replicas"],
                           servers=row["servers"])
            equal = digest == whole[key] and not digest.startswith("failed")
            wrong += not equal
            print("equal" if equal else f"DIFFERENT ({digest})",
                  " ".join(f"{name}={value}" for name, value in row.items()),
                  flush=True)
    print(f"{len(rows)} runs, {wrong} different")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
