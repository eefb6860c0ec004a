"""Which figures and tables a study gets, by name. The Snakefile asks here, so nothing that draws is imported."""

from trueneg.study import runs
from trueneg.study.config import Study

TABLES = ("accuracy", "differences")


def figures_of(study: Study) -> list[str]:
    """Names of a study's figures.

    Curves and class groups are always drawn; accuracy against r where r is swept; the others where the study asks for them. A
    name that ends in ``_differences`` is the paired twin of the figure before it.
    """
    pools = [f"{pool}_labels" for pool in study.evaluation.linear_probe.label_pools]
    names = []
    if isinstance(study.dataset.fraction, list):
        names += with_twins(["primary_by_fraction", *(f"probe_by_fraction_{pool}" for pool in pools)])
    if study.figures.label_fractions is not None:
        names += with_twins([f"probe_by_label_fraction_{pool}" for pool in pools])
    names += ["class_groups"]
    if study.figures.embedding is not None:
        names += ["embedding"]
    return [*names, "training_loss", "share_at_bound", "same_class_ratio", "true_negative_mean"]


def with_twins(names: list[str]) -> list[str]:
    """Each name, followed by that of its paired twin."""
    return [twin for name in names for twin in (name, f"{name}_differences")]


def artefacts_of(figure: str, name: str, study: Study) -> list[str]:
    """Files that a figure of the study `name` reads beyond the gathered rows, curves and comparison."""
    if figure != "embedding":
        return []
    wanted = study.figures.embedding
    dataset = wanted.dataset or study.primary.dataset or next(iter(runs.datasets(study)))
    return [f"results/{name}/artefacts/embedding/{dataset}/{objective}.parquet" for objective in wanted.objectives]
