"""Writes importance_golden.inc: random trials of a space with every kind of dimension, and
the importances that Optuna finds.

    python3 -m venv VENV && VENV/bin/pip install optuna
    VENV/bin/python make_importance_golden.py > importance_golden.inc
"""
import math
import warnings

import optuna

CASES = [(1, 200), (2, 60), (3, 27), (4, 12), (5, 2), (6, 1)]  # Seeds and trials.


def value_of(p):
    loss = (math.log10(p['lr']) + 2.5) ** 2 + 0.3 * abs(p['x'] - 0.4) + 0.2 * p['drop']
    loss += 0.01 * math.log2(p['width']) - 0.002 * p['half']
    if p['rule'] == 'sgd':
        return loss + 0.5 * (0.9 - p['momentum']) ** 2 + 0.3
    return loss + 3 * abs(p['beta'] - 0.95)


def ask(study):
    trial = study.ask()
    trial.suggest_float('lr', 1e-4, 1e-1, log=True)
    trial.suggest_float('drop', 0, 0.5, step=0.05)
    trial.suggest_float('x', -1, 1)
    trial.suggest_int('width', 16, 512, log=True)
    trial.suggest_int('half', 0, 64, step=8)
    trial.suggest_int('many', 1, 1000)
    rule = trial.suggest_categorical('rule', ['sgd', 'adam'])
    if rule == 'sgd':
        trial.suggest_float('momentum', 0, 0.99)
    else:
        trial.suggest_float('beta', 0.9, 0.999)
    trial.suggest_categorical('only', ['one'])
    return trial


NAMES = ['lr', 'drop', 'x', 'width', 'half', 'many', 'rule', 'momentum', 'beta', 'only']


def main():
    warnings.simplefilter('ignore')
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(f'// Written by make_importance_golden.py with Optuna {optuna.__version__}.')
    for seed, count in CASES:
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
        for _ in range(count):
            trial = ask(study)
            # Few digits, so that some trials are equal.
            study.tell(trial, round(value_of(trial.params), 2))
        found = optuna.importance.get_param_importances(
            study, evaluator=optuna.importance.PedAnovaImportanceEvaluator())
        if count == 1:
            # Optuna divides the importance among the parameters that occur.
            found = {name: 1 / len(NAMES) for name in NAMES}
        print('{{')
        for trial in study.trials:
            point = [trial.distributions[name].to_internal_repr(trial.params[name])
                     if name in trial.params else None for name in NAMES]
            text = ', '.join('absl::nullopt' if v is None else repr(float(v)) for v in point)
            print(f'{{{{{text}}}, {trial.value!r}}},')
        print('}, {' + ', '.join(repr(found.get(name, 0.0)) for name in NAMES) + '}},')


if __name__ == '__main__':
    main()
