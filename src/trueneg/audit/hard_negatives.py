"""Hard negatives, given in a file or mined from it: how near they are, and how many are false."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from pandas import DataFrame, Series
from scipy.sparse import csr_array

from trueneg.data.mining import DIGITS, RANKS, known_positives, nearest, normalised_vectors
from trueneg.data.texts.text_rows import ANCHOR, NEGATIVE, POSITIVE, REPEATED, certain
from trueneg.data.vector_files import read_vectors
from trueneg.models.towers.tower import Tower
from trueneg.runtime.devices import leased_device
from trueneg.specs.hard_negatives import upper_bound
from trueneg.specs.sections import Section
from trueneg.training.frozen import build_tower, refuse_long_texts, text_vectors

BAND = 0.1  # of similarities
# those of docs/text.md, with the settings' names
FILTERS: tuple[dict[str, float], ...] = (
    {},
    {"range_min": 30, "range_max": 100},
    {"absolute_margin": 0.1},
    {"relative_margin": 0.05},
)


class HardNegativePairs(NamedTuple):
    """Pairs of an anchor and a hard negative of it.

    Attributes:
        pairs: ``unit`` (number of the row or, if mined, of the anchor), ``anchor`` and ``negative``
            (numbers of texts), ``rank`` (1: the nearest of its unit), ``similarity`` (rounded) and
            ``is_false`` (1, 0; NaN: unknown), sorted by unit and rank; of given ones also ``cell``,
            their place among the cells.
        positives: sorted similarities of the positives of each unit, one of which is drawn; with
            given pairs, that of the least similar one.
        candidates: number of texts from which each anchor's were mined; 0: they are given.
    """

    pairs: DataFrame
    positives: Mapping[Any, ndarray]
    candidates: int = 0


class FrozenTexts:
    """A frozen text tower, or a file of vectors.

    Args:
        settings: of a tower of texts.
        forms: of all texts in a file of vectors, in its order; not used by other towers.

    Attributes:
        truncated: number of texts so far that are longer than its limit.
    """

    def __init__(self, settings: Section, forms: ndarray) -> None:
        self._settings = settings
        self._forms = pd.Index(forms)
        self._tower: Tower | None = None
        self._values: ndarray | None = None
        self.truncated = 0

    def __str__(self) -> str:
        """Return the name of its model or file."""
        return str(self._settings.get("model") or self._settings["path"])

    def vectors(self, cells: DataFrame) -> ndarray:
        """Return the vectors of different texts, of unit length.

        Args:
            cells: ``text`` and ``form`` of each.

        Raises:
            UserError: if the tower cannot be built, or does not fit the texts.
        """
        texts = cells["text"].tolist()
        if "path" in self._settings:
            if self._values is None:
                path = self._settings["path"]
                column = self._settings["column"]
                self._values = read_vectors(path, column, len(self._forms), "texts")
            return normalised_vectors(self._values[self._forms.get_indexer(cells["form"])])
        made_of: Any = {"training": {"kind": "text"}, "text_encoder": self._settings}
        tower = self._tower = self._tower or build_tower(made_of, "text_encoder")
        refuse_long_texts(tower, made_of, texts)
        most = tower.maximum_tokens or np.inf
        self.truncated += sum(length > most for length in tower.lengths(texts))
        with leased_device("auto") as device, torch.inference_mode():
            values = text_vectors(tower.to(device), texts, device)[:, 0, :, 0]
        return normalised_vectors(values)


def given(cells: DataFrame, vectors: ndarray, reasons: Series | None = None) -> HardNegativePairs:
    """Return the hard negatives of a file, each once per row.

    Args:
        cells: of :func:`~trueneg.data.texts.text_rows.text_cells`, with the ``number`` of each
            text.
        vectors: (T, D), by number.
        reasons: of :func:`~trueneg.data.texts.text_rows.certain`, which are found if not given;
            pairs with one are false or, without labels of both texts, left out.
    """
    if reasons is None:
        reasons = certain(cells)
    anchors = cells[cells["role"] == ANCHOR].set_index("row")["number"]
    is_kept = (reasons != REPEATED) if cells["label"].any() else (reasons == "")
    negatives = cells[(cells["role"] == NEGATIVE) & is_kept]
    pairs = DataFrame(
        {
            "cell": negatives.index,
            "unit": negatives["row"],
            "anchor": anchors.reindex(negatives["row"]).to_numpy(),
            "negative": negatives["number"],
            "is_certain": reasons[negatives.index] != "",
        }
    )
    positives = cells[cells["role"] == POSITIVE]
    own = _cosine(vectors, anchors.reindex(positives["row"]).to_numpy(), positives["number"])
    least = Series(own, positives["row"]).groupby(level=0).min()
    pairs = pairs.assign(similarity=_cosine(vectors, pairs["anchor"], pairs["negative"]))
    rank = pairs.groupby("unit")["similarity"].rank(method="first", ascending=False)
    pairs = pairs.assign(rank=rank.astype(int))
    return _judged(pairs, cells, {unit: np.array([value]) for unit, value in least.items()})


def mined(cells: DataFrame, vectors: ndarray, of_margins: bool = True) -> HardNegativePairs:
    """Return the nearest texts of each anchor, other than its known positives: of given pairs,
    positives, else any texts.

    Args:
        cells, vectors: as for :func:`given`.
        of_margins: whether the similarities of positives are needed; of large classes of many
            images, they do not fit in memory.
    """
    anchors = cells.loc[cells["role"] == ANCHOR, ["row", "number", "label"]]
    positives = cells.loc[cells["role"] == POSITIVE, ["row", "number"]]
    is_paired = len(positives) > 0
    merged = anchors.merge(positives if is_paired else anchors, on="row")
    both = merged[["number_x", "number_y"]].drop_duplicates().to_numpy()
    rows = np.unique(both[:, 0])
    candidates = np.unique(both[:, 1])
    known = known_positives(both, candidates)[rows]
    found, similarity = nearest(vectors[rows], vectors[candidates], candidates, known)
    found = found[:, : RANKS[-1]]
    similarity = similarity[:, : RANKS[-1]]
    pairs = DataFrame(
        {
            "unit": np.repeat(rows, found.shape[1]),
            "anchor": np.repeat(rows, found.shape[1]),
            "negative": found.ravel(),
            "rank": np.tile(np.arange(1, found.shape[1] + 1), len(rows)),
            "similarity": similarity.ravel().astype(float).round(DIGITS),
            "is_certain": False,
        }
    )
    if not (is_paired or of_margins):
        both = both[:0]
    elif not is_paired:
        of_label = anchors.loc[anchors["label"] != "", ["number", "label"]].drop_duplicates()
        merged = of_label.merge(of_label, on="label")
        both = merged[["number_x", "number_y"]].to_numpy()
        both = both[both[:, 0] != both[:, 1]]
    own = Series(_cosine(vectors, *both.T)).groupby(both[:, 0])
    sorted_own = {unit: np.sort(values)[: 1 if is_paired else None] for unit, values in own}
    found_pairs = pairs[pairs["negative"] >= 0]
    return _judged(found_pairs, cells, sorted_own)._replace(candidates=len(candidates))


def _judged(pairs: DataFrame, cells: DataFrame, positives: Any) -> HardNegativePairs:
    """Add whether pairs are false: certainly, or because both texts have a label in common."""
    labelled = cells[(cells["label"] != "") & (cells["role"] != NEGATIVE)]
    labels, names = pd.factorize(labelled["label"])
    places = labelled["number"], labels
    shape = cells["number"].max() + 1, len(names)
    has_label = csr_array((np.ones(len(labels), bool), places), shape=shape)
    ends = [has_label[pairs[end].to_numpy()] for end in ("anchor", "negative")]
    is_known = np.logical_and(*(end.sum(1) > 0 for end in ends))
    shares = ends[0].multiply(ends[1]).sum(1) > 0
    is_false = np.where(is_known, shares | pairs["is_certain"], np.nan)
    # a share of the known ones counts no pair that is known only because it is false
    is_chosen = is_known | ~pairs["is_certain"]
    pairs = pairs.assign(is_false=is_false)[is_chosen].drop(columns="is_certain")
    return HardNegativePairs(pairs.sort_values(["unit", "rank"], ignore_index=True), positives)


def kept(negatives: HardNegativePairs, settings: Mapping[str, float]) -> ndarray:
    """Return the probability that a filter keeps each pair, if one of the positives is drawn.

    Args:
        negatives: P pairs.
        settings: of :class:`~trueneg.specs.hard_negatives.HardNegativeSettings`.
    """
    pairs = negatives.pairs
    rank = pairs["rank"].to_numpy()
    is_kept = (rank > settings.get("range_min", 0)).astype(float)
    is_kept *= rank <= settings.get("range_max", np.inf)
    similarity = pairs["similarity"].to_numpy()
    for name, value in settings.items():
        if name.startswith("range"):
            continue
        for unit, places in pairs.groupby("unit").indices.items():
            bounds = upper_bound(name, value, negatives.positives.get(unit, np.ones(1)))
            below = np.searchsorted(np.sort(bounds), similarity[places])
            is_kept[places] *= 1 - below / len(bounds)
    return is_kept


def false_by(pairs: DataFrame, bands: Series) -> DataFrame:
    """Return the number of pairs of each band, and the share of false ones among the known."""
    grouped = pairs.groupby(bands, observed=True)["is_false"]
    counts = grouped.agg(["size", "count", "mean"])
    return counts.set_axis(["negatives", "known", "false"], axis=1)


def rank_bands(ranks: Series) -> Series:
    """Return the band of each rank, up to the last of them."""
    names = [
        str(last) if last == first + 1 else f"{first + 1}–{last}"
        for first, last in zip((0, *RANKS), RANKS, strict=False)
    ]
    return pd.cut(ranks, [0, *RANKS], labels=names)


def similarity_bands(similarity: Series) -> Series:
    """Return the lower end of each similarity's band."""
    return ((similarity.astype(float) / BAND + 1e-6) // 1 * BAND).round(DIGITS)


def chances(negatives: HardNegativePairs) -> dict[str, ndarray]:
    """Return the probability that each filter keeps each pair, by the filter's settings as text;
    without windows beyond all ranks.
    """
    most = negatives.pairs["rank"].max()
    return {
        ", ".join(f"{name}={value}" for name, value in settings.items()) or "none": kept(
            negatives, settings
        )
        for settings in FILTERS
        if settings.get("range_min", 0) < most
    }


def by_filter(pairs: DataFrame, chances: Mapping[str, ndarray]) -> DataFrame:
    """Return what each filter does.

    Returns:
        ``filter``, ``left`` (share of the negatives), ``false`` (share of false ones among those
            left) and the shares of the false and of the true ones that are removed: ``false
            removed``, ``true removed``. Where it is unknown which are false, NaN.
    """
    is_false = pairs["is_false"]
    lines = []
    for name, chance in chances.items():
        left = Series(chance, pairs.index).groupby(is_false).sum()  # without the unknown
        of_all = is_false.value_counts()
        false = left.get(1.0, 0.0)
        true = left.get(0.0, 0.0)
        removed = 1 - left.reindex([1.0, 0.0]) / of_all
        lines.append(
            {
                "filter": name,
                "left": chance.mean(),
                "false": false / (false + true) if false + true else np.nan,
                "false removed": removed.get(1.0, np.nan),
                "true removed": removed.get(0.0, np.nan),
            }
        )
    return DataFrame(lines)


def suspects(pairs: DataFrame, count: int) -> DataFrame:
    """Return the most similar pairs that are not known to be false, each once."""
    left = pairs[pairs["is_false"] != 1].sort_values("similarity", ascending=False, kind="stable")
    ends = DataFrame(np.sort(left[["anchor", "negative"]], axis=1), left.index)
    return left[~ends.duplicated()].head(count)


def _cosine(vectors: ndarray, first: Any, second: Any) -> ndarray:
    cosines: ndarray = (vectors[first] * vectors[second]).sum(1).astype(float).round(DIGITS)
    return cosines
