"""One training on several processes, a device each: which part of a batch is ours, and what all of them must agree on.

Every process draws the whole batch (from the same generators), encodes its part, and gathers the embeddings of the others with
their gradients; the loss of the whole batch is then computed by each of them. So every objective and every monitor is what it is
on one process, and after each update all processes hold the same weights.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn

from trueneg.losses.execution import gathered


@dataclass(frozen=True)
class Processes:
    """The processes of a training, and which of them this one is; alone by default, where nothing below does anything.

    Attributes:
        rank: ours, from 0.
        count: of all.
    """

    rank: int = 0
    count: int = 1

    def part(self, batch: Tensor, chunks: int = 1) -> Tensor:
        """Our part of a batch: of each of its chunks an equal share, so that a chunk is the same samples for any number of us.

        Args:
            batch: (B, …), the same on all processes.
            chunks: that the batch is encoded in; ``count · chunks`` divides B.

        Example:
            >>> Processes(1, 2).part(torch.arange(8), chunks=2)
            tensor([2, 3, 6, 7])
        """
        if self.count == 1:
            return batch
        share = len(batch) // (chunks * self.count)
        return batch.unflatten(0, (chunks, self.count, share))[:, self.rank].flatten(0, 1)

    def whole(self, part: Tensor, chunks: int = 1) -> Tensor:
        """The batch of which every process gives its :meth:`part`, in the batch's order, with gradients.

        What every process then derives from the whole batch, :meth:`average_gradients` makes the gradient of one process.
        """
        if self.count == 1:
            return part
        everyone = gathered(part)[0].unflatten(1, (chunks, len(part) // chunks))  # (processes, chunks, …)
        return everyone.transpose(0, 1).flatten(0, 2)

    def sum(self, value: Tensor) -> Tensor:
        """The sum of every process's value, without gradients."""
        if self.count > 1:
            value = value.detach().clone()
            distributed.all_reduce(value)
        return value

    def same(self, value: float) -> float:
        """The first process's number, for all."""
        if self.count == 1:
            return value
        told = torch.tensor(value, dtype=torch.float64, device=_exchanged_on())
        distributed.broadcast(told, 0)
        return told.item()

    @torch.no_grad()
    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """The mean of every process's gradients, for all, in one exchange."""
        if self.count == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        flat /= self.count
        for gradient, own in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
            gradient.copy_(own.view_as(gradient))

    def share_state(self, training: Any) -> None:
        """Bring the other processes' runs to where the first one's stands.

        Args:
            training: with ``state`` and ``load_state``, as :class:`~trueneg.compute.checkpoint.Resumable`.
        """
        if self.count == 1:
            return
        tensors, values = training.state() if self.rank == 0 else ({}, {})
        described = {name: [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for name, tensor in tensors.items()}
        values, described = json.loads(self._text(json.dumps([values, described])))
        for name, (dtype, shape) in described.items():
            told = tensors.get(name, torch.empty(shape, dtype=getattr(torch, dtype))).to(_exchanged_on())
            distributed.broadcast(told, 0)
            tensors[name] = told.cpu()
        if self.rank > 0:
            training.load_state(tensors, values)

    def _text(self, text: str) -> str:
        """The first process's text, for all."""
        content = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).to(_exchanged_on())
        length = int(self.same(len(content)))
        content = content if self.rank == 0 else torch.empty(length, dtype=torch.uint8, device=_exchanged_on())
        distributed.broadcast(content, 0)
        return bytes(content.cpu().numpy()).decode()


ALONE = Processes()


def _exchanged_on() -> torch.device:
    """Where what is exchanged must lie."""
    return torch.device("cuda", torch.cuda.current_device()) if distributed.get_backend() == "nccl" else torch.device("cpu")


class SynchronisedNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation by the samples of all processes, each of which has as many.

    torch's own works on GPUs only; this one is the same on a CPU, and its tensors go by the same names as those of the layer that
    it stands for.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        pass  # it stands for a layer that did

    def forward(self, input: Tensor) -> Tensor:
        """Normalised (B, C, …)."""
        if not self.training:
            return super().forward(input)
        dimensions = [0, *range(2, input.dim())]
        values = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        own_variance, own_mean = torch.var_mean(values, dimensions, correction=0)
        means, variances = gathered(torch.stack([own_mean, own_variance]))[0].unbind(1)
        mean = means.mean(0)
        variance = (variances + (means - mean).square()).mean(0)
        if self.track_running_stats:
            self._track(mean, variance, input.numel() // input.shape[1] * distributed.get_world_size())
        shape = (1, -1, *(1 for _ in dimensions[1:]))
        scale = torch.rsqrt(variance + self.eps) * self.weight
        return ((values - mean.view(shape)) * scale.view(shape) + self.bias.view(shape)).to(input.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        self.num_batches_tracked += 1
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
        self.running_var.lerp_((variance * count / (count - 1)).to(self.running_var.dtype), self.momentum)


def synchronise_norms(network: nn.Module) -> None:
    """Let every batch normalisation within a network see the samples of all processes; its parameters stay the same objects."""
    for parent in list(network.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                setattr(parent, name, _synchronised(layer))


def _synchronised(layer: nn.modules.batchnorm._BatchNorm) -> SynchronisedNorm:
    norm = SynchronisedNorm(layer.num_features, layer.eps, layer.momentum)
    norm.weight, norm.bias = layer.weight, layer.bias
    for name, value in layer.named_buffers():
        setattr(norm, name, value)
    return norm.train(layer.training)
