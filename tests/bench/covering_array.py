"""Combinations of parameters for the scripts that compare runs."""

import itertools
import random


def covering_array(parameters):
    """Returns rows, each with a value of every parameter, that contain each pair
    of values of two parameters. `parameters` maps names to lists of values. The
    rows are a function of the argument.

    Greedy: each row is the best of some candidates, which begin with a pair
    that no row has yet.
    """
    choose = random.Random(1)
    names = list(parameters)
    missing = set()
    for a, b in itertools.combinations(names, 2):
        for x in parameters[a]:
            for y in parameters[b]:
                missing.add((a, x, b, y))

    def pairs(row):
        return {(a, row[a], b, row[b])
                for a, b in itertools.combinations(names, 2)}

    rows = []
    while missing:
        a, x, b, y = sorted(missing, key=str)[0]
        best = None
        for _ in range(200):
            row = {name: choose.choice(parameters[name]) for name in names}
            row[a], row[b] = x, y
            gain = len(pairs(row) & missing)
            if best is None or gain > best[0]:
                best = (gain, row)
        rows.append(best[1])
        missing -= pairs(best[1])
    return rows
