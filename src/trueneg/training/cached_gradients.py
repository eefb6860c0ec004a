"""Compute the gradients of a loss over a whole batch while encoding only one chunk of it at a time."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

Chunk = TypeVar("Chunk")
Terms = TypeVar("Terms", bound=tuple[Any, ...])
Embeddings = tuple[Any, ...]  # each item is a tensor or None


def backward_in_chunks(
    network: nn.Module, embed: Callable[[int, Chunk], Embeddings], chunks: Sequence[Chunk], terms_of: Callable[..., Terms]
) -> Terms:
    r"""Add the gradients of the loss over ALL chunks to a network's gradients, so negatives come from the whole batch.

    If there are several chunks (Gao et al., 2021, "GradCache"), all are first embedded without a graph. The loss over all chunks
    gives the gradient of each embedding, and each chunk is then embedded again to backpropagate it:

    .. math:: \frac{\partial L}{\partial \theta} = \sum_k \frac{\partial L}{\partial z_k} \frac{\partial z_k}{\partial \theta}

    The result differs from a single pass only in batch normalisation, which uses the statistics of one chunk at a time. Its
    running statistics are updated once per chunk.

    Args:
        network: network that contains the batch normalisation layers.
        embed: function that takes a chunk's index and the chunk, and returns its embeddings, each (b, …) or None; a second call
            must use the same random draws.
        chunks: at least one chunk.
        terms_of: function that takes the embeddings of all chunks and returns a tuple whose first item is the scalar loss.

    Returns:
        The return value of ``terms_of``.
    """
    if len(chunks) == 1:
        terms = terms_of(*embed(0, chunks[0]))
        terms[0].backward()
        return terms
    with torch.no_grad():
        _track_statistics(network, False)
        try:
            parts = list(zip(*itertools.starmap(embed, enumerate(chunks)), strict=True))
        finally:
            _track_statistics(network, True)
    cached: list[Any] = [None if part[0] is None else torch.cat(part).requires_grad_() for part in parts]
    terms = terms_of(*cached)
    terms[0].backward()
    used = [place for place, leaf in enumerate(cached) if leaf is not None and leaf.grad is not None]
    gradients = zip(*(cached[place].grad.split([len(chunk) for chunk in parts[place]]) for place in used), strict=True)
    for number, (chunk, own) in enumerate(zip(chunks, gradients, strict=True)):
        again = embed(number, chunk)
        torch.autograd.backward([again[place] for place in used], own)
    return terms


def _track_statistics(network: nn.Module, wanted: bool) -> None:
    """Set whether batch normalisation, which always uses batch statistics in training, updates its running statistics."""
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.track_running_stats = wanted
