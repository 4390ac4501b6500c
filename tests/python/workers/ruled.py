"""Trains a network with a rule of the program, as a worker or, as `ruled.py FILE
STEPS`, in a loop of plain PyTorch, which writes its weights to FILE.

The variable RULE is the kind of the rule. In the middle of a step, worker 1 once kills
KILL, itself ('worker') or the 'server', or leaves the job, and writes the file MARKER. END
is a folder in which workers save their modules at the end. WIDTH is that of the network.
"""

import os
import signal
import sys

import numpy as np
import torch
from torch import nn

SAMPLES, BATCH, MICRO_BATCHES, SEED = 96, 32, 4, 11
KILLED_STEP = 6


class SignSgd(torch.optim.Optimizer):
    """Has a tensor, and numbers of Python, in its state."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {'lr': lr})

    def step(self):
        for group in self.param_groups:
            for parameter in group['params']:
                state = self.state[parameter]
                if not state:
                    state.update(average=torch.zeros_like(parameter), rate=1.0, steps=0)
                state['steps'] += 1
                state['rate'] *= 0.97
                state['average'].lerp_(parameter.grad, 0.1)
                parameter.add_(state['average'].sign(), alpha=-group['lr'] * state['rate'])


class Noisy:
    """Without a base class. Draws random numbers."""

    def __init__(self, parameters):
        self._parameters, self._count = list(parameters), 0

    def step(self):
        self._count += 1
        for parameter in self._parameters:
            noise = torch.randn_like(parameter) + float(np.random.rand())
            parameter.sub_(0.01 * parameter.grad + 1e-4 / self._count * noise)

    def state_dict(self):
        return {'count': self._count}

    def load_state_dict(self, state):
        self._count = state['count']


class Precise(torch.optim.Optimizer):
    """Its state is of type float64, which load_state_dict makes float32."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self):
        for parameter in self.param_groups[0]['params']:
            self.state[parameter]['sum'] = parameter.grad.double()


class Unsaved(Noisy):

    def state_dict(self):
        return {'made_by': {'object': object()}}


def make_rule(kind, network):
    parameters = network.parameters()
    if kind == 'adamw':
        return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)
    if kind == 'adagrad':
        return torch.optim.Adagrad(parameters, lr=0.05)
    if kind == 'schedule':
        optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        return [optimizer, torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5, 9], 0.5)]
    if kind == 'part':
        return torch.optim.SGD(network[0].parameters(), lr=0.1)
    return {'sign': lambda p: SignSgd(p, lr=0.01), 'noisy': Noisy,
            'precise': Precise, 'unsaved': Unsaved,
            'other': lambda _: torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1),
            'nothing': lambda _: object(), 'none': lambda _: None}[kind](parameters)


def make_task():
    generator = torch.Generator().manual_seed(SEED)
    x = torch.randn(SAMPLES, 6, generator=generator)
    torch.manual_seed(SEED)
    width = int(os.environ.get('WIDTH', 64))
    network = nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 1))
    return x, x.prod(dim=1, keepdim=True), network


def fails_once(step):
    """Kills a process, or returns whether this worker leaves the job."""
    marker = os.environ.get('MARKER')
    if marker is None or os.environ['TRIBUTARY_RANK'] != '1' or step < KILLED_STEP or \
            os.path.exists(marker):
        return False
    with open(marker, 'w', encoding='utf-8') as file:
        file.write(str(step))
    if os.environ['KILL'] == 'worker':
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ['KILL'] == 'nothing':
        return True
    launcher = os.getppid()
    with open(f'/proc/{launcher}/task/{launcher}/children', encoding='utf-8') as file:
        for child in file.read().split():
            with open(f'/proc/{child}/cmdline', encoding='utf-8') as command:
                if '\0server\0' in command.read():
                    os.kill(int(child), signal.SIGKILL)
    return False


def work():
    import tributary
    session = tributary.connect()
    x, y, network = make_task()
    rule = make_rule(os.environ['RULE'], network)
    model = tributary.DistributedDataParallel(network, session, rule=rule)
    for step in session:
        for batch in step.micro_batches:
            loss = nn.functional.mse_loss(model(x[batch.indices]), y[batch.indices])
            if fails_once(batch.step):
                session.close()
                return
            batch.backward(loss)
        for piece in step.evaluation:
            loss = nn.functional.mse_loss(model(x[piece.indices]), y[piece.indices])
            piece.report(loss_sum=loss.item() * len(piece.indices))
    if 'END' in os.environ:
        torch.save(network.state_dict(), os.path.join(
            os.environ['END'], os.environ['TRIBUTARY_RANK']))


def plain(file, steps):
    import tributary
    torch.set_num_threads(1)
    job = tributary.Job('', '', {}, 7, SAMPLES, 0, 0, BATCH, MICRO_BATCHES)
    x, y, network = make_task()
    rule = make_rule(os.environ['RULE'], network)
    for step in range(int(steps)):
        indices = np.concatenate([job.indices(step, number)
                                  for number in range(MICRO_BATCHES)])
        network.zero_grad()
        nn.functional.mse_loss(network(x[indices]), y[indices]).backward()
        with torch.no_grad():
            for part in rule if isinstance(rule, list) else [rule]:
                part.step()
    torch.save(network.state_dict(), file)


if __name__ == '__main__':
    if len(sys.argv) > 1:
        plain(*sys.argv[1:])
    else:
        work()
