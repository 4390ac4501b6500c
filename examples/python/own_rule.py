"""An optimizer of the program's own, with a schedule of PyTorch:

    tributary train own_rule.textproto --worker-command 'python3 own_rule.py'
"""
import digits
import torch
import tributary
from torch import nn


class SignSgd(torch.optim.Optimizer):
    """Moves each weight by `lr` against the sign of its gradient's moving average
    (Bernstein et al., 2018)."""

    def __init__(self, parameters, lr, momentum=0.9):
        super().__init__(parameters, {'lr': lr, 'momentum': momentum})

    def step(self):
        for group in self.param_groups:
            for parameter in group['params']:
                state = self.state[parameter]
                if not state:
                    state['average'] = torch.zeros_like(parameter)
                state['average'].lerp_(parameter.grad, 1 - group['momentum'])
                parameter.add_(state['average'].sign(), alpha=-group['lr'])


def main():
    session = tributary.connect()
    x, y = digits.make_digits(digits.SAMPLES, seed=1)
    network = digits.make_network()
    optimizer = SignSgd(network.parameters(), lr=0.002)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=50, gamma=0.5)
    model = tributary.DistributedDataParallel(network, session, rule=[optimizer, schedule])
    loss_fn = nn.CrossEntropyLoss()
    for step in session:
        for batch in step.micro_batches:
            batch.backward(loss_fn(model(x[batch.indices]), y[batch.indices]))


if __name__ == '__main__':
    main()
