"""Trains digits.py with two workers, and reads the result. The first argument is the
folder of the run."""
import sys

import digits
import tributary


def main(run):
    summary = tributary.train('digits.textproto', run, worker_command='digits.py',
                              workers=2, settings={'epochs': 2})
    print('accuracy', summary['evaluation']['accuracy'])
    metrics = tributary.read_metrics(run)
    print('losses', metrics['loss'])
    network = digits.make_network()
    tributary.load(run, network)
    network.eval()
    images, labels = digits.make_digits(5, seed=3)
    print(network(images).argmax(dim=1), labels)


if __name__ == '__main__':
    main(sys.argv[1])
