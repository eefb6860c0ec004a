"""The hard negatives that an epoch draws of what was mined."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor
from torch.nn.functional import normalize

from trueneg.data.mining import DIGITS, Mined
from trueneg.errors import UserError
from trueneg.specs.hard_negatives import BOUNDS, upper_bound

BLOCK = 2**24  # candidates looked at at once


class HardNegatives:
    """Draws the hard negatives of an epoch from the mined ones.

    Args:
        settings: of :class:`~trueneg.specs.hard_negatives.HardNegativeSettings`.
        mined: what was mined for the run's anchors.
        rows: (T,) sorted rows of the source's sentences that the run trains on.
        vectors: (T, D) their vectors by the tower that mines.
        labels: (T,) their labels; −1: none.
        given: (P, 2) places among these texts of given pairs; None: positives are drawn.

    Attributes:
        measured: shares of the latest draw that are missing, and false; and their mean similarity.
            With ``false_share``, also the share that could not have the wished label.

    Raises:
        UserError: if there are fewer candidates than hard negatives to draw.
    """

    measured: dict[str, float]

    def __init__(
        self,
        settings: Mapping[str, Any],
        mined: Mined,
        rows: ndarray,
        vectors: ndarray,
        labels: ndarray,
        given: Tensor | None,
    ):
        wanted = settings["num_negatives"]
        if (available := mined.candidates.shape[1]) < wanted:
            raise UserError(
                f"hard_negatives.num_negatives is {wanted}, but there are {available} texts to mine"
                " from; expected at most as many. Lower it, or train on more texts."
            )
        self._settings = settings
        self._vectors = normalize(torch.from_numpy(vectors))
        self._labels = torch.tensor(labels)  # a copy, because pandas lends its own
        self._place = torch.from_numpy(np.searchsorted(mined.anchors, rows))
        places = np.full(max(rows.max(), mined.candidates.max()) + 2, -1, np.int32)
        places[rows] = np.arange(len(rows))
        self._candidates = torch.from_numpy(places[mined.candidates])  # of −1, the last: −1
        self._similarity = torch.from_numpy(mined.similarity)
        self._least: Tensor | None = None
        if given is not None:
            of_pairs = self._cosine(*given.T)
            least = of_pairs.new_ones(len(rows))
            self._least = least.scatter_reduce(0, given[:, 0], of_pairs, "amin")

    def draw(self, anchors: Tensor, positives: Tensor, generator: torch.Generator) -> Tensor:
        """Return the hard negatives of anchors, (n, H); where too few are allowed, the anchor
        itself, which the loss leaves out.

        Args:
            anchors: (n,) places among the training texts.
            positives: (n,) places of their positives.
            generator: generator for all draws.
        """
        count = 1 + len(anchors) * self._candidates.shape[1] // BLOCK
        parts = [
            self._draw(*part, generator)
            for part in zip(anchors.chunk(count), positives.chunk(count), strict=True)
        ]
        drawn, is_missing, fits = (torch.cat(part) for part in zip(*parts, strict=True))
        unmatched = (~fits[~is_missing]).float().mean().item()
        if self._settings["shuffled"]:
            others = torch.randperm(len(drawn), generator=generator)
            is_missing = is_missing[others] | (drawn[others] == anchors[:, None])
            drawn = torch.where(is_missing, anchors[:, None], drawn[others])
        self._measure(anchors, drawn, is_missing)
        if self._settings["false_share"] is not None:
            self.measured["share of hard negatives without the wished label"] = unmatched
        return drawn

    def _draw(
        self, anchors: Tensor, positives: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the hard negatives of some anchors, which ones are missing, and which ones have
        the label that ``false_share`` wishes.
        """
        of_anchor = self._place[anchors]
        candidates = self._candidates[of_anchor].long()
        similarity = self._similarity[of_anchor]
        usable = (candidates >= 0) & (candidates != positives[:, None])
        allowed = usable & self._allowed(anchors, positives, candidates, similarity)
        rank = allowed.cumsum(1)
        allowed &= (rank > self._settings["range_min"]) & (rank <= self._settings["range_max"])
        uniform = torch.rand(allowed.shape, generator=generator)
        order = uniform if self._settings["sampling"] == "random" else rank.float()
        order, chosen = order.masked_fill(~allowed, math.inf).topk(
            self._settings["num_negatives"], largest=False
        )
        is_missing = order == math.inf
        fits = ~is_missing
        if self._settings["false_share"] is not None:
            is_false = self._labels[candidates] == self._labels[anchors][:, None]
            chosen, fits, is_left = self._matched(usable, is_false, similarity, chosen, generator)
            is_missing |= ~is_left
        drawn = torch.where(is_missing, anchors[:, None], candidates.gather(1, chosen))
        return drawn, is_missing, fits

    def _measure(self, anchors: Tensor, drawn: Tensor, is_missing: Tensor) -> None:
        # one column after the other, because all vectors would need D times the memory
        columns = [self._cosine(anchors, column) for column in drawn.T]
        cosine = torch.stack(columns, 1)[~is_missing]
        is_false = (self._labels[drawn] == self._labels[anchors][:, None])[~is_missing]
        self.measured = {
            "share of missing hard negatives": is_missing.float().mean().item(),
            "similarity of hard negatives": cosine.mean().item(),
        }
        if (self._labels >= 0).any():
            self.measured["share of false hard negatives"] = is_false.float().mean().item()

    def _allowed(
        self, anchors: Tensor, positives: Tensor, candidates: Tensor, similarity: Tensor
    ) -> Tensor:
        """Return (n, M) bool: which candidates the bounds, the margins and the labels allow. With
        given pairs, a margin is one from the least similar positive of the anchor.
        """
        own = self._cosine(anchors, positives) if self._least is None else self._least[anchors]
        allowed = torch.ones_like(candidates, dtype=torch.bool)
        for name in BOUNDS:
            if (value := self._settings[name]) is not None:
                allowed &= similarity <= upper_bound(name, value, own)[:, None]
        if self._settings["min_score"] is not None:
            allowed &= similarity >= self._settings["min_score"]
        if self._settings["without_positives"]:
            allowed &= self._labels[candidates] != self._labels[anchors][:, None]
        return allowed

    def _matched(
        self,
        usable: Tensor,
        is_false: Tensor,
        similarity: Tensor,
        chosen: Tensor,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return usable candidates with the similarities of the chosen ones, as nearly as possible,
        that are false with the wished share; which ones have the wished label, the nearest text
        taking the place of those that there are not; and which ones are usable at all.
        """
        is_wished = torch.rand(chosen.shape, generator=generator) < self._settings["false_share"]
        wished = similarity.gather(1, chosen)
        matched = []
        found = []
        is_left = []
        for number in range(chosen.shape[1]):
            gap = (similarity - wished[:, number, None]).abs()
            fits = usable & (is_false == is_wished[:, number, None])
            found.append(fits.any(1, keepdim=True))
            is_left.append(usable.any(1, keepdim=True))
            matching = gap.masked_fill(~fits, math.inf).argmin(1, keepdim=True)
            nearest = torch.where(found[-1], matching, usable.int().argmax(1, keepdim=True))
            usable = usable.scatter(1, nearest, False)
            matched.append(nearest)
        return torch.cat(matched, 1), torch.cat(found, 1), torch.cat(is_left, 1)

    def _cosine(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the similarities of texts, rounded as those of the mined ones."""
        cosine = (self._vectors[first] * self._vectors[second]).sum(-1)
        return cosine.mul(10**DIGITS).round().div(10**DIGITS)
