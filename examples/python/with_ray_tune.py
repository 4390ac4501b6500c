"""A search with Ray Tune that finds the learning rate of regression.py:

    pip install 'ray[tune]'
    python3 with_ray_tune.py

Ray's ASHA stops trials that are worse than the others after the same number of steps.
"""
import os
import sys

import ray
from ray import tune

import tributary

FOLDER = os.path.dirname(os.path.abspath(__file__))


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    # The names in param_space are fields of the job.
    trainable = tributary.ray.trainable(
        os.path.join(FOLDER, 'regression.textproto'),
        settings={'steps': 90, 'evaluation.every_steps': 10},
        worker_command=[sys.executable, os.path.join(FOLDER, 'regression.py')])
    tuner = tune.Tuner(
        trainable,
        param_space={'optimizer.sgd.learning_rate': tune.loguniform(1e-3, 1)},
        tune_config=tune.TuneConfig(
            metric='evaluation_loss', mode='min', num_samples=6,
            scheduler=tune.schedulers.ASHAScheduler(
                time_attr='steps', grace_period=10, max_t=90, reduction_factor=3)),
        run_config=tune.RunConfig(storage_path=os.path.abspath('runs'), name='regression'))
    best = tuner.fit().get_best_result()
    print('best', best.config, best.metrics['evaluation_loss'], best.path)


if __name__ == '__main__':
    main()
