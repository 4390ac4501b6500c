"""A study of Optuna that finds the learning rate of regression.py:

    pip install optuna
    python3 with_optuna.py

Trials that are worse than the others after the same number of steps are pruned.
"""
import os
import sys

import optuna

import tributary

FOLDER = os.path.dirname(os.path.abspath(__file__))


def space(trial):
    """Returns the fields of the job that the trial changes."""
    return {'optimizer.sgd.learning_rate':
                trial.suggest_float('learning_rate', 1e-3, 1, log=True)}


def main():
    objective = tributary.optuna.objective(
        os.path.join(FOLDER, 'regression.textproto'), space, metric='evaluation.loss',
        settings={'evaluation.every_steps': 10},
        worker_command=[sys.executable, os.path.join(FOLDER, 'regression.py')])
    study = optuna.create_study(
        study_name='regression', sampler=optuna.samplers.TPESampler(seed=1),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=3))
    # Values that the job cannot be trained with make a failed trial.
    study.optimize(objective, n_trials=12, catch=(tributary.JobFailed,))
    print('best', study.best_params, study.best_value, study.best_trial.user_attrs['run'])


if __name__ == '__main__':
    main()
