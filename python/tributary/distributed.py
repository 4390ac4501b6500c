"""Trains a PyTorch module as a worker of a job."""

from __future__ import annotations

from typing import Any

import torch

from ._module import Buffers, ModuleWorker, NoDecay, ParameterGroups
from .items import EvaluationPiece
from .session import Session


class DistributedDataParallel(torch.nn.Module):
    """A module whose weights come from a job's servers, which also run the optimizer.

    Wrap the module after `connect`, which seeds its initial values, and call the
    wrapped module in the loops over `session`:

        session = tributary.connect()
        model = tributary.DistributedDataParallel(Net(), session)
        for step in session:
            for batch in step.micro_batches:
                batch.backward(loss_fn(model(x[batch.indices]), y[batch.indices]))
            for piece in step.evaluation:
                ...

    The first call in a step waits for the step's weights, so prepare the input
    before. While `MicroBatch.backward` runs, each gradient is sent as soon as it is
    final. There is no optimizer in the program: `optimizer` of the job file states
    the rule. Use `tributary.load` for the result, since the module holds only the
    weights of the step that this worker has computed last.

    - Parameters are on one device. Those of other types than float32 are converted
      from and to the float32 weights of the servers. Those with `requires_grad=False`
      do not take part and keep their values. Tied parameters count once. The final
      model contains all of them, tied ones under each name, and all buffers. A parameter that the loss does not reach has
      a gradient of zeros.
    - Parameters should be registered in the order in which forward uses them, so
      that gradients of the last ones leave first.
    - The running statistics of batch norm are averaged over the micro-batches of a
      step. See `buffers` for others.
    - In an evaluation, the module is in evaluation mode, and without gradients.

    Args:
        module: the module.
        session: what `connect` has returned.
        no_decay: the parameters without weight decay: '1d' for those with at most
            one dimension (biases, and weights of norms), or parameters of the module.
            Default: all have weight decay, as in torch.optim (in models of Tributary,
            only those with two or more dimensions have).
        parameter_groups: groups whose options differ from those of the job: dicts
            with `params`, one or more parameters of the module; optionally
            `learning_rate_factor`, by which the job's learning rate is multiplied for
            them, above 0 and at most 1000; and optionally `weight_decay`: True for
            that of the job, False for none. Parameters in no group have the factor 1.
        gpu_memory: whether the worker may keep weights and gradients in the memory of
            the module's GPU, which needs at least twice the memory of the parameters.
            Otherwise, each step copies them from and to host memory.
        buffers: how buffers are treated that forward changes, besides those of batch
            norm, which are averaged: 'average', as the running statistics of batch norm,
            or 'local', each worker for itself, by their names or patterns of names with
            `*`. A buffer that changes without being declared is local, with a warning.
            The final model has the values of one worker.
        rule: the update rule of a job with `optimizer { program {} }`: an optimizer of
            `torch.optim` over the module's parameters; an object of your own with its
            methods `step`, `state_dict` and `load_state_dict`; an `Alternating` of
            several; or a sequence of an optimizer and its schedulers. In each step, every worker sets the
            parameters' `grad` to the mean gradient and calls `step` of each of them,
            without gradients, on another thread, while the program waits for weights. So
            the program must not call them. It must not depend on the worker, and keep
            all that it remembers in its state, which consists of tensors, numbers,
            strings, None, and lists, tuples and dicts of them. Random numbers that it
            draws are the same in every worker. When the job has ended, the module
            holds the last weights.

    Raises:
        Error: for a module that cannot be trained, naming the parameter.
    """

    def __init__(self, module: torch.nn.Module, session: Session, *,
                 no_decay: NoDecay = (), parameter_groups: ParameterGroups = (),
                 gpu_memory: bool = True, buffers: Buffers = {}, rule: Any = None):
        super().__init__()
        self.module = module
        # Not attributes, because torch.nn.Module would register the tensors again.
        self._worker = ModuleWorker(module, session, no_decay, parameter_groups,
                                    gpu_memory, buffers, rule)
        module.register_forward_pre_hook(lambda *_: self._worker.load_weights())

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        if not isinstance(self._worker.session._item, EvaluationPiece):
            return self.module(*arguments, **keywords)
        with self._worker.evaluation_mode():
            return self.module(*arguments, **keywords)
