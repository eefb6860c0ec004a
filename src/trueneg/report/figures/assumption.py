"""The log-linear assumption: class probability against likelihood for every sentence scorer.

All figures read the tidy tables of :func:`trueneg.text.assumption.check_assumption`, which contain
no text.
"""

from collections.abc import Sequence

import numpy as np
from pandas import Series

from trueneg.config import runs
from trueneg.report.declared import Drawing
from trueneg.report.drawing import COLOURS, Figure, LineStyle, add_legend, finish
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import with_interval
from trueneg.report.plots import facets
from trueneg.specs.kinds.likelihood import LikelihoodStudy

ORDER = 10
KIND = LikelihoodStudy
SENTENCE = LineStyle(COLOURS[1], "o", "")
MEAN = LineStyle(COLOURS[0], "s", "-")
FIT = LineStyle(COLOURS[2], "", (0, (5, 1.5)))
MOST_POINTS = 4000  # maximum per panel; only the most frequent sentences are drawn


def drawings(study: LikelihoodStudy) -> list[Drawing]:
    """Declare the figures of a likelihood study with known classes for its first corpus: all
    sentences, and findings only.
    """
    if not study.reports.classes_known:
        return []
    corpus = next(iter(runs.corpora(study)))
    files = tuple(
        f"assumption/{corpus}/{table}.parquet" for table in ("points", "summary", "calibration")
    )
    make = class_probability_by_likelihood
    read = ("study.yaml", *files)
    return [
        Drawing(
            "assumption_all_sentences",
            make,
            "Class probability against likelihood, all sentences",
            "Sample-Specific Debiasing assumes a straight line here; one panel per scorer, with the"
            " fitted a·p^k.",
            read,
            {"files": files, "sentences": "all sentences"},
        ),
        Drawing(
            "assumption_findings",
            make,
            "Class probability against likelihood, sentences that affirm a finding",
            "Without denials and filler, which have both high likelihoods and high frequencies.",
            read,
            {"files": files, "sentences": "findings only"},
            headline=True,
        ),
    ]


def class_probability_by_likelihood(
    gathered: Gathered, files: Sequence[str], sentences: str
) -> Figure:
    """Plot class probability against log-likelihood, one panel per scorer: unique sentences,
    quantiles and the fitted a·p^k.

    Args:
        gathered: artefacts of the study.
        files: points, summary and calibration of a corpus.
        sentences: the selection of sentences, ``"all sentences"`` or ``"findings only"``.
    """
    points, summary, calibration = map(gathered.read, files)
    chosen, calibration = (
        table[table["sentences"] == sentences] for table in (summary, calibration)
    )
    points = points if sentences == "all sentences" else points[points["finding"]]
    corpus = chosen["corpus"].iloc[0]
    figure, parts = facets(chosen, "scorer", size=(2.7, 2.5), ylabel="Class probability")
    for plot, (scorer,), rows in parts:
        row = rows.iloc[0]
        bins = calibration[calibration["scorer"] == scorer].sort_values("log_likelihood")
        most = points[points["scorer"] == scorer].nlargest(MOST_POINTS, "count")
        plot.scatter(
            most["log_likelihood"],
            np.exp(most["log_class_probability"]),
            s=4 + 4 * np.log1p(most["count"]),
            color=SENTENCE.color,
            alpha=0.25,
            linewidths=0,
            rasterized=True,
        )
        plot.plot(bins["log_likelihood"], bins["actual"], markersize=4, **MEAN._asdict())
        ends = bins["log_likelihood"].iloc[[0, -1]]
        plot.plot(ends, row["a"] * np.exp(row["k"] * ends), **FIT._asdict())
        plot.set_title(f"{scorer}\nρ {rho_text(row)}", fontsize=9.5)
        plot.set(
            yscale="log",
            xlabel="− number of words" if scorer == "length" else "Log-likelihood (nats)",
        )
    add_legend(
        figure,
        {"sentence": SENTENCE, "mean of a tenth of the sentences": MEAN, "fitted a·p^k": FIT},
    )
    return finish(
        figure,
        f"{corpus}, {sentences}: {int(chosen['texts'].max()):,} sentences,"
        f" {int(chosen['unique'].max()):,} of them unique, {int(chosen['classes'].max())}"
        " classes. ρ is Spearman's rank correlation, with 95 % bootstrap intervals over"
        " classes. The horizontal axes have different scales.",
        gathered.study_note,
    )


def rho_text(row: Series) -> str:
    """Format Spearman's ρ of a summary row with its interval."""
    return with_interval(row["spearman"], row["low"], row["high"], "ρ")
