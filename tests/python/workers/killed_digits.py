"""The example digits.py, of which worker 1 is killed once in the middle of a step."""

import os
import signal
import sys

import torch

sys.path.insert(0, os.environ['EXAMPLES'])

import digits  # noqa: E402


def kill_once(_):
    marker = os.environ['MARKER']
    if os.environ['TRIBUTARY_RANK'] == '1' and not os.path.exists(marker):
        kill_once.calls += 1
        if kill_once.calls == 20:
            with open(marker, 'w', encoding='utf-8'):
                os.kill(os.getpid(), signal.SIGKILL)


kill_once.calls = 0
make_network = digits.make_network


def make_network_that_kills():
    network = make_network()
    # Called by backward, when some of the gradients have been sent.
    torch.nn.Module.register_full_backward_hook(network[4], lambda *_: kill_once(None))
    return network


if __name__ == '__main__':
    digits.make_network = make_network_that_kills
    digits.main()
