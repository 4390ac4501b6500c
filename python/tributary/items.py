"""Micro-batches, and pieces of an evaluation."""

from __future__ import annotations

import ctypes
from typing import (TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence,
                    Union)

import numpy as np

from . import _features, _native
from .errors import Error

if TYPE_CHECKING:
    import torch

    from .session import Session, Step


Array = Union[np.ndarray, _native.GpuArray]


class Spans:
    """The arrays over the native library's memory of all parameters.

    The library uses few buffers in turn, so each array is made once.
    """

    _MOST = 4096

    def __init__(self, shapes: Sequence[tuple[int, ...]], on_gpu: bool):
        self.shapes = [tuple(shape) for shape in shapes]
        self._on_gpu = on_gpu
        self.weights = (ctypes.c_void_p * len(shapes))()
        self.gradients = (ctypes.c_void_p * len(shapes))()
        self._arrays: dict[tuple[int, int, bool], Array] = {}

    def array(self, parameter: int, writable: bool) -> Array:
        address = (self.gradients if writable else self.weights)[parameter]
        if address is None:
            raise Error('there are no weights and gradients on the GPU after an error')
        key = (address, parameter, writable)
        array = self._arrays.get(key)
        if array is None:
            if len(self._arrays) >= max(self._MOST, 8 * len(self.shapes)):
                self._arrays.clear()
            shape = self.shapes[parameter]
            array = _native.GpuArray(address, shape) if self._on_gpu \
                else _native.view(address, shape, writable)
            self._arrays[key] = array
        return array


class _Item:
    """What micro-batches and pieces have in common."""

    def __init__(self, session: 'Session', step: 'Step', handle: int):
        self._session, self.step_object, self._handle = session, step, handle
        self._library, self._spans = session._library, session._spans
        self._arrived = False
        self._ended = False
        self.aborted = False

    def _await_spans(self) -> None:
        """Waits for the weights, and fills session._spans."""
        raise NotImplementedError

    def _open(self, call: str) -> None:
        self._session._open()
        if self._ended:
            raise Error(f'{self}: {call} was called after the end')
        if self._session._item is not self:
            raise Error(f'{self} has ended: use it only inside its loop')
        if not self._arrived:
            self._await_spans()
            self._arrived = True

    @property
    def weights(self) -> list[Array]:
        """The parameters' values: read-only arrays, valid until the item ends. Waits
        until they have arrived. See `Session.use_gpu` for arrays on a GPU."""
        self._open('weights')
        return [self._spans.array(p, False) for p in range(len(self._spans.shapes))]

    def load(self, dataset: Any,
             collate: Optional[Callable[[list], Any]] = None) -> Any:
        """Reads this item's samples, `dataset[i]` for each of its indices.

        `dataset` is a map-style data set of PyTorch or any sequence. `collate` makes
        a batch of the list of samples; default: that of PyTorch's DataLoader.
        """
        if collate is None:
            from torch.utils.data import default_collate as collate
        return collate([dataset[int(index)] for index in self.indices])


    def _look_up(self, feature: str, keys: Any, ends: Any,
                 write: Callable[[Any, int], int]) -> _features.LookUp:
        """Makes a look-up. `write` writes the vectors, and returns its number."""
        self._open('look_up')
        known = _features.named(self._session.features, feature)
        array = _features.as_keys(keys, feature)
        if ends is None:
            ends = np.arange(1, len(array) + 1)
        ends = np.ascontiguousarray(ends, np.int64)
        if (np.diff(ends, prepend=0) < 0).any() or \
                (ends[-1] if len(ends) else 0) != len(array):
            raise Error(f'{self}: the ends of the bags of feature {feature!r} must ascend '
                        f'to the number of keys, {len(array)}')
        vectors = np.empty((len(ends), known.dim), np.float32)
        number = write(ctypes.byref(_features.struct_of(known, array, ends)),
                       vectors.ctypes.data)
        return _features.LookUp(known, vectors, number)


class MicroBatch(_Item):
    """Some samples, whose gradients this worker computes.

    With a `DistributedDataParallel` model, compute the loss and call `backward`.
    Without one, read `weights`, write the gradients of the *sum* of the samples'
    losses to `gradients`, call `ready` for each parameter and then `finish`.

    Attributes:
        step: number of the step, from 0.
        number: number of the micro-batch in the step's batch, from 0.
        epoch: number of the epoch, from 0.
        indices: numbers of the samples in the data set, int64, of shape [samples].
        seed: a number that depends only on the job's seed, the step and the
            micro-batch. The generators of `random`, NumPy and PyTorch are seeded with
            it, so that dropout and augmentation do not depend on the worker.
        gpu_stream: address of the CUDA stream of `Session.use_gpu`; None without it.
        aborted: whether the result is not needed any more, because another worker
            has computed it or a server was lost. The program may ignore it.
    """

    def __init__(self, session: 'Session', step: 'Step', handle: int,
                 info: _native.MicroBatchStruct):
        super().__init__(session, step, handle)
        self.step, self.number, self.epoch = info.step, info.number, info.epoch
        self.seed = info.random_seed
        numbers = (ctypes.c_int64 * info.samples).from_address(info.indexes)
        self.indices = np.array(numbers, np.int64)
        self.gpu_stream: Optional[int] = self._library.micro_batch_gpu_stream(handle)
        # Of modules with tables, not scaled.
        self._row_gradients: list[tuple[_features.LookUp, 'torch.Tensor']] = []

    def __str__(self) -> str:
        return f'micro-batch {self.number} of step {self.step}'

    def _await_spans(self) -> None:
        self.aborted = not self._library.micro_batch_spans(
            self._handle, self._spans.weights, self._spans.gradients)

    @property
    def gradients(self) -> tuple[Array, ...]:
        """Memory for the gradients, with unspecified contents: assign to
        `gradients[i][:]`. They are sent from there without being copied."""
        self._open('gradients')
        return tuple(self._spans.array(p, True) for p in range(len(self._spans.shapes)))

    def look_up(self, feature: str, keys: _features.Keys,
                ends: Optional[Sequence[int]] = None) -> _features.LookUp:
        """Reads rows of tables, for programs without PyTorch; `EmbeddingBag` and
        `Embedding` call it.

        Args:
            feature: the name of a feature in `sparse` of the job.
            keys: integers, of any shape.
            ends: where each bag ends in `keys`: bag i has the keys from ends[i - 1] to
                ends[i] - 1. Default: each key is a bag.

        Returns:
            A `LookUp`, whose `vectors` has the vector of each bag, pooled as the feature
            says.
        """
        def write(struct: Any, vectors: int) -> int:
            given_up = ctypes.c_int32()
            number = self._library.micro_batch_look_up(self._handle, struct, vectors,
                                                       ctypes.byref(given_up))
            self.aborted = self.aborted or bool(given_up.value)
            return number
        return self._look_up(feature, keys, ends, write)

    def add_gradient(self, look_up: _features.LookUp, gradient: np.ndarray) -> None:
        """Adds to the gradient of the *sum* of the samples' losses with respect to
        `look_up.vectors`. Call it before `finish`. Rows of which no gradient is given are
        not updated."""
        self._open('add_gradient')
        values = np.ascontiguousarray(gradient, np.float32)
        self._library.micro_batch_add_gradient(self._handle, look_up.number,
                                               values.ctypes.data, values.size)

    def _send_row_gradients(self, scale: float = 1) -> None:
        """Gives the gradients of modules with tables, times `scale`."""
        given, self._row_gradients = self._row_gradients, []
        for look_up, gradient in given:
            values = gradient.detach() if scale == 1 else gradient.detach() * scale
            self.add_gradient(look_up, values.float().cpu().numpy())

    def set_sample_count(self, count: int) -> None:
        """States how many samples (tokens) count; by default, all samples do. The
        servers divide the sum of all gradients by the sum of these numbers. Call it
        before the first `ready`."""
        self._open('set_sample_count')
        self._library.micro_batch_set_sample_count(self._handle, count)

    def set_learning_rate(self, rate: float) -> None:
        """States the learning rate of the step, which takes the place of that of the
        job's schedule. All workers must state the same rate for a step. Call it before
        the first `ready`."""
        self._open('set_learning_rate')
        self._library.micro_batch_set_learning_rate(self._handle, rate)

    def ready(self, parameter: int) -> None:
        """States that the gradient of the parameter with this number is complete.
        Gradients leave from the last parameter to the first, while the program
        computes the others."""
        self._open('ready')
        self._library.micro_batch_ready(self._handle, parameter)

    def finish(self, loss_sum: Optional[float] = None) -> None:
        """Ends the micro-batch, with the sum of its samples' losses. All gradients
        must be ready. Without the sum, the metrics lack the loss of the step."""
        self._open('finish')
        self._send_row_gradients()
        self._ended = True
        if loss_sum is None:
            self._library.micro_batch_finish_without_loss(self._handle)
        else:
            self._library.micro_batch_finish(self._handle, float(loss_sum))

    def backward(self, loss: 'torch.Tensor', *, count: Optional[int] = None,
                 reduction: str = 'mean') -> float:
        """Computes the gradients of a `DistributedDataParallel` model, sends them
        while it computes, and ends the micro-batch.

        Args:
            loss: a scalar: the mean of the losses of the samples, as PyTorch's loss
                functions return it, or their sum if `reduction` is 'sum'.
            count: the number of losses in the mean or the sum, if it differs from the
                number of samples; for example, the number of tokens that are not
                masked. If it can exceed the number of samples, the job must set
                `units_per_sample`.
            reduction: 'mean' or 'sum'.

        Returns:
            The loss, as a number.
        """
        model = self._session._model
        if model is None:
            raise Error(f'{self}: backward needs a tributary.DistributedDataParallel')
        return model._backward(self, loss, count, reduction)

    def _check_ended(self) -> None:
        if not self._ended and not self.aborted:
            raise Error(f'{self}: it was not finished; call batch.backward(loss) once '
                        'for each micro-batch, or without PyTorch, batch.finish()')


class EvaluationPiece(_Item):
    """Consecutive samples of the evaluation data.

    `DistributedDataParallel` computes them in evaluation mode, without gradients.

    Attributes:
        begin, end: the samples are those from `begin` to `end` - 1.
        indices: their numbers in the evaluation data, int64, of shape [samples].
    """

    def __init__(self, session: 'Session', step: 'Step', handle: int,
                 info: _native.PieceStruct):
        super().__init__(session, step, handle)
        self.begin, self.end = info.begin, info.end
        self.indices = np.arange(info.begin, info.end, dtype=np.int64)

    def __str__(self) -> str:
        return f'evaluation of samples {self.begin} to {self.end - 1}'

    def _await_spans(self) -> None:
        self._library.piece_weights(self._handle, self._spans.weights)

    def look_up(self, feature: str, keys: _features.Keys,
                ends: Optional[Sequence[int]] = None) -> _features.LookUp:
        """Reads rows of the version that is evaluated; see `MicroBatch.look_up`."""
        def write(struct: Any, vectors: int) -> int:
            self._library.piece_look_up(self._handle, struct, vectors)
            return 0
        return self._look_up(feature, keys, ends, write)

    def report(self, loss_sum: Any, correct: Any = 0, count: Optional[int] = None,
               metrics: Optional[Mapping[str, Any]] = None) -> None:
        """Ends the piece.

        Args:
            loss_sum: the sum of the losses: a number, or a tensor with one element.
            correct: how many predictions were correct; 0 if there is no such thing.
            count: how many samples (tokens) count; default: all samples.
            metrics: further results by name, such as {'f1': (sum, count)}: their value is
                the sum over all pieces, divided by the count over all pieces. A number
                alone is a sum over the piece's samples. summary.json and metrics.jsonl
                contain them, as evaluation['f1'] and evaluation_f1.
        """
        self._open('report')
        samples = len(self.indices) if count is None else int(count)
        for name, value in (metrics or {}).items():
            total, divisor = value if isinstance(value, (tuple, list)) else (value, samples)
            self._library.piece_add_metric(self._handle, str(name).encode(), float(total),
                                           float(divisor))
        self._ended = True
        self._library.piece_report(self._handle, float(loss_sum), int(correct),
                                   samples)

    def _check_ended(self) -> None:
        if not self._ended:
            raise Error(f'{self}: it was not reported; call piece.report(loss_sum=..., '
                        'correct=..., count=...) once for each piece')
