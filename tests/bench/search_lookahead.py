#!/usr/bin/env python3
"""What the information rule of `tributary tune` costs on COCO's test functions.

    pip install optuna coco-experiment
    python3 tests/bench/search_lookahead.py [--evaluations 100] [--suite bbob]

Optimizes each function with TPE, in sequence (lookahead 1), and as with four trials at
a time (lookahead 4), where trial n is chosen from the results of trials up to n - 4.
Counts the targets that both reach with the same number of evaluations: the values
f_opt + 10^(2 - 0.2 k), k = 0 ... 50. Uses the program that proposes in `tributary tune`.
"""

import argparse
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "deploy", "tools", "tune"))

import cocoex  # noqa: E402
import optuna_proposals  # noqa: E402

TARGETS = [10 ** (2 - 0.2 * k) for k in range(51)]
RUNNING, COMPLETE = 0, 1


def parameters_of(problem):
    parameters = []
    for i in range(problem.dimension):
        low, high = problem.lower_bounds[i], problem.upper_bounds[i]
        integer = i < problem.number_of_integer_variables
        parameters.append({
            "name": f"x{i}", "integer": integer,
            "low": int(low) if integer else float(low),
            "high": int(high) if integer else float(high),
            "log": False, "step": 1 if integer else None})
    return parameters


def optimum_of(problem):
    """Returns the smallest value of the function. COCO tells where it is in a file."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            problem._best_parameter("print")
            with open("._bbob_problem_best_parameter.txt", encoding="utf-8") as file:
                return problem([float(text) for text in file.read().split()])
        finally:
            os.chdir(before)


def minimize(problem, evaluations, lookahead, seed):
    """Returns the best value of a search."""
    parameters = parameters_of(problem)
    proposer, answer = optuna_proposals.open_search({
        "parameters": parameters, "sampler": "TPE", "seed": seed,
        "directions": ["minimize"]})
    if proposer is None:
        sys.exit(answer["error"])
    trials, changes = [], []
    for n in range(evaluations):
        if n - lookahead >= 0:
            known = trials[n - lookahead]
            known["state"], known["values"] = COMPLETE, [known["result"]]
            changes.append(known)
        answer = proposer.propose(n, changes)
        result = problem([answer["params"][p["name"]] for p in parameters])
        trials.append({"number": n, "state": RUNNING, "params": answer["params"],
                       "values": None, "intermediate_values": {},
                       "attributes": answer["attributes"], "result": float(result)})
        changes = [trials[n]] if lookahead > 1 else []
    return min(trial["result"] for trial in trials)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=100)
    parser.add_argument("--suite", default="bbob", choices=["bbob", "bbob-mixint"])
    parser.add_argument("--dimensions", default="")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    dimensions = arguments.dimensions or ("2,5" if arguments.suite == "bbob" else "5")
    suite = cocoex.Suite(arguments.suite, "instances: 1",
                         f"dimensions: {dimensions} instance_indices: 1")
    reached = {1: 0, 4: 0}
    problems = 0
    for problem in suite:
        for seed in range(arguments.seeds):
            optimum = optimum_of(problem)
            for lookahead in reached:
                best = minimize(problem, arguments.evaluations, lookahead, 1000 * seed)
                reached[lookahead] += sum(best - optimum <= target for target in TARGETS)
        problems += 1
    print(f"{arguments.suite}, dimensions {dimensions}: {problems} problems, "
          f"{arguments.seeds} seeds, {arguments.evaluations} evaluations: targets reached "
          f"{reached[1]} in sequence, {reached[4]} with lookahead 4 "
          f"({100 * (reached[4] / reached[1] - 1):+.1f} %)")


if __name__ == "__main__":
    main()
