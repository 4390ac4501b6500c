"""Gives the final model the parts of a module's state that are not trained."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Iterable

import torch
from torch.nn.modules.batchnorm import _NormBase

from . import _native, _process

if TYPE_CHECKING:
    from .session import Session

# Types by their names in safetensors files.
_DTYPES = {torch.float64: 'F64', torch.float32: 'F32', torch.float16: 'F16',
           torch.bfloat16: 'BF16', torch.int64: 'I64', torch.int32: 'I32',
           torch.int16: 'I16', torch.int8: 'I8', torch.uint8: 'U8', torch.bool: 'BOOL'}


class Untrained:
    """Frozen parameters, and buffers: what the state dict of `module` has besides
    `names`. Create it before the parameters are declared."""

    def __init__(self, module: torch.nn.Module, names: Iterable[str], session: Session):
        self._module, self._names, self._session = module, frozenset(names), session
        # Batch norm counts calls of forward, whose number depends on the worker.
        self._counts = {name: int(count) for name, count in _counters(module).items()}
        # Kept, because the library calls it.
        self._callback = _native.COLLECT_CALLBACK(self._collect)
        session._library.worker_set_untrained(session._open(), self._callback, None)

    def _collect(self, _: None, steps: int) -> None:
        # Exceptions cannot pass through the library.
        try:
            left_out = [name for name, value in self._module.state_dict().items()
                        if name not in self._names and not self._add(name, value, steps)]
        except Exception as error:  # pylint: disable=broad-except
            _process.warn('the final model lacks frozen parameters and buffers: '
                          f'{type(error).__name__}: {error}')
            return
        if left_out:
            _process.warn(f"the final model lacks {', '.join(left_out)}, which "
                          'safetensors files cannot contain')

    def _add(self, name: str, value: object, steps: int) -> bool:
        """Returns whether the file can contain the value."""
        if not isinstance(value, torch.Tensor) or value.dtype not in _DTYPES or \
                value.layout != torch.strided:
            return False
        if name in self._counts:
            value = torch.tensor(self._counts[name] + steps)
        value = value.detach().cpu().contiguous()
        struct = _native.UntrainedStruct(
            name.encode(), _DTYPES[value.dtype].encode(),
            (ctypes.c_int64 * value.dim())(*value.shape), value.dim(), value.data_ptr(),
            value.numel() * value.element_size())
        self._session._library.worker_add_untrained(self._session._open(),
                                                    ctypes.byref(struct))
        return True


def _counters(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {f'{prefix}.num_batches_tracked' if prefix else 'num_batches_tracked':
            child.num_batches_tracked for prefix, child in module.named_modules()
            if isinstance(child, _NormBase) and child.num_batches_tracked is not None}
