r"""Likelihoods of sentences: pseudo-log-likelihood for masked language models, chain rule for
causal ones.

.. math:: \log p(x) = \sum_t \log P(x_t \mid x_{\setminus t})

Salazar et al. (2020). Special tokens ([CLS], [SEP]) are part of the context, but are neither masked
nor counted.
"""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from pandas import DataFrame
from torch import Tensor
from tqdm import tqdm

from trueneg.text.loading import longest_input
from trueneg.text.masked_copies import CAUSAL, ORIGINAL, Pieces, TargetBatch, batches
from trueneg.text.scorers import AnyModel, PlainBert

log = logging.getLogger(__name__)

TOKENS = {"cpu": 8_192, "cuda": 131_072}  # maximum number of tokens of masked copies in a batch
LOGITS = 2**28  # elements in the largest array of logits
PART = 256  # sentences per yielded table


def pseudo_log_likelihood(
    model: Any,
    tokenizer: Any,
    sentences: Sequence[str],
    tokens_per_batch: int | None = None,
    device: str | torch.device | None = None,
    variant: str = ORIGINAL,
) -> ndarray:
    """Compute the log-likelihood of each sentence; repeated sentences are scored once.

    The result does not depend on order, batches or other sentences, because nothing is padded. A
    sentence longer than the model's limit is scored in windows that overlap by half, with a warning
    in the log.

    Args:
        model: a masked (or causal) language model of the transformers library.
        tokenizer: the model's fast tokenizer.
        sentences: S strings.
        tokens_per_batch: maximum number of tokens of masked copies in a batch; None: 8,192 on a
            CPU, 131,072 on a GPU.
        device: device to compute on; None: the model's device. A GPU computes in bfloat16, with the
            log-softmax in float32.
        variant: ``"original"``; ``"within_word_l2r"``, which also masks the rest of a word so that
            later pieces do not reveal earlier ones (Kauf and Ivanova, 2023); or ``"causal"``, the
            chain rule.

    Returns:
        (S,) natural logarithms, float64, not normalised by length.

    Raises:
        ValueError: if a sentence is empty, is not a string, or contains a special token (the
            message names its row), or the tokenizer does not support the variant.
    """
    _check(sentences)
    numbers, unique = pd.factorize(np.array(sentences, dtype=object))
    likelihoods = np.empty(len(unique))
    first_rows = np.unique(numbers, return_index=True)[1]
    for part in score(
        model, tokenizer, unique.tolist(), tokens_per_batch, device, variant, names=first_rows
    ):
        likelihoods[part.index] = part["log_likelihood"]
    return likelihoods[numbers]


def score(
    model: Any,
    tokenizer: Any,
    sentences: Sequence[str],
    tokens_per_batch: int | None = None,
    device: str | torch.device | None = None,
    variant: str = ORIGINAL,
    names: ndarray | None = None,
) -> Iterator[DataFrame]:
    """Like :func:`pseudo_log_likelihood`, but yields results in parts, so a caller can save
    progress.

    Args:
        model: as in :func:`pseudo_log_likelihood`.
        tokenizer: as in :func:`pseudo_log_likelihood`.
        sentences: distinct sentences; only the memory for the sentences themselves grows with their
            number.
        tokens_per_batch: as in :func:`pseudo_log_likelihood`.
        device: as in :func:`pseudo_log_likelihood`.
        variant: as in :func:`pseudo_log_likelihood`.
        names: row numbers used for the sentences in errors and in the log; None: their indices.

    Yields:
        Tables for sentences of similar length, longest first, indexed by position in `sentences`:
            ``log_likelihood``,
        ``tokens`` (number of scored tokens) and ``windows`` (1, or more if the sentence exceeds the
            model's limit).

    Raises:
        ValueError: as in :func:`pseudo_log_likelihood`.
    """
    names = np.arange(len(sentences)) if names is None else names
    device = torch.device(device) if device is not None else next(model.parameters()).device
    tokens = tokens_per_batch or TOKENS.get(device.type, TOKENS["cpu"])
    at_once = max(1, LOGITS // model.config.vocab_size)
    cutter = Pieces(tokenizer, variant, longest_input(model, tokenizer))
    order = np.argsort([-len(sentence) for sentence in sentences], kind="stable")
    training = model.training
    model.eval()
    try:
        mask: Any = None if variant == CAUSAL else tokenizer.mask_token_id
        plain = mask is not None and PlainBert.takes(model)
        scorer = PlainBert(model, mask, device) if plain else AnyModel(model.to(device), mask)
        # Parts of equal size, starting with the longest sentences.
        for start in tqdm(
            range(0, len(order), PART),
            "likelihood",
            leave=False,
            unit=f" x {PART} sentences",
            disable=None,
        ):
            rows = order[start : start + PART]
            pieces = cutter.of([sentences[row] for row in rows], names[rows])
            windows = np.bincount([piece.sentences[0] for piece in pieces])
            lengths = np.bincount(np.concatenate([piece.sentences for piece in pieces]))
            work = list(batches(pieces, tokens, at_once, variant == CAUSAL))
            likelihoods = np.zeros(len(rows))
            for batch, log_probabilities in zip(work, _side_by_side(scorer, work), strict=True):
                np.add.at(likelihoods, batch.sentences, log_probabilities.numpy())
            if not np.isfinite(likelihoods).all():
                row = names[rows][~np.isfinite(likelihoods)][0]
                raise ValueError(
                    f"the likelihood of the sentence in row {row:,} is not finite; the model's"
                    " weights are broken."
                )
            if len(long := names[rows][windows > 1]):
                first = ", ".join(f"{name:,}" for name in long[:10])
                log.warning(
                    f"{len(long)} sentences have more than {cutter.capacity} tokens and are scored"
                    f" in windows; the first are in rows {first}"
                )
            yield DataFrame(
                {"log_likelihood": likelihoods, "tokens": lengths, "windows": windows}, index=rows
            )
    finally:
        model.train(training)


def _side_by_side(scorer: AnyModel | PlainBert, work: Sequence[TargetBatch]) -> Iterator[Tensor]:
    """Yield the log-probabilities of each batch; on a CPU with several threads, each thread
    computes whole batches.

    Threads that share operations synchronise after each one, which is slow for the small operations
    of a masked copy.
    """
    threads = torch.get_num_threads()
    if threads == 1 or not scorer.concurrent:
        yield from map(scorer.log_probabilities, work)
        return
    # New threads inherit the number of threads that was set last.
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(scorer.log_probabilities, work)
    finally:
        torch.set_num_threads(threads)


def _check(sentences: Sequence[str]) -> None:
    if isinstance(sentences, str):
        raise ValueError("sentences is one string; expected a sequence of strings.")
    for row, sentence in enumerate(sentences):
        if not isinstance(sentence, str) or not sentence.strip():
            shown = "empty" if isinstance(sentence, str) else type(sentence).__name__
            raise ValueError(
                f"the sentence in row {row:,} (counting from 0) is {shown}; expected a non-empty"
                " string."
            )
