"""The log-linear assumption in numbers: rank correlation, fit and error of every scorer."""

import pandas as pd
from pandas import DataFrame

from trueneg.config import runs
from trueneg.report.declared import Drawing
from trueneg.report.figures.assumption import rho_text
from trueneg.report.formats import Cell, Table
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import minus
from trueneg.specs.kinds.likelihood import LikelihoodStudy

ORDER = 10
KIND = LikelihoodStudy
NOTES = (
    (
        "ρ: rank correlation between log-likelihood and class probability over all occurrences of"
        " sentences, with its 95 % percentile bootstrap interval over classes. ρ of class means:"
        " each class counts once."
    ),
    (
        "a and k: weighted least squares in log space. Mean error: absolute error of the class"
        " probability. Unigrams and sentence frequency are counted on the reports of the other"
        " folds."
    ),
)


def drawings(study: LikelihoodStudy) -> list[Drawing]:
    """Declare the table over all corpora of a likelihood study with known classes."""
    if not study.reports.classes_known:
        return []
    return [
        Drawing(
            "assumption",
            draw,
            "Does a likely sentence belong to a common class?",
            "Rank correlation, the fitted a and k, and the error of the fit, for language models"
            " and for simpler scorers.",
            ("study.yaml", *summaries_of(study)),
        )
    ]


def summaries_of(study: LikelihoodStudy) -> tuple[str, ...]:
    """Return the summary file of each corpus."""
    return tuple(f"assumption/{corpus}/summary.parquet" for corpus in runs.corpora(study))


def draw(gathered: Gathered) -> Table:
    """Build the table from the summaries of the corpora."""
    return assumption_table(gathered.read(*summaries_of(gathered.study)))


def assumption_table(summary: DataFrame) -> Table:
    """Build a table with one line per scorer and one group per corpus and selection of
    sentences.
    """
    lines = []
    for (corpus, sentences), rows in summary.groupby(["corpus", "sentences"], sort=False):
        title = (
            f"{corpus}, {sentences}: {rows['texts'].max():,} sentences, {rows['classes'].max()}"
            " classes"
        )
        for _, row in rows.iterrows():
            of_classes = (
                "–" if pd.isna(row["spearman of classes"]) else f"{row['spearman of classes']:.2f}"
            )
            texts = (
                rho_text(row),
                of_classes,
                f"{row['a']:.3g}",
                f"{row['k']:.3f}",
                f"{row['error']:.3f}",
            )
            lines.append((title, row["scorer"], [Cell(minus(text)) for text in texts]))
    columns = [
        ("", name) for name in ("Spearman's ρ", "ρ of class means", "a", "k", "mean error of a·p^k")
    ]
    return Table(summary, columns, lines, NOTES, corner="scorer")
