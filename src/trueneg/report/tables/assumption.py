"""The log-linear assumption in numbers: rank correlation, fit and error of every scorer."""

import pandas as pd

from trueneg.config import runs
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.report.declared import Drawing
from trueneg.report.figures.assumption import rho_text
from trueneg.report.formats import Cell, Group, Table
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import minus
from trueneg.specs.settings import Study

ORDER = 10


def drawings(study: Study) -> list[Drawing]:
    """Declare the table over all corpora of a likelihood study with known classes."""
    if not isinstance(study, LikelihoodStudy) or not study.reports.classes_known:
        return []
    files = summaries_of(study)
    title = "Does a likely sentence belong to a common class?"
    caption = "Rank correlation, the fitted a and k, and what the fit misses, for language models and for what is simpler."
    return [Drawing("assumption", draw, title, caption, ("study.yaml", *files), {"files": files})]


def summaries_of(study: LikelihoodStudy) -> tuple[str, ...]:
    """Return the summary file of each corpus."""
    return tuple(f"assumption/{corpus}/summary.parquet" for corpus in runs.corpora(study))


def draw(gathered: Gathered, files: tuple[str, ...]) -> Table:
    """Build the table from the summaries of the corpora."""
    return assumption_table(gathered.read(*files))


def assumption_table(summary: pd.DataFrame) -> Table:
    """Build a table with one line per scorer and one group per corpus and selection of sentences."""
    groups = []
    for (corpus, sentences), rows in summary.groupby(["corpus", "sentences"], sort=False):
        title = f"{corpus}, {sentences}: {int(rows['texts'].max()):,} sentences, {int(rows['classes'].max())} classes"
        groups.append(Group(title, [(row["scorer"], _cells(row)) for _, row in rows.iterrows()]))
    names = ("Spearman's ρ", "ρ of class means", "a", "k", "mean error of a·p^k")
    notes = [
        "ρ: rank correlation of log-likelihood and class probability over sentences as often as they occur, with its 95 % "
        "percentile interval over classes drawn anew; of class means: each class once.",
        "a and k: weighted least squares in log space. Mean error: of the class probability, absolute. "
        "Unigrams and sentence frequency are counted on the reports of the other folds.",
    ]
    return Table(summary, [("", name) for name in names], groups, notes, corner="scorer")


def _cells(row: pd.Series) -> list[Cell]:
    of_classes = "–" if pd.isna(row["spearman of classes"]) else f"{row['spearman of classes']:.2f}"
    texts = (rho_text(row), of_classes, f"{row['a']:.3g}", f"{row['k']:.3f}", f"{row['error']:.3f}")
    return [Cell(minus(text)) for text in texts]
