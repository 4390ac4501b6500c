#!/usr/bin/env python3
"""What one slow machine costs in each consistency mode.

Trains a small GPT with two workers, each with one core, and once more while
another program takes half of the second one's core. The fair share of the
speed is then 3/4: less is what the fast worker loses by waiting. Needs two
cores that do nothing else.

  tests/bench/slow_peer.py bazel-bin/deploy/tributary
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

MODES = {
    "synchronous": "synchronous {}",
    "stale_synchronous": "stale_synchronous { staleness: 2 }",
    "asynchronous": "asynchronous {}",
    "local_steps": "local_steps { inner_steps: 10 }",
}
JOB = """
model {{ gpt {{ layers: 2 heads: 4 width: 96 context: 64 }} }}
data {{ text {{ path: "/usr/share/common-licenses/GPL-3" }} }}
batch {{ global: 32 micro_batches: 8 }}
optimizer {{ adamw {{ learning_rate: 1e-3 }} }}
evaluation {{ disabled: true }}
output {{ log_every_steps: 10 sample_bytes: 0 }}
steps: {steps}
exchange {{ parameter_server {{ consistency {{ {mode} }} }} }}
"""


def steps_per_second(program, mode, steps):
    """Over the second half: by then micro-batches have been assigned by speed."""
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder, "job.textproto")
        job.write_text(JOB.format(mode=mode, steps=steps), encoding="utf-8")
        server = subprocess.Popen(
            [program, "server", str(job), "--listen", "127.0.0.1:0",
             "--workers", "2", "--output", folder + "/run"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        workers = []
        try:
            line = server.stderr.readline()
            while line and "listen" not in line:
                line = server.stderr.readline()
            port = line.rsplit("127.0.0.1:", 1)[1].split()[0].strip("\"',.")
            workers = [subprocess.Popen(
                ["taskset", "-c", str(core), program, "worker", "--threads",
                 "1", "--coordinator", "127.0.0.1:" + port],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                       for core in (0, 1)]
            server.communicate()
            for worker in workers:
                worker.wait()
        finally:
            for process in [server, *workers]:
                if process.poll() is None:
                    process.kill()
        lines = [json.loads(line) for line in
                 pathlib.Path(folder, "run", "metrics.jsonl").read_text(
                     encoding="utf-8").splitlines()]
    lines = [line for line in lines if line["step"] >= steps // 2]
    first, last = lines[0], lines[-1]
    return (last["step"] - first["step"]) / (last["seconds"] - first["seconds"])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", help="the tributary program")
    parser.add_argument("--steps", type=int, default=800)
    arguments = parser.parse_args()
    print("| mode | steps/s alone | beside a busy program | share (fair: 0.75) |")
    print("| --- | --- | --- | --- |")
    for name, mode in MODES.items():
        alone = steps_per_second(arguments.program, mode, arguments.steps)
        busy = subprocess.Popen(["taskset", "-c", "1", sys.executable, "-c",
                                 "while True: pass"])
        try:
            slowed = steps_per_second(arguments.program, mode, arguments.steps)
        finally:
            busy.kill()
            busy.wait()
        print(f"| `{name}` | {alone:.1f} | {slowed:.1f} |"
              f" {slowed / alone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
