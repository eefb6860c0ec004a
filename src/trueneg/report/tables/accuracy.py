"""Accuracies of an image study: one group of lines per data set and evaluation, one column per group of classes."""

from collections.abc import Sequence

from trueneg.config.image_study import ImageStudy
from trueneg.report.declared import Drawing, full_probe
from trueneg.report.formats import Table
from trueneg.report.gathered import Gathered
from trueneg.report.layouts import Comparison, Layout, comparison_of
from trueneg.report.metrics import evaluation_name, group_name
from trueneg.report.tables.building import Head, compare, side_by_side
from trueneg.specs.settings import Study
from trueneg.stats.measurement import Measurement

ORDER = 10
GROUPS = (None, "rare", "common")  # groups of classes


def drawings(study: Study) -> list[Drawing]:
    """Declare the accuracy table of an image study."""
    title = "Accuracy of every objective, with paired differences"
    caption = "The primary measurement leads; the rest is exploratory."
    return [Drawing("accuracy", accuracy, title, caption)] if isinstance(study, ImageStudy) else []


def accuracy(gathered: Gathered) -> Table:
    """Build the accuracy table of a study."""
    return accuracy_table(comparison_of(gathered), measured_of(gathered.study))


def accuracy_table(comparison: Comparison, measured: Sequence[Measurement]) -> Table:
    """Build a table of means and paired differences with one group of lines per evaluation."""
    layout: dict[str, list[Measurement]] = {}
    for one in measured:
        layout.setdefault(evaluation_name(one), []).append(one)
    heads = [Head(group_name(one), "accuracy", one.metric) for one in next(iter(layout.values()))]
    return side_by_side(compare(comparison.rows, comparison.baseline, measured), Layout(heads, layout), comparison)


def measured_of(study: ImageStudy) -> list[Measurement]:
    """Return the measurements in an image study's tables: first the primary one, then the exploratory ones."""
    evaluation = study.evaluation
    probes = (full_probe(study, pool) for pool in evaluation.linear_probe.label_pools)
    others = (Measurement(task, "accuracy", pool) for task in ("knn", "mean classifier") for pool in evaluation.knn.label_pools)
    ordered = dict.fromkeys([study.primary.measurement._replace(group=None), *probes, *others])
    groups = GROUPS if study.dataset.rare_classes else (None,)
    return [one._replace(group=group) for one in ordered for group in groups]
