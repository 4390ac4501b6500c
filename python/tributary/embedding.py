"""Modules of PyTorch whose rows are in tables on the servers."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch

from . import _features
from .errors import Error
from .items import MicroBatch
from .session import Session


class _Rows(torch.autograd.Function):
    """Reads vectors, and keeps their gradient for the micro-batch. Its first argument
    only makes autograd call it."""

    @staticmethod
    def forward(ctx: Any, _: torch.Tensor, item: Any, feature: _features.Feature,
                keys: torch.Tensor, ends: np.ndarray) -> torch.Tensor:
        look_up = item.look_up(feature.name, keys, ends)
        ctx.item, ctx.look_up = item, look_up
        return torch.from_numpy(look_up.vectors).to(keys.device)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, ...]:
        if isinstance(ctx.item, MicroBatch):
            ctx.item._row_gradients.append((ctx.look_up, gradient))
        return None, None, None, None, None


class _Table(torch.nn.Module):
    """A feature, whose table is on the servers."""

    def __init__(self, session: Session, feature: str):
        super().__init__()
        self.feature = _features.named(session.features, feature)
        self.embedding_dim = self.feature.dim
        # Not parameters: the servers have the values and the optimizer of the rows.
        self._session = session
        self._recorded = torch.empty(0, requires_grad=True)

    def extra_repr(self) -> str:
        return f'{self.feature.name}, table={self.feature.table}, dim={self.embedding_dim}'

    def _read(self, keys: torch.Tensor, ends: np.ndarray) -> torch.Tensor:
        item = self._session._item
        if item is None:
            raise Error(f'{type(self).__name__} {self.feature.name!r} was called outside '
                        'the loops over micro-batches and pieces of an evaluation, where '
                        'no rows are known')
        return _Rows.apply(self._recorded, item, self.feature, keys, ends)


class EmbeddingBag(_Table):
    """The sums or means of rows of a table on the servers, as `torch.nn.EmbeddingBag`
    computes them from a matrix:

        class Net(torch.nn.Module):
            def __init__(self, session):
                super().__init__()
                self.ids = tributary.EmbeddingBag(session, 'ids', mode='mean')
                self.output = torch.nn.Linear(self.ids.embedding_dim, 1)

            def forward(self, ids, offsets):
                return self.output(self.ids(ids, offsets))

    The worker reads the rows of the micro-batch's keys only, and `MicroBatch.backward` or
    `Optimizer.step` gives their gradients to the servers, which update each row once in
    a step, with the rule of its table in the job file. Results have the same bits for any
    number of workers. Keys are any 64-bit numbers; see `keys_of` for texts. A key has
    initial values, which follow from the job's seed, until its first gradient arrives.

    Rows are requested when forward needs them, unless their keys are announced: pass
    `keys` to `MicroBatchDataset` or `Session.loader`, or call `Session.announce`.

    The module has no parameters, so `clip_grad_norm_` and parameter groups do not see
    its rows; `clip_norm` of the job includes them.

    Attributes:
        feature: the `Feature` of the job.
        embedding_dim: the number of values of a row.

    Args:
        session: what `connect` has returned.
        feature: the name of a feature in `sparse` of the job.
        mode: 'sum' or 'mean'. Must be the `pooling` of the feature. Default: that of the
            feature.
        include_last_offset: as for `torch.nn.EmbeddingBag`: `offsets` has one more
            element, the number of keys.
        padding_idx: a key that is left out of all bags.
    """

    def __init__(self, session: Session, feature: str, mode: Optional[str] = None, *,
                 include_last_offset: bool = False, padding_idx: Optional[int] = None):
        super().__init__(session, feature)
        pooling = self.feature.pooling
        if pooling == 'none' or mode not in (None, pooling):
            raise Error(f'feature {feature!r} of the job has pooling {pooling.upper()}, '
                        f'expected {"SUM or MEAN" if mode is None else mode.upper()}: set '
                        'pooling of the feature, or '
                        + ('use tributary.Embedding' if pooling == 'none' else
                           f'pass mode={pooling!r}'))
        self.mode = pooling
        self.include_last_offset, self.padding_idx = include_last_offset, padding_idx

    def forward(self, keys: torch.Tensor,
                offsets: Optional[torch.Tensor] = None) -> torch.Tensor:
        """Returns the vectors of bags, float32, [bags, embedding_dim].

        Args:
            keys: integers: [bags, keys of a bag], or [keys] with `offsets`.
            offsets: where each bag begins in `keys`, [bags]. Its last bag ends with
                `keys`.
        """
        if keys.dim() == 2 and offsets is None:
            ends = np.arange(1, keys.shape[0] + 1, dtype=np.int64) * keys.shape[1]
        elif keys.dim() == 1 and offsets is not None:
            bounds = offsets.detach().cpu().numpy().astype(np.int64)
            if not self.include_last_offset:
                bounds = np.append(bounds, len(keys))
            # Keys without bags are refused, too.
            if not len(bounds) or bounds[0] != 0 or bounds[-1] != len(keys):
                found = f'{bounds[0]} and {bounds[-1]}' if len(bounds) else 'no numbers'
                raise Error(f'the offsets of feature {self.feature.name!r} begin and end '
                            f'with {found}, expected 0 and the number of keys, {len(keys)}')
            ends = bounds[1:]
        else:
            raise Error(f'the keys of feature {self.feature.name!r} have '
                        f'{keys.dim()} dimensions{"" if offsets is None else " and offsets"}'
                        ', expected 2 without offsets, or 1 with offsets')
        if self.padding_idx is not None:
            flat = keys.reshape(-1)
            kept = flat != self.padding_idx
            counts = np.concatenate([[0], kept.cpu().numpy().cumsum()])
            keys, ends = flat[kept], counts[ends].astype(np.int64)
        return self._read(keys, ends)


class Embedding(_Table):
    """Rows of a table on the servers, as `torch.nn.Embedding` reads them from a matrix.
    See `EmbeddingBag`.

    Args:
        session: what `connect` has returned.
        feature: the name of a feature in `sparse` of the job, with `pooling: NONE`.
    """

    def __init__(self, session: Session, feature: str):
        super().__init__(session, feature)
        if self.feature.pooling != 'none':
            raise Error(f'feature {feature!r} of the job has pooling '
                        f'{self.feature.pooling.upper()}: set pooling: NONE, or use '
                        'tributary.EmbeddingBag')

    def forward(self, keys: torch.Tensor) -> torch.Tensor:
        """Returns the row of each key, float32, [*keys.shape, embedding_dim]."""
        rows = self._read(keys, np.arange(1, keys.numel() + 1, dtype=np.int64))
        return rows.view(*keys.shape, self.embedding_dim)
