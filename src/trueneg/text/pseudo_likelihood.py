r"""Likelihoods of sentences: pseudo-log-likelihood of masked language models, and the chain rule of causal ones.

.. math:: \log p(x) = \sum_t \log P(x_t \mid x_{\setminus t})

Salazar et al. (2020). Tokens that the model adds ([CLS], [SEP]) are seen, but neither masked nor counted.
"""

import logging
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from trueneg.text.masked_copies import CAUSAL, ORIGINAL, Batch, Pieces, batches
from trueneg.text.scorers import AnyModel, PlainBert

log = logging.getLogger(__name__)

TOKENS = {"cpu": 8_192, "cuda": 131_072}  # of masked copies in a batch
LOGITS = 2**28  # numbers in the largest array of logits
PART = 256  # sentences between two results


class Scored(NamedTuple):
    """The likelihoods of some sentences.

    Attributes:
        rows: (S,) which of the sentences that were given.
        log_likelihood: (S,) natural logarithm, float64.
        tokens: (S,) how many were scored.
        windows: (S,) 1, or more for a sentence that is longer than the model's limit.
    """

    rows: np.ndarray
    log_likelihood: np.ndarray
    tokens: np.ndarray
    windows: np.ndarray


def pseudo_log_likelihood(
    model: Any,
    tokenizer: Any,
    sentences: Sequence[str],
    tokens_per_batch: int | None = None,
    device: str | torch.device | None = None,
    variant: str = ORIGINAL,
) -> np.ndarray:
    """The log-likelihood of each sentence; of sentences that repeat, once.

    The result does not depend on order, batches, or other sentences: nothing is padded. A sentence that is longer than the
    model's limit is scored by windows that overlap by half, and the log says so.

    Args:
        model: a masked (or causal) language model of the transformers library.
        tokenizer: its tokenizer, a fast one.
        sentences: S strings.
        tokens_per_batch: tokens of masked copies at a time; None: 8,192 on a CPU, 131,072 on a GPU.
        device: where to compute; None: where the model is. A GPU computes in bfloat16, the log-softmax in float32.
        variant: ``"original"``; ``"within_word_l2r"``: with the rest of a word masked too (Kauf and Ivanova, 2023), so that later
            pieces do not give earlier ones away; ``"causal"``: chain rule.

    Returns:
        (S,) float64, natural logarithm, not normalised by length.

    Raises:
        ValueError: if there is an empty sentence, one that is no text, or one that holds a special token (its row is named), or
            the tokenizer does not fit the variant.
    """
    _check(sentences)
    numbers, unique = pd.factorize(np.array(sentences, dtype=object))
    found, first_rows = np.empty(len(unique)), np.unique(numbers, return_index=True)[1]
    for part in score(model, tokenizer, unique.tolist(), tokens_per_batch, device, variant, names=first_rows):
        found[part.rows] = part.log_likelihood
    return found[numbers]


def score(
    model: Any,
    tokenizer: Any,
    sentences: Sequence[str],
    tokens_per_batch: int | None = None,
    device: str | torch.device | None = None,
    variant: str = ORIGINAL,
    names: np.ndarray | None = None,
) -> Iterator[Scored]:
    """:func:`pseudo_log_likelihood`, some sentences at a time, so that a caller can keep what is done.

    Args:
        model: as there.
        tokenizer: as there.
        sentences: without repetitions; memory grows with them by their own size alone.
        tokens_per_batch: as there.
        device: as there.
        variant: as there.
        names: what each sentence is called in errors and in the log; None: its place.

    Yields:
        Sentences of about one length, the longest first.

    Raises:
        ValueError: as there.
    """
    names = np.arange(len(sentences)) if names is None else names
    device = torch.device(device) if device is not None else next(model.parameters()).device
    tokens, at_once = tokens_per_batch or TOKENS.get(device.type, TOKENS["cpu"]), max(1, LOGITS // model.config.vocab_size)
    cutter = Pieces(tokenizer, variant, _limit(model, tokenizer))
    order = np.argsort([-len(sentence) for sentence in sentences], kind="stable")
    training = model.training
    model.eval()
    try:
        mask: Any = None if variant == CAUSAL else tokenizer.mask_token_id
        plain = mask is not None and PlainBert.takes(model)
        scorer = PlainBert(model, mask, device) if plain else AnyModel(model.to(device), mask)
        # Parts of equal size, of which the first have the longest sentences.
        for start in tqdm(range(0, len(order), PART), "likelihood", leave=False, unit=f" x {PART} sentences", disable=None):
            rows = order[start : start + PART]
            pieces = cutter.of([sentences[row] for row in rows], names[rows])
            windows = np.bincount([piece.sentences[0] for piece in pieces])
            lengths = np.bincount(np.concatenate([piece.sentences for piece in pieces]))
            work = list(batches(pieces, tokens, at_once, variant == CAUSAL))
            found = np.zeros(len(rows))
            for batch, log_probabilities in zip(work, _side_by_side(scorer, work), strict=True):
                np.add.at(found, batch.sentences, log_probabilities.numpy())
            if not np.isfinite(found).all():
                row = names[rows][~np.isfinite(found)][0]
                raise ValueError(f"the model gives row {row:,} no finite likelihood; its weights are broken.")
            if len(long := names[rows][windows > 1]):
                some = ", ".join(f"{name:,}" for name in long[:10]) + (" …" if len(long) > 10 else "")
                message = "%d sentences have more than %d tokens and are scored by windows: rows %s"
                log.warning(message, len(long), cutter.capacity, some)
            yield Scored(rows, found, lengths, windows)
    finally:
        model.train(training)


def _side_by_side(scorer: AnyModel | PlainBert, work: Sequence[Batch]) -> Iterator[Tensor]:
    """The log-probabilities of each batch; on several threads of a CPU each batch is one thread's.

    Threads that share an operation wait for each other after each, and a masked copy's operations are small.
    """
    threads = torch.get_num_threads()
    if threads == 1 or not scorer.concurrent:
        yield from map(scorer.log_probabilities, work)
        return
    # A thread that is new takes as many threads as were set last.
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(scorer.log_probabilities, work)
    finally:
        torch.set_num_threads(threads)


def _limit(model: Any, tokenizer: Any) -> int:
    """The longest sequence, special tokens included; models that number positions from the padding id have fewer."""
    limit = getattr(model.config, "max_position_embeddings", None) or getattr(model.config, "n_positions", None) or sys.maxsize
    embeddings = getattr(model.base_model, "embeddings", None)
    numbered = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    return min(limit - (numbered + 1 if numbered is not None else 0), tokenizer.model_max_length)


def _check(sentences: Sequence[str]) -> None:
    if isinstance(sentences, str):
        raise ValueError("sentences is one string, expected a sequence of them.")
    for row, sentence in enumerate(sentences):
        if not isinstance(sentence, str) or not sentence.strip():
            found = "empty" if isinstance(sentence, str) else type(sentence).__name__
            raise ValueError(f"the sentence in row {row:,} (the first is 0) is {found}, expected text; leave it out.")
