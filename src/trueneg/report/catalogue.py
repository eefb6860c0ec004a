"""Which figures and tables a study gets, by name. The Snakefile asks here, so nothing that draws is imported."""

from trueneg.simulation import catalogue as simulation
from trueneg.study import runs
from trueneg.study.image_study import ImageStudy
from trueneg.study.likelihood_study import LikelihoodStudy
from trueneg.study.settings import Study
from trueneg.study.theory_study import TheoryStudy

# Figures of a theory study that repeat or extend the BCL paper's; the others are about bounds of the first paper.
BCL_FIGURES = (
    "class_conditional_densities",
    "observation_densities",
    "density_ratio",
    "importance_weights",
    "mean_squared_errors",
    "estimated_means",
    "bias_by_negatives",
    "errors_by_positives",
    "errors_by_assumed_alpha",
    "best_estimators",
)

# Figures of a likelihood study, and the choice of sentences that each shows.
LIKELIHOOD_FIGURES = {"assumption_all_sentences": "all sentences", "assumption_findings": "findings only"}
WITH_CLASSES = ("phantom", "open_i")  # sources of reports whose sentences' classes are known


def figures_of(study: Study) -> list[str]:
    """Names of a study's figures."""
    if isinstance(study, TheoryStudy):
        return list(simulation.FIGURES)
    if isinstance(study, LikelihoodStudy):
        return list(LIKELIHOOD_FIGURES) if study.reports.source in WITH_CLASSES else []
    return _figures_of_images(study)


def tables_of(study: Study) -> list[str]:
    """Names of a study's tables."""
    if isinstance(study, TheoryStudy):
        return list(simulation.TABLES)
    if isinstance(study, LikelihoodStudy):
        return ["assumption"] if study.reports.source in WITH_CLASSES else []
    return ["accuracy", "differences", *(["published"] if study.published is not None else [])]


def _figures_of_images(study: ImageStudy) -> list[str]:
    """Curves are always drawn; accuracy against r or N where that is swept, class groups where there are any, the others where
    the study asks for them. A name that ends in ``_differences`` is the paired twin of the figure before it.
    """
    pools = [f"{pool}_labels" for pool in study.evaluation.linear_probe.label_pools]
    names = []
    if isinstance(study.dataset.fraction, list):
        names += with_twins(["primary_by_fraction", *(f"probe_by_fraction_{pool}" for pool in pools)])
    if "batch_size" in study.conditions:
        names += with_twins(["primary_by_negatives"])
    if study.figures.label_fractions is not None:
        names += with_twins([f"probe_by_label_fraction_{pool}" for pool in pools])
    if study.dataset.rare_classes:
        names += ["class_groups"]
    if study.figures.embedding is not None:
        names += ["embedding"]
    return [*names, "training_loss", "share_at_bound", "same_class_ratio", "true_negative_mean"]


def with_twins(names: list[str]) -> list[str]:
    """Each name, followed by that of its paired twin."""
    return [twin for name in names for twin in (name, f"{name}_differences")]


def artefacts_of(figure: str, name: str, study: Study) -> list[str]:
    """Files that a figure or table of the study `name` reads alone: an experiment's, or what the gathered tables do not hold."""
    if isinstance(study, TheoryStudy):
        experiment = (simulation.FIGURES | simulation.TABLES)[figure]
        return [f"results/{name}/artefacts/simulation/{experiment}.parquet"]
    if isinstance(study, LikelihoodStudy):
        return [f"results/{name}/artefacts/assumption/{corpus}/summary.parquet" for corpus in runs.corpora(study)]
    if figure == "published":
        return [f"results/{name}/artefacts/published.parquet"]
    if figure != "embedding":
        return []
    wanted = study.figures.embedding
    dataset = wanted.dataset or study.primary.dataset or next(iter(runs.datasets(study)))
    return [f"results/{name}/artefacts/embedding/{dataset}/{objective}.parquet" for objective in wanted.objectives]
