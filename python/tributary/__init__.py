"""Workers in Python for Tributary, a parameter-server training system.

A job file describes the batch, the optimizer and the exchange; `tributary train`
starts servers and workers. A worker is a program like this one, `worker.py`:

    import torch
    import tributary

    session = tributary.connect()
    x, y, x_test, y_test = ...
    model = tributary.DistributedDataParallel(Net(), session)
    loss_fn = torch.nn.CrossEntropyLoss()
    for step in session:
        for batch in step.micro_batches:
            batch.backward(loss_fn(model(x[batch.indices]), y[batch.indices]))
        for piece in step.evaluation:
            output, target = model(x_test[piece.indices]), y_test[piece.indices]
            piece.report(loss_sum=loss_fn(output, target) * len(target),
                         correct=(output.argmax(1) == target).sum())

Its job file, `job.textproto`:

    model { external { name: "net" } }
    data { external { train_samples: 60000 evaluation_samples: 10000 } }
    optimizer { adamw { learning_rate: 0.001 } }
    batch { global: 256 micro_batches: 8 }
    epochs: 5

The command that trains it:

    tributary train job.textproto --worker-command 'python3 worker.py' --workers 4

In a notebook or a test, `train(..., in_process=True)` calls a function as worker instead.

The weights have the same bits for any number of workers, even if workers are killed.
`connect`, `Session`, `MicroBatch` and `EvaluationPiece` describe the loop,
`DistributedDataParallel` modules of PyTorch, `Optimizer` its use in an existing loop,
`EmbeddingBag` and `Embedding` modules whose rows are in tables on the servers,
`MicroBatchSampler` and `MicroBatchDataset` reading with DataLoader, and `train`,
`load` and `read_metrics` the run. Without PyTorch, `Session.declare` and the arrays of
`MicroBatch` serve any engine that can use NumPy arrays. The modules `tributary.lightning`,
`tributary.transformers` and `tributary.accelerate` are for programs with these packages.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _native
from ._features import Feature, LookUp, keys_of
from .alternating import Alternating
from .errors import Error, JobFailed, Stopped
from .items import EvaluationPiece, MicroBatch
from .launch import launch
from .runs import load, read_metrics, train
from .session import Job, Parameter, Session, Step, connect

if TYPE_CHECKING:
    from .distributed import DistributedDataParallel
    from .embedding import Embedding, EmbeddingBag
    from .loading import EpochLoader, MicroBatchDataset, MicroBatchSampler
    from .optimizer import Optimizer

    __version__: str  # That of the native library.

__all__ = ['Alternating', 'DistributedDataParallel', 'Embedding', 'EmbeddingBag', 'EpochLoader',
           'Error', 'EvaluationPiece', 'Feature', 'Job', 'JobFailed', 'LookUp', 'MicroBatch',
           'MicroBatchDataset', 'MicroBatchSampler', 'Optimizer', 'Parameter', 'Session',
           'Step', 'Stopped', '__version__', 'connect', 'keys_of', 'launch', 'load',
           'read_metrics', 'train']

# The modules of the names that need PyTorch.
_WITH_TORCH = {'DistributedDataParallel': 'distributed', 'Embedding': 'embedding',
               'EmbeddingBag': 'embedding', 'EpochLoader': 'loading',
               'MicroBatchDataset': 'loading', 'MicroBatchSampler': 'loading',
               'Optimizer': 'optimizer'}


# Modules that are imported when they are used, because they need other packages.
_MODULES = ('accelerate', 'lightning', 'optuna', 'ray', 'transformers')


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    # PyTorch is imported only by programs that use it.
    if name == '__version__':
        return _native.library().version().decode()
    if name in _WITH_TORCH:
        try:
            module = importlib.import_module('.' + _WITH_TORCH[name], __name__)
        except ImportError as error:
            raise AttributeError(f'tributary.{name} needs PyTorch: {error}') from error
        return getattr(module, name)
    if name in _MODULES:
        return importlib.import_module('.' + name, __name__)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
