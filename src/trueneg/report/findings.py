"""The finding of each study as a sentence, for the page and the terminal, and sentences on headroom
and comparisons.
"""

import pkgutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pandas import DataFrame

from trueneg.config import runs
from trueneg.errors import UserError
from trueneg.io.seals import require_intact, sealed_files
from trueneg.legible import counted, legible
from trueneg.report.advice import advice
from trueneg.report.claims import claim, over_untrained
from trueneg.report.gathered import Gathered
from trueneg.report.labels import choice, chosen_name, edge_notes, seed_count
from trueneg.report.layouts import compared_rows
from trueneg.report.metrics import (
    amount,
    ends,
    evaluation_name,
    format_metric,
    is_tiny,
    margin_text,
    measured_name,
    with_interval,
)
from trueneg.report.tables.assumption import summaries_of
from trueneg.specs.experiments import DRAWN
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.sources import described
from trueneg.stats.comparison import NOT_ABOVE_CHANCE
from trueneg.stats.measurement import Measurement

LEVEL = "95 %"  # confidence level of every interval
# an exact signed-rank test cannot reach p < 0.05 with five pairs, whatever the differences
FEW_SEEDS = 6


def headroom_sentence(
    row: Any, metric: str, baseline: str, oracle: str | None, about_chance: str = ""
) -> str:
    """State the headroom of a data set for corrections of false negatives.

    Args:
        row: row from :func:`trueneg.stats.comparison.headroom`.
        metric: name of the measured metric.
        baseline: display name of the uncorrected objective.
        oracle: display name of the objective that knows the false negatives, if there is one.
        about_chance: a few words on what chance is, in brackets.
    """
    seeds = seed_count([row["seeds"]])
    if row["seeds"] < 2:
        share = f"{baseline} has" if oracle is None else f"{baseline} and {oracle} share"
        return f"unknown headroom: {share} {seeds}, but at least 2 are needed"
    reached = with_interval(row["baseline mean"], row["baseline low"], row["baseline high"], metric)
    level = (
        f"{baseline} reaches {reached}, chance is {amount(row['chance'], metric)}{about_chance}"
        f" ({LEVEL} intervals over {seeds})"
    )
    gain = with_interval(row["difference"], row["low"], row["high"], metric, signed=True)
    of_oracle = "no oracle is named" if oracle is None else f"{oracle} − {baseline} is {gain}"
    if row["label"] == NOT_ABOVE_CHANCE:
        return f"{baseline} is {row['label']}: {of_oracle}; {level}"
    return f"{row['label']} for corrections of false negatives: {of_oracle}; {level}"


def answer(
    row: Any,
    treatment: str,
    baseline: str,
    published: float | None = None,
    selection: Sequence[Mapping[str, Any]] = (),
    is_tuned: bool = True,
    caveats: Sequence[str] = (),
) -> list[str]:
    """State the answer to a study's question in a sentence; then the seeds, the measurement,
    selected values and, if undecided, the power.

    Args:
        row: row from :func:`trueneg.stats.comparison.primary_contrast`.
        treatment: display name of the objective under test.
        baseline: display name of the objective that it is compared with.
        published: published difference, in the metric's own unit, to compare with the minimum
            detectable difference.
        selection: result of :func:`selection_of` for the compared objectives.
        is_tuned: whether tuning selected their values; otherwise, they are the first listed ones.
        caveats: clauses that belong to the sentence with the finding.
    """
    metric = row["metric"]
    sentences = [
        f"{'; '.join([finding(row, treatment, baseline), *caveats])}.",
        *edge_notes(selection),
        f"Measured with {seed_count([row['seeds']])}: {evaluation_name(Measurement.of(row))}.",
    ]
    if names := [name for entry in selection if (name := chosen_name(entry)) != entry["objective"]]:
        sentences.append(f"{choice(is_tuned)}: {', '.join(names)}.")
    if row["outcome"] == "undecided" and pd.notna(row["minimum detectable"]):
        power = (
            f"A difference of {amount(row['minimum detectable'], metric, difference=True)} would"
            " have been detected with a power of 80 %, given this standard deviation"
        )
        if published is not None:
            power += (
                "; the published difference is"
                f" {amount(published, metric, signed=True, difference=True)}"
            )
        sentences.append(f"{power}.")
    return sentences


def answer_of(
    study: TrainedStudy,
    rows: DataFrame,
    dataset: str,
    selection: Sequence[Mapping[str, Any]],
    crossed: DataFrame | None = None,
) -> list[str]:
    """Return the sentences of the answer to a trained study's question, the finding first.

    Args:
        study: a trained study.
        rows: its tidy rows on the test split, of the selected variants.
        dataset: label of the primary contrast's data set.
        selection: entries of the selection in ``comparison.json``.
        crossed: comparisons over runs and samples, as for
            :func:`trueneg.stats.comparison.primary_contrast`.
    """
    primary = study.primary
    shown = claim(study, rows, dataset, selection, crossed)
    sentences = answer(
        shown.row,
        primary.treatment,
        shown.baseline,
        primary.published,
        selection_of(primary, dataset, selection),
        study.tuning is not None,
        shown.caveats,
    )
    return sentences + against_no_training(study, rows, dataset, crossed)


def against_no_training(
    study: TrainedStudy, rows: DataFrame, dataset: str, crossed: DataFrame | None = None
) -> list[str]:
    """State what training gains over the towers that it starts from.

    Args:
        study, rows, dataset, crossed: as for :func:`answer_of`.

    Returns:
        Sentences about the primary measurement; empty if the study has no such baseline.
    """
    found = over_untrained(study, rows, dataset, crossed)
    family = f", after Holm's correction over {len(found)} objectives" if len(found) > 1 else ""
    names = dict.fromkeys((study.primary.baseline, study.primary.treatment))
    return [
        f"{finding(found[name], name, found[name]['baseline'])}{family}."
        for name in names
        if name in found
    ]


def selection_of(
    primary: Any, dataset: str, selection: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the entries of a selection on a data set that concern the primary contrast or the
    headroom.
    """
    objectives = (primary.treatment, primary.baseline, primary.oracle)
    return [
        entry
        for entry in selection
        if entry["dataset"] == dataset and entry["objective"] in objectives
    ]


def finding(row: Any, treatment: str, baseline: str) -> str:
    """State in a clause what a comparison found: a gain, a loss, equivalence, or no verdict.

    Gains, losses and their intervals are positive in the direction that the outcome names. Other
    differences keep their sign. Of a primary measurement, higher values are better. The margin is
    beside every effect; few seeds, and gains that are hardly visible, are said.

    Args:
        row, treatment, baseline: as for :func:`answer`.
    """
    metric = row["metric"]
    seeds = seed_count([row["seeds"]])
    name = f"{measured_name(Measurement.of(row))} on {described(row['dataset'])}"
    cannot_tell = f"We cannot tell whether {treatment} is better or worse than {baseline}"
    if row["seeds"] < 2:
        return f"{cannot_tell}: they share {seeds}, but at least 2 are needed"
    difference = (
        f"the difference in {name} is"
        f" {amount(row['difference'], metric, signed=True, difference=True)}"
    )
    margin = "" if pd.isna(row["margin"]) else margin_text(row["margin"], metric)
    match row["outcome"].split(" ")[0]:
        case "equivalent":
            found = f"{treatment} and {baseline} are equivalent within {margin}: {difference}"
            return f"{found} ({_qualified(row, ends(row['low'], row['high'], metric))})"
        case "undecided":
            reach = _qualified(row, ends(row["low"], row["high"], metric), margin)
            return f"{cannot_tell}: {difference} ({reach})"
        case ranked:
            verb, preposition = ("gains", "over") if ranked == "better" else ("loses", "against")
            size = amount(abs(row["difference"]), metric, difference=True)
            within = f", less than the margin of {margin}" if row["outcome"] != ranked else ""
            reach = _qualified(row, _unsigned_ends(row, metric), "" if within else margin)
            return f"{treatment} {verb} {size} {preposition} {baseline} in {name}{within} ({reach})"


def _qualified(row: Any, reach: str, margin: str = "") -> str:
    """Return what stands in brackets after an effect: its interval, the margin if the sentence does
    not name it yet, and what makes the effect doubtful.
    """
    seeds = seed_count([row["seeds"]])
    has_interval = pd.notna(row["low"])
    said = [f"{LEVEL} interval {reach}" if has_interval else f"the same in each of {seeds}"]
    if pd.notna(row.get("clusters")):
        groups = "" if row.get("samples") == row["clusters"] else "groups of "
        said.append(f"over {seeds} and {row['clusters']:,.0f} {groups}test samples")
    if margin:
        is_withdrawn = has_interval and pd.isna(row["p equivalence"])
        wide = ", which the Oracle's gain is not shown to exceed" * is_withdrawn
        said.append(f"margin {margin}{wide}")
    if row["seeds"] < FEW_SEEDS:
        said.append(f"only {seeds}")
    is_ranked = row["outcome"] in ("better", "worse")
    if is_ranked and pd.isna(row["margin"]) and is_tiny(row["difference"], row["metric"]):
        said.append("no margin says whether so little matters")
    return ", ".join(said)


def _unsigned_ends(row: Any, metric: str) -> str:
    """Format the ends of an interval that excludes 0 without their sign, which the sentence states
    in words.
    """
    nearer, farther = sorted((abs(row["low"]), abs(row["high"])))
    return ends(nearer, farther, metric, signed=False)


def sentence(gathered: Gathered) -> str:
    """Answer a study's question in a plain sentence, or state what a study without an answer
    measures.
    """
    return pkgutil.resolve_name(gathered.study.FOUND_BY)(gathered)


def report(results: str | Path, studies: Iterable[str], planned: Collection[str]) -> str:
    """Return, for the terminal, the finding of each study on the page and a link to it; empty
    before the page is written.

    For a study that cannot be read, or whose files are damaged or missing, the reason takes the
    place of the finding, and so does a remark if this call of Snakemake does not compare its runs,
    because the finding may then be outdated.

    Args:
        results: the results folder.
        studies: names of studies.
        planned: outputs of all jobs of this call, whether they had to run or were up to date.
    """
    page = Path(results) / "index.html"
    if not page.is_file():
        return ""
    lines = []
    for name in studies:
        folder = page.parent / name / "artefacts"
        if not (folder / "study.yaml").is_file():
            continue
        if str(folder / "study.yaml") not in planned:
            lines.append(
                f"{name}: the answer on the page is of an earlier call; this one did not include"
                f" it\n    {page}#{name}\n"
            )
            continue
        try:
            summaries = sealed_files(page.parent, f"{name}/artefacts/")
            require_intact(page.parent, [path for path in summaries if path.parent == folder])
            text = sentence(Gathered(folder))
        except UserError as error:
            text = str(error)
        lines.append(legible(f"{name}: {text}") + f"\n    {page}#{name}\n")
    return "".join(lines)


def of_contrast(gathered: Gathered) -> str:
    """State what to use and, in a sentence with its caveats, what the primary contrast found."""
    primary = gathered.study.primary
    contrast = gathered.comparison["primary"]
    selection = gathered.comparison["selection"]
    rows = compared_rows(gathered)
    shown = claim(gathered.study, rows, contrast["dataset"], selection, gathered.crossed)
    clauses = [finding(shown.row, primary.treatment, shown.baseline), *shown.caveats]
    headroom = gathered.headroom
    label = headroom.loc[headroom["dataset"] == contrast["dataset"], "label"].iloc[0]
    if label == NOT_ABOVE_CHANCE:
        clauses.append(f"{primary.baseline} is {label}")
    return f"{advice(gathered).sentence} {'; '.join(clauses)}."


def of_likelihoods(gathered: Gathered) -> str:
    """Compare likelihoods with the class probabilities; if the classes are unknown, state what the
    study measures and where its values are.
    """
    study: LikelihoodStudy = gathered.study
    if study.reports.classes_known:
        return _of_correlations(gathered)
    models = ", ".join(study.language_models)
    eta = study.eta
    first = eta.language_model or next(iter(study.language_models))
    if not [*gathered.folder.parent.glob("text/*/eta.parquet")]:
        return "No likelihoods were computed, because no objective uses those of these texts."
    files = ", ".join(f"text/{corpus}/eta.parquet" for corpus in runs.corpora(study))
    return (
        f"The study measures the likelihood p of every sentence{' per token' * eta.per_token}"
        f" under {models} and estimates its class probability under {first}, η ="
        f" {eta.a:g}·p^{eta.k:g}, for image–text studies ({files}); the true classes are unknown,"
        " so η cannot be checked here."
    )


def of_experiments(gathered: Gathered) -> str:
    """Name the experiments of a study without training."""
    experiments = gathered.study.EXPERIMENTS
    return f"The study computes {counted(len(experiments), 'table')}: {', '.join(experiments)}."


def of_errors(gathered: Gathered) -> str:
    """Name the estimators with the smallest and the largest error in a theory study's default
    setting.
    """
    by_anchors = gathered.experiment("errors_by_parameter").query(
        "parameter == 'anchors' and quantity == 'mean squared error'"
    )
    errors = by_anchors[by_anchors["reference"] == DRAWN]
    # only the number of anchors, which sets the precision, is varied
    errors = errors[errors["at"] == errors["at"].max()]
    ranked = errors.sort_values("value", kind="stable").to_dict("records")
    return (
        "In the default setting, the smallest mean squared error is that of"
        f" {ranked[0]['estimator']}, {ranked[0]['value']:.2g}, and the largest that of"
        f" {ranked[-1]['estimator']}, {ranked[-1]['value']:.2g}. The ranking depends on the numbers"
        " of positives and negatives and on the assumed α."
    )


def _of_correlations(gathered: Gathered) -> str:
    """State the rank correlation of the first scorer, a language model, and of the best other, for
    each corpus.

    The correlations are those of sentences that affirm a finding.
    """
    summary = gathered.read(*summaries_of(gathered.study))
    findings = summary[summary["sentences"] == "findings only"]
    corpora = findings.groupby("corpus", sort=False)
    if len(corpora) == 1:
        return _of_scorers(findings)
    return " ".join(
        f"With {str(corpus).replace('=', ' = ')}: {_of_scorers(rows)}" for corpus, rows in corpora
    )


def _of_scorers(rows: DataFrame) -> str:
    first = rows.iloc[0]
    others = (
        rows.iloc[1:]
        .dropna(subset="spearman")
        .sort_values("spearman", ascending=False, kind="stable")
    )
    relation = (
        "rises with"
        if first["low"] > 0
        else "falls with"
        if first["high"] < 0
        else "has no clear relation to"
    )
    value = format_metric(first["spearman"], "ρ")
    reach = ends(first["low"], first["high"], "ρ", signed=False)
    clauses = [
        f"The likelihood under {first['scorer']} {relation} the class probability of sentences that"
        f" affirm a finding (rank correlation {value}, {LEVEL} interval {reach})"
    ]
    if len(others):
        best = others.iloc[0]
        value = format_metric(best["spearman"], "ρ")
        reach = ends(best["low"], best["high"], "ρ", signed=False)
        clauses.append(f"the best other measure, {best['scorer']}, has {value} ({reach})")
    return f"{'; '.join(clauses)}."
