#!/usr/bin/env python3
"""Measures what it costs to observe a job.

Trains the built-in gpt with one server and one worker, in turn: without
anything; with the metrics of both processes scraped once a second (Prometheus
does so every 15 s); with TensorBoard files; with a trace of all steps but the
first ten; and with all of them. In each round, the variants run one after the
other. Prints, for each variant, the median over the rounds of two ratios to the
run without anything of the same round: of the median time of a step, and of the
CPU time of all processes.

  tests/bench/observability.py bazel-bin/deploy/tributary [--rounds N]
      [--steps N]
"""

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request


def scrape(run, stop, bodies):
    """Asks every process of the run for its metrics until `stop` is set."""
    targets = run / "prometheus-targets.json"
    while not stop.wait(1.0):
        try:
            groups = json.loads(targets.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            continue
        for address in (a for group in groups for a in group["targets"]):
            try:
                with urllib.request.urlopen(f"http://{address}/metrics",
                                            timeout=5) as answer:
                    bodies.append(len(answer.read()))
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass  # The process has not begun, or has ended.


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def train(program, folder, name, steps, port, tensorboard, trace):
    """The median time of a step, CPU seconds in all, and number of scrapes."""
    run = pathlib.Path(folder, name)
    command = [program, "train", "--workers", "1", "--threads", "1", "--steps",
               str(steps), "--output", str(run), "--log-every", "1",
               "--set", f"output.tensorboard={str(tensorboard).lower()}",
               "--set", "checkpoint.every_steps=0",
               "--set", "evaluation.disabled=true"]
    if port:
        command += ["--metrics-listen", f"127.0.0.1:{port}"]
    if trace:
        command += ["--trace-steps", trace]
    stop, bodies = threading.Event(), []
    scraper = threading.Thread(target=scrape, args=(run, stop, bodies))
    if port:
        scraper.start()
    before = cpu_seconds()
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    stop.set()
    if port:
        scraper.join()
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}")
    lines = [json.loads(line) for line in
             (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    times = [line["step_seconds"] for line in lines
             if line.get("step_seconds")][5:]
    return statistics.median(times), cpu_seconds() - before, len(bodies)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--port", type=int, default=29590)
    flags = parser.parse_args()
    steps = f"10:{flags.steps}"
    variants = {"nothing": (0, False, ""), "metrics": (flags.port, False, ""),
                "tensorboard": (0, True, ""), "trace": (0, False, steps),
                "all": (flags.port, True, steps)}
    results = {name: [] for name in variants}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(flags.rounds):
            for name, (port, tensorboard, trace) in variants.items():
                results[name].append(train(
                    flags.program, folder, f"{name}-{i}", flags.steps, port,
                    tensorboard, trace))
    print("variant          step    ratio of step (each round)"
          "        ratio of CPU time (each round)   scrapes")
    for name, rounds in results.items():
        ratios = [[one[k] / base[k] for one, base in
                   zip(rounds, results["nothing"])] for k in (0, 1)]
        print(f"{name:15} {1e3 * statistics.median(r[0] for r in rounds):5.1f} "
              "ms", *(f"  {statistics.median(r):.3f} "
                      f"({' '.join(f'{x:.3f}' for x in r)})" for r in ratios),
              f"  {sum(r[2] for r in rounds)}")


if __name__ == "__main__":
    main()
