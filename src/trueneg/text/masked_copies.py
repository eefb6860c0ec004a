"""Build the masked copies of sentences, and the target tokens, that a pseudo-log-likelihood sums
over.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from trueneg.text.tokenizing import LITERALLY

ORIGINAL = "original"
WITHIN_WORD = "within_word_l2r"
CAUSAL = "causal"


class TargetBatch(NamedTuple):
    """Targets in pieces of equal length, so no padding or attention mask is needed.

    A piece is a sentence, or a window of a long sentence, as passed to the model.

    Attributes:
        sentences: (B,) index of the sentence that each target belongs to.
        ids: (P, T) token ids of the pieces, including special tokens.
        piece: (B,) index of the piece that each target belongs to.
        targets: (B,) position of the target token whose probability is computed.
        ends: (B,) last position masked together with the target (the target itself, or the end of
            its word).
    """

    sentences: ndarray
    ids: ndarray
    piece: ndarray
    targets: ndarray
    ends: ndarray

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        """Return ``ids``, ``piece`` and ``targets``, and a (B, T) mask of the masked positions of
        each copy.
        """
        positions = np.arange(self.ids.shape[1])
        masked = (positions >= self.targets[:, None]) & (positions <= self.ends[:, None])
        return tuple(
            torch.from_numpy(array).to(device)
            for array in (self.ids, self.piece, self.targets, masked)
        )


class Pieces:
    """Splits sentences into pieces of at most `limit` tokens, each enclosed in the tokenizer's
    special tokens.
    """

    def __init__(self, tokenizer: Any, variant: str, limit: int):
        if variant not in (ORIGINAL, WITHIN_WORD, CAUSAL):
            raise ValueError(
                f"variant is {variant!r}; expected one of {ORIGINAL}, {WITHIN_WORD}, {CAUSAL}."
            )
        self._tokenizer = tokenizer
        self._causal = variant == CAUSAL
        self._whole_words = variant == WITHIN_WORD
        if self._causal:
            start = (
                tokenizer.bos_token_id
                if tokenizer.bos_token_id is not None
                else tokenizer.cls_token_id
            )
            if start is None:
                raise ValueError(
                    "the tokenizer has no BOS or CLS token, which a causal model needs to predict"
                    " the first token."
                )
            self._before = [start]
            self._after = []
        else:
            if tokenizer.mask_token_id is None:
                raise ValueError(
                    "the tokenizer has no mask token; for a causal model, use variant 'causal',"
                    f" not {variant!r}."
                )
            encoded = tokenizer("a", return_special_tokens_mask=True)
            inside = np.flatnonzero(np.array(encoded["special_tokens_mask"]) == 0)
            self._before = encoded["input_ids"][: inside[0]]
            self._after = encoded["input_ids"][inside[-1] + 1 :]
        self.capacity = limit - len(self._before) - len(self._after)
        self._forbidden = np.array(
            sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}), np.int64
        )

    def of(self, sentences: Sequence[str], rows: ndarray) -> list[TargetBatch]:
        """Return the pieces of the sentences in order, each with all its targets; error messages
        use the row numbers in `rows`.

        Raises:
            ValueError: if a sentence has no tokens or contains a special token; names its row.
        """
        encoded = self._tokenizer(
            list(sentences), add_special_tokens=False, return_attention_mask=False, **LITERALLY
        )
        pieces = []
        for place, (tokens, row) in enumerate(zip(encoded["input_ids"], rows, strict=True)):
            ids = np.array(tokens, np.int64)
            if len(ids) == 0 or np.isin(ids, self._forbidden).any():
                problem = "contains a special token of the model" if len(ids) else "has no tokens"
                raise ValueError(
                    f"the sentence in row {row:,} (counting from 0) {problem}; remove it."
                )
            ends = np.arange(len(ids))
            if self._whole_words:
                words = np.array(encoded.word_ids(place))
                ends = np.searchsorted(words, words, side="right") - 1
            for start, stop, first, last in _windows(len(ids), self.capacity, self._causal):
                moved = len(self._before) - start
                whole = np.concatenate([self._before, ids[start:stop], self._after]).astype(
                    np.int64
                )
                targets = np.arange(first, last) + moved
                within = np.minimum(ends[first:last], stop - 1) + moved
                pieces.append(
                    TargetBatch(
                        np.full_like(targets, place),
                        whole[None],
                        np.zeros_like(targets),
                        targets,
                        within,
                    )
                )
        return pieces


def batches(
    pieces: Sequence[TargetBatch], tokens: int, targets: int, causal: bool
) -> Iterator[TargetBatch]:
    """Group pieces of equal length into batches, longest first, with as many targets as fit.

    Args:
        pieces: pieces in any order.
        tokens: maximum number of tokens of the masked copies (of the pieces, if causal) in a batch;
            a single longer copy forms a batch of its own.
        targets: maximum number of targets in a batch; a single causal piece with more forms a batch
            of its own.
        causal: whether one pass over a piece scores all its targets; if so, a piece is never
            divided.
    """
    by_length = sorted(pieces, key=lambda piece: -piece.ids.shape[1])
    for length, same_length in itertools.groupby(by_length, key=lambda piece: piece.ids.shape[1]):
        group = list(same_length)
        counts = np.array([len(piece.targets) for piece in group])
        of = np.repeat(np.arange(len(group)), counts)
        sentences, ids, _, wanted, ends = (
            np.concatenate(parts) for parts in zip(*group, strict=True)
        )
        if causal:
            at_once = max(1, min(tokens // length, targets // counts.max()))
            cuts = np.r_[0, np.cumsum(counts)[:-1]][::at_once]
        else:
            cuts = np.arange(0, len(of), max(1, min(tokens // length, targets)))
        for start, stop in itertools.pairwise([*cuts, len(of)]):
            chosen = slice(start, stop)
            first = of[start]
            last = of[stop - 1] + 1
            yield TargetBatch(
                sentences[chosen], ids[first:last], of[chosen] - first, wanted[chosen], ends[chosen]
            )


def _windows(length: int, capacity: int, causal: bool) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start, stop, first, last) of windows that overlap by half; each token is scored once,
    where it has the most context.

    For a causal model, this is the window with the longest past; otherwise, the window whose middle
    is nearest to the token.
    """
    starts = [*range(0, length - capacity, max(1, capacity // 2)), max(0, length - capacity)]
    pairs = itertools.pairwise(starts)
    borders = [
        start + capacity if causal else (start + following + capacity) // 2
        for start, following in pairs
    ]
    for start, first, last in zip(starts, [0, *borders], [*borders, length], strict=True):
        yield start, start + capacity, first, last
