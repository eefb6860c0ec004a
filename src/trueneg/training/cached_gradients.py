"""Gradients of a loss over a whole batch, encoding only one chunk of it at a time."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

Chunk = TypeVar("Chunk")
Embeddings = tuple[Any, ...]  # each item is a tensor or None


def backward_in_chunks(
    network: nn.Module, embed: Callable[[int, Chunk], Embeddings], chunks: Sequence[Chunk], terms_of: Callable[..., Any]
) -> Any:
    r"""Add the gradients of the loss over ALL chunks to a network's gradients, so negatives come from the whole batch.

    If there are several chunks (Gao et al., 2021, "GradCache"), all are first embedded without a graph. The loss over all chunks
    gives the gradient of each embedding, and each chunk is then embedded again to backpropagate it:

    .. math:: \frac{\partial L}{\partial \theta} = \sum_k \frac{\partial L}{\partial z_k} \frac{\partial z_k}{\partial \theta}

    The result differs from a single pass only in batch normalisation, which uses the statistics of one chunk at a time. Its
    running statistics are updated once per chunk.

    Args:
        network: network that contains the batch normalisation layers.
        embed: function of a chunk's number and the chunk that returns its embeddings, each (b, …) or None; a second call must
            use the same random draws.
        chunks: at least one chunk.
        terms_of: function of the embeddings of all chunks that returns an object with the scalar ``loss``.

    Returns:
        The return value of ``terms_of``.
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
    """Normalise by batch statistics without updating the running statistics."""
    norms: list[Any] = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
