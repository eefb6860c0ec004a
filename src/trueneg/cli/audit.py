"""Say how many negatives of the user's file are false, before anything is trained."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray
from pandas import DataFrame

from trueneg.audit import hard_negatives, images, rates
from trueneg.audit.hard_negatives import HardNegativePairs
from trueneg.audit.judge import opinions_of
from trueneg.audit.rates import Rate
from trueneg.audit.ratings import FOR_JUDGE, SAMPLE, RatedSample, read_ratings, write_sample
from trueneg.audit.sampling import ENDS, ranges_of
from trueneg.cli.audit_inputs import NO_IMAGE, Audited, read_audited, vectors_of
from trueneg.data.texts.text_rows import ANCHOR, NEGATIVE, about_batches, pair_codes
from trueneg.errors import UserError
from trueneg.io.files import writable
from trueneg.report.audit_page import write_page, write_rating_page

SUSPECTS = 20
SUSPECTED = "most similar pairs"  # a table
RATING_PAGE = "rate.html"
OPINIONS = "opinions.csv"
MARGINS = (0.0, 0.05, 0.1, 0.2, 0.3)  # relative ones whose precision and recall are estimated
NOT_RECOMMENDED = (
    "No filter is recommended: what a false negative costs, and what a lost true one, is not"
    " measured for data like these."
)


def audit(path: Path, folder: Path, chosen: Mapping[str, Any]) -> Iterator[str]:
    """Look for false negatives in texts or images, and write a page and tables; where it is not
    known which are false, also a sample to be rated.

    Args:
        path: the file or folder.
        folder: a new folder.
        chosen: columns, as for :func:`trueneg.cli.audit_inputs.read_audited`; ``encoder``,
            ``mine``, ``batch``, ``pairs`` and ``judged``.

    Yields:
        What is found, as soon as it is known.

    Raises:
        UserError: if the file or the folder cannot be used.
    """
    _refuse_options(path, folder, chosen)
    file = read_audited(path, chosen)
    without_model = [file.certain, about_batches(file.cells, chosen["batch"])]
    yield from [file.about, *without_model]
    if not ((file.cells["role"] == NEGATIVE).any() or chosen["mine"]):
        yield "no hard negatives are given; --mine looks at the nearest negatives"
        return
    vectors, about_encoder = vectors_of(file, chosen["encoder"])
    yield from about_encoder
    if chosen["mine"]:
        negatives = hard_negatives.mined(file.cells, vectors, of_margins=file.images is None)
    else:
        negatives = hard_negatives.given(file.cells, vectors)
    if negatives.pairs.empty:
        yield "no other hard negatives are left to look at"
        return
    what = f"{'mined' if chosen['mine'] else 'given'} hard negatives"
    tables = _tables(file, negatives, vectors)
    shares = _about_shares(what, tables)
    yield from [*shares, *_about_filters(tables["by filter"])]
    with writable(folder):
        folder.mkdir(parents=True)
    if negatives.pairs["is_false"].isna().any():
        _write_sample(folder, path, file, negatives, chosen, what)
        yield (
            f"Which of them are false is for you to say: rate a sample in {folder / RATING_PAGE}"
            f" (or {folder / SAMPLE}), and pass it with --ratings."
        )
    title = f"Hard negatives in {path.name}"
    said = [*without_model, *about_encoder, *shares]
    page = write_page(folder, title, file.about, said, tables, _pictures(file, tables[SUSPECTED]))
    yield f"Wrote {folder}: open {page}."


def _refuse_options(path: Path, folder: Path, chosen: Mapping[str, Any]) -> None:
    if folder.exists():
        raise UserError(f"{folder} already exists. Choose another folder with --out, or remove it.")
    if files := [parent for parent in folder.parents if parent.is_file()]:
        raise UserError(f"--out is {folder}, but {files[0]} is a file; choose another folder.")
    if path.is_dir() and folder.resolve().is_relative_to(path.resolve()):
        raise UserError(f"{folder} is inside of {path}, which is audited; choose another --out.")
    for option, least in (("batch", 2), ("pairs", 1), ("judged", 1)):
        if chosen[option] < least:
            raise UserError(f"--{option} is {chosen[option]}; expected at least {least}.")


def rated_audit(path: Path, folder: Path, ratings: Sequence[Path], judge: str | None) -> list[str]:
    """Say how many negatives are false according to the ratings of a sample or a judge, and write a
    page.

    Args:
        path: the file.
        folder: folder of the sample, which :func:`audit` wrote.
        ratings: a csv of each rater; empty: there is only a judge.
        judge: a command that rates more pairs (:func:`trueneg.audit.judge.opinions_of`), if any.

    Raises:
        UserError: as :func:`trueneg.audit.ratings.read_ratings` and
            :func:`~trueneg.audit.judge.opinions_of`.
    """
    sample = read_ratings(folder, path, ratings)
    opinions = None if judge is None else _opinions(judge, folder, sample)
    if opinions is not None and not ratings:
        return _about_opinions(opinions, sample)
    count = len(sample.pairs)
    ranges = ranges_of(sample.pairs["rank"].to_numpy())
    sizes = np.bincount(ranges)
    rate = _rate(sample, ranges, sizes, opinions)
    lines = [
        f"of {count:,} {sample.record['what']} that may be false, {_interval(rate)} are"
        f" ({rate.pairs} rated, {rate.unsure} unsure; in brackets, 95 % intervals)",
        f"class_probability of these, not of random in-batch negatives, for a loss (DCL):"
        f" {rate.share:.3g}, or {rate.low:.3g} to {rate.high:.3g}",
    ]
    if opinions is not None:
        lines.append(_about_judge(opinions, sample))
    if candidates := sample.record["candidates"]:
        rated = sample.verdicts, ranges[sample.rows]
        bound = rates.in_batch_bound(*rated, sizes, candidates)
        lines.append(f"of random in-batch negatives, at most {100 * bound:.3g} % are false")
    last = int(sample.pairs["rank"].max())
    by_rank = {
        f"{1 if not number else ENDS[number - 1] + 1}–{min(ENDS[number], last)}": _rate(
            sample, ranges, np.where(np.arange(len(sizes)) == number, sizes, 0), opinions
        )
        for number in np.flatnonzero(sizes)
    }
    if len(by_rank) > 1:
        lines += [f"of ranks {ranks}: {_interval(rate)}" for ranks, rate in by_rank.items()]
    by_filter = _by_filter(sample, ranges)
    tables = {
        "by rank": DataFrame(
            [(ranks, *rate[:4]) for ranks, rate in by_rank.items()],
            columns=["rank", "false", "low", "high", "rated"],
        ),
        "thresholds": by_filter,
    }
    title = f"Rated hard negatives in {path.name}"
    page = write_page(folder / "rated", title, "", [*lines, NOT_RECOMMENDED], tables)
    lines += [
        f"{by_filter.columns[0].replace(' ', '_')}={value} removes {100 * removed:.3g} %; of these,"
        f" {precision} are false: {recall} of all false ones; of the rest, {left} are"
        for value, removed, precision, recall, left in by_filter.itertuples(index=False)
    ]
    return [*lines, NOT_RECOMMENDED, f"Wrote {page.parent}: open {page}."]


def _rate(sample: RatedSample, ranges: ndarray, sizes: ndarray, opinions: ndarray | None) -> Rate:
    """Return the share of false ones in the ranges that have a size, with the opinions of a judge
    if there are any.
    """
    of_rated = ranges[sample.rows]
    if opinions is None:
        return rates.rate(sample.verdicts, of_rated, sizes)
    judged = sample.record["judged"]
    cells = np.bincount(2 * ranges[judged] + opinions[judged], minlength=2 * len(sizes))
    return rates.rate_with_judge(
        sample.verdicts, opinions[sample.rows], of_rated, sizes, cells.reshape(-1, 2)
    )


def _by_filter(sample: RatedSample, ranges: ndarray) -> DataFrame:
    """Return what thresholds of a study of images, or else relative margins, would remove."""
    if values := sample.record.get("thresholds"):
        name = "threshold"
        scores = sample.pairs["similarity"].to_numpy()
        bounds = np.array(values)
    else:
        name = "relative margin"
        values = MARGINS
        scores = -sample.pairs["margin"].to_numpy()
        bounds = np.negative(values)
    # removed: all beyond a bound; a score of at least the next number
    least = np.nextafter(bounds, np.inf).tolist()
    found = rates.thresholds(scores, ranges, sample.rows, sample.verdicts, least)
    return DataFrame(
        [
            (value, each.removed, *map(_interval, (each.precision, each.recall, each.left)))
            for value, each in zip(values, found, strict=True)
        ],
        columns=[name, "removed", "precision", "recall", "false of the rest"],
    )


def _opinions(judge: str, folder: Path, sample: RatedSample) -> ndarray:
    """Return what a judge says of each pair, bool; False: not asked. Write it, too."""
    asked = {*sample.record["rows"], *sample.record["judged"]}
    said = opinions_of(judge, folder / FOR_JUDGE, asked)
    said.rename("false").rename_axis("pair").to_csv(folder / OPINIONS)
    opinions = np.zeros(len(sample.pairs), bool)
    opinions[said.index] = said
    return opinions


def _about_opinions(opinions: ndarray, sample: RatedSample) -> list[str]:
    of_judged = opinions[sample.record["judged"]]
    return [
        f"the judge calls {100 * of_judged.mean():.3g} % of {len(of_judged):,} of the"
        f" {sample.record['what']} false. This is the judge's opinion, which nobody has compared"
        " with ratings: rate the sample, and pass it with --ratings, too"
    ]


def _about_judge(opinions: ndarray, sample: RatedSample) -> str:
    is_sure = ~np.isnan(sample.verdicts)
    agreed = np.sum(opinions[sample.rows[is_sure]] == sample.verdicts[is_sure])
    return (
        f"the ratings correct the judge's opinions on {len(sample.record['judged']):,} pairs; the"
        f" judge agrees with {agreed:,} of {is_sure.sum():,} sure ratings"
    )


def _interval(rate: Rate) -> str:
    if np.isnan(rate.share):
        return "an unknown share"
    unrated = 100 * rate.unrated
    beside = f"; {unrated:.3g} % of them in ranks without ratings" if unrated >= 1 else ""
    return f"{100 * rate.share:.3g} % ({100 * rate.low:.3g} to {100 * rate.high:.3g}{beside})"


def _write_sample(
    folder: Path,
    path: Path,
    file: Audited,
    negatives: HardNegativePairs,
    chosen: Mapping[str, Any],
    what: str,
) -> None:
    """Write a sample of the pairs of which it is not known whether they are false."""
    is_false = negatives.pairs["is_false"]
    pairs = negatives.pairs[is_false.isna()].reset_index(drop=True)
    # without a positive, 1, as in the filters of clean and of a study
    own = {unit: values[0] for unit, values in negatives.positives.items()}
    least = pairs["unit"].map(own).fillna(1.0)
    anchors = file.cells[file.cells["role"] == ANCHOR].drop_duplicates("number")
    groups = anchors.set_index("number")["row"].map(file.rows["group"])
    pairs["margin"] = (least - pairs["similarity"]) / least.abs()
    pairs["group"] = pairs["anchor"].map(groups)
    different = file.different
    ends = (different["form"][pairs[end]].to_numpy() for end in ("anchor", "negative"))
    pairs["code"] = pair_codes(*ends)
    texts = DataFrame(
        {
            "anchor": pairs["anchor"].map(different["text"]),
            "positive": pairs["anchor"].map(file.positives()).astype(object).fillna(""),
            "negative": pairs["negative"].map(different["text"]),
        }
    )
    # the bound for random negatives would need the shares among the known pairs, too
    candidates = len(anchors) * negatives.candidates if is_false.isna().all() else 0
    about: dict[str, Any] = {"what": what, "candidates": candidates, "thresholds": []}
    if file.images is not None:
        about["thresholds"] = images.thresholds_of(pairs["similarity"].to_numpy())
    counts = chosen["pairs"], chosen["judged"]
    sample = write_sample(folder, path, pairs, texts, *counts, **about)
    write_rating_page(folder / RATING_PAGE, path.name, sample, _pictures(file, sample))


def _tables(file: Audited, negatives: HardNegativePairs, vectors: ndarray) -> dict[str, DataFrame]:
    """Return the shares of false negatives by rank and similarity, those that filters leave, and
    the most similar pairs.
    """
    pairs = negatives.pairs
    bands = {
        "by rank": hard_negatives.rank_bands(pairs["rank"]),
        "by similarity": hard_negatives.similarity_bands(pairs["similarity"]),
    }
    tables = {
        name: hard_negatives.false_by(pairs, band).reset_index() for name, band in bands.items()
    }
    shown = hard_negatives.suspects(pairs, SUSPECTS)
    if file.images is None:
        chances = hard_negatives.chances(negatives)
        tables["by filter"] = hard_negatives.by_filter(pairs, chances)
        removed = [
            ", ".join(name for name, chance in chances.items() if chance[row] < 0.5)
            for row in shown.index
        ]
    else:
        thresholds = images.thresholds_of(pairs["similarity"].to_numpy())
        tables["by filter"] = images.by_threshold(file.cells, vectors, thresholds)
        below = np.searchsorted(thresholds, shown["similarity"])
        removed = [f"threshold≤{thresholds[count - 1]}" if count else "" for count in below]
    suspects = _suspects(file, shown).assign(**{"removed by": removed})
    return tables | {SUSPECTED: suspects, "unreadable images": file.unreadable}


def _suspects(file: Audited, shown: DataFrame) -> DataFrame:
    """Return what the user is to see of pairs; of images, with their labels or texts."""
    further: dict[str, tuple[str, Mapping[int, str]]] = {}
    if file.images is not None and (positives := file.positives()):
        further["anchor"] = "anchor's text", positives
        further["negative"] = "negative's image", file.anchors()
    elif file.images is not None:
        classes = dict(file.different["label"])
        further["anchor"] = "anchor's class", classes
        further["negative"] = "negative's class", classes
    columns = {}
    for end in ("anchor", "negative"):
        columns[end] = shown[end].map(file.different["text"])
        if end in further:
            name, values = further[end]
            columns[name] = shown[end].map(values)
    return DataFrame({**columns, "similarity": shown["similarity"], "rank": shown["rank"]})


def _pictures(file: Audited, shown: DataFrame) -> dict[str, bytes]:
    """Return pictures of the images in a table, by their names."""
    if file.images is None:
        return {}
    of_images = file.cells[file.cells["image"] != NO_IMAGE]
    positions = of_images.loc[of_images["text"].isin(shown.to_numpy().ravel()), "image"]
    return images.pictures(file.images, positions.tolist())


def _about_shares(what: str, tables: Mapping[str, DataFrame]) -> list[str]:
    judged, count = tables["by rank"][["known", "negatives"]].sum()
    known = {0: "it is not known which are false", count: "it is known of each whether it is false"}
    some = f"it is known of {judged:,} of them whether they are false"
    lines = [f"{count:,} {what}; {known.get(judged, some)}"]
    for name in ("by rank", "by similarity"):
        bands = tables[name].dropna().itertuples(index=False)
        listed = ", ".join(f"{band}: {100 * false:.3g} %" for band, _, _, false in bands)
        lines += [f"share of false ones {name}: {listed}"] if listed else []
    return [*lines, NOT_RECOMMENDED] if judged else lines


def _about_filters(by_filter: DataFrame) -> list[str]:
    """Return a sentence about each filter, without what is unknown."""
    lines = []
    for name, shares in by_filter.set_index("filter").iloc[1:].iterrows():
        known = shares.dropna().map(lambda share: f"{100 * share:.3g} %")
        of_left = f", {known['false']} of them false" if "false" in known else ""
        kinds = [kind for kind in ("false", "true") if f"{kind} removed" in known]
        removed = " and ".join(f"{known[f'{kind} removed']} of the {kind}" for kind in kinds)
        of_all = f"; removes {removed} ones" if kinds else ""
        lines.append(f"filter {name} leaves {known['left']}{of_left}{of_all}")
    return lines
