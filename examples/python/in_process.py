"""Trains digits.py in this process, as in a notebook. The first argument is the folder
of the run."""
import sys

import digits
import tributary


def main(run, settings=None):
    summary = tributary.train('digits.textproto', run, worker=digits.main, workers=2,
                              in_process=True, settings=settings or {'epochs': 2},
                              on_step=lambda metrics: print(metrics['loss']))
    print('accuracy', summary['evaluation']['accuracy'])


if __name__ == '__main__':
    main(sys.argv[1])
