"""Gradients of a loss over a whole batch, with no more than a chunk of it in the encoders at a time."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

Chunk = TypeVar("Chunk")
Embeddings = tuple[Any, ...]  # of tensors and None


def backward_in_chunks(
    network: nn.Module, embed: Callable[[int, Chunk], Embeddings], chunks: Sequence[Chunk], terms_of: Callable[..., Any]
) -> Any:
    r"""Add the gradients of the loss of ALL chunks to a network's, so that every sample keeps the whole batch as negatives.

    With several chunks (Gao et al., 2021, "GradCache") all are embedded without a graph, the loss of all together gives the
    gradient of each embedding, and chunk by chunk is embedded again to hand it on:

    .. math:: \frac{\partial L}{\partial \theta} = \sum_k \frac{\partial L}{\partial z_k} \frac{\partial z_k}{\partial \theta}

    Only batch normalisation tells that there are chunks: it sees one at a time. Its running statistics take each chunk once.

    Args:
        network: whose batch normalisation is meant.
        embed: from a chunk's number and the chunk to its embeddings, each (b, …) or None; called twice it must draw the same.
        chunks: at least one.
        terms_of: from the embeddings of all chunks to what has the scalar ``loss``.

    Returns:
        What ``terms_of`` gave.
    """
    if len(chunks) == 1:
        terms = terms_of(*embed(0, chunks[0]))
        terms.loss.backward()
        return terms
    with torch.no_grad(), _without_running_statistics(network):
        parts = list(zip(*(embed(number, chunk) for number, chunk in enumerate(chunks)), strict=True))
    sizes = [len(part) for part in parts[0]]
    cached: list[Any] = [None if part[0] is None else torch.cat(part).requires_grad_() for part in parts]
    terms = terms_of(*cached)
    terms.loss.backward()
    used = [place for place, leaf in enumerate(cached) if leaf is not None and leaf.grad is not None]
    gradients = zip(*(cached[place].grad.split(sizes) for place in used), strict=True)
    for number, (chunk, own) in enumerate(zip(chunks, gradients, strict=True)):
        again = embed(number, chunk)
        torch.autograd.backward([again[place] for place in used], own)
    return terms


@contextlib.contextmanager
def _without_running_statistics(network: nn.Module) -> Iterator[None]:
    """Batch normalisation by the batch, without a trace of it."""
    norms: list[Any] = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
