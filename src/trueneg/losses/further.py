"""Further negatives beside the batch: hard negatives, which belong to it, and a queue of past
keys.
"""

import torch
from torch import Tensor

from trueneg.losses.checks import check_tensors
from trueneg.losses.execution import gathered, unit_length


class FurtherKeys:
    """Hard negatives of all processes, and a queue, in the order of the columns.

    Args:
        hard_negatives: (H', D) hard negatives of all anchors of this process, or (B, n, D), n of
            each sample; None: none.
        queue: (Q, D) past keys, which every process has; None: none.
        count: B.
        gathers: whether to add the hard negatives of the other processes.
        like: embeddings whose dimension, dtype and device they get.
        normalises: whether to normalise them.

    Attributes:
        hard: H, the number of hard negatives of all processes.
        queued: Q.
        owners: (H',) the sample to which each hard negative of this process belongs; None: all.

    Raises:
        ValueError: if a shape is wrong.
    """

    def __init__(
        self,
        hard_negatives: Tensor | None,
        queue: Tensor | None,
        count: int,
        gathers: bool,
        like: Tensor,
        normalises: bool = True,
    ):
        check_tensors(hard_negatives=hard_negatives, queue=queue)
        dimensions = like.shape[-1]
        self.owners = None
        self.keys = []
        self.hard = self.queued = 0
        if hard_negatives is not None:
            shape = tuple(hard_negatives.shape)
            if len(shape) == 3 and shape[0] == count and shape[2] == dimensions:
                self.owners = torch.arange(count, device=like.device).repeat_interleave(shape[1])
                hard_negatives = hard_negatives.flatten(0, 1)
            elif len(shape) != 2 or shape[1] != dimensions:
                raise ValueError(
                    f"hard_negatives has shape {shape}; expected (H, {dimensions}) or ({count}, n,"
                    f" {dimensions})."
                )
            own = hard_negatives.to(like)
            everyone = gathered(unit_length(own) if normalises else own, gathers)[0].flatten(0, 1)
            self.hard = len(everyone)
            self.keys.append(everyone)
        if queue is not None:
            if queue.dim() != 2 or queue.shape[1] != dimensions:
                raise ValueError(
                    f"queue has shape {tuple(queue.shape)}; expected (Q, {dimensions})."
                )
            self.queued = len(queue)
            self.keys.append(unit_length(queue.to(like)) if normalises else queue.to(like))

    def after(self, keys: Tensor) -> Tensor:
        """Return the keys, followed by these."""
        return torch.cat((keys, *self.keys)) if self.keys else keys
