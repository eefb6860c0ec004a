"""Which figures and tables a study gets, by name. The Snakefile asks here, so nothing that draws is imported."""

from typing import Literal

from trueneg.config import runs
from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.theory_study import TheoryStudy
from trueneg.errors import UserError
from trueneg.specs import experiments as simulation
from trueneg.specs.settings import Study

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

PAIRED = "_differences"  # ends the name of a figure's twin, which shows paired differences
# What repeats the first paper's Fig. 3 and its Tables 1, 3, 4 and 5; the last stands beside what it prints.
SSD_FIGURES = ("tradeoff", f"tradeoff{PAIRED}")
SSD_TABLES = ("tasks", "contrasts", "zero_shot", "grounding", "retrieval", "published")
# What repeats ReCo's Figs. 4, 5 and 6 (the histograms on two data sets) and its Tables 1, 2 and 3.
ABLATIONS = ("ablation_batch_size", "ablation_dimensions", "ablation_strength")
RECO_FIGURES = ("similarity_histograms", *(name + end for name in ABLATIONS for end in ("", PAIRED)))
RECO_TABLES = ("precision", "linear_evaluation", "retrieval", "published")

# What compares with human ratings, and the tables of the summary that each shows.
RATINGS = {"human_ratings": ("summary", "rows", "calibration"), "eta_by_anchor": ("eta", "correlations")}


def figures_of(study: Study) -> list[str]:
    """Names of a study's figures."""
    if isinstance(study, TheoryStudy):
        return list(simulation.FIGURES)
    if isinstance(study, LikelihoodStudy):
        return list(LIKELIHOOD_FIGURES) if study.reports.classes_known else []
    if isinstance(study, ImageTextStudy):
        return _figures_of_pairs(study)
    return _figures_of_images(study)


def tables_of(study: Study) -> list[str]:
    """Names of a study's tables."""
    if isinstance(study, TheoryStudy):
        return list(simulation.TABLES)
    if isinstance(study, LikelihoodStudy):
        return ["assumption"] if study.reports.classes_known else []
    if isinstance(study, ImageTextStudy):
        return _tables_of_pairs(study)
    return ["accuracy", "differences", *(["published"] if study.published is not None else [])]


def require(what: Literal["figure", "table"], name: str, of: str, study: Study) -> None:
    """Refuse a name that a study has no figure or table of.

    Args:
        what: which of the two the name is of.
        name: must be exactly one of :func:`figures_of` or :func:`tables_of`.
        of: the study's name, for the message.
        study: the study.

    Raises:
        UserError: if the study has none of that name.
    """
    known = figures_of(study) if what == "figure" else tables_of(study)
    if name not in known:
        raise UserError(f"{of}: has no {what} {name!r}, expected one of {', '.join(known) or 'none'}.")


def _figures_of_images(study: ImageStudy) -> list[str]:
    """Curves are always drawn; accuracy against r or N where that is swept, class groups where there are any, the others where
    the study asks for them.
    """
    pools = study.evaluation.linear_probe.label_pools
    names = []
    if isinstance(study.dataset.fraction, list):
        names += with_twins(["primary_by_fraction", *(of_pool("probe_by_fraction", pool) for pool in pools)])
    if "batch_size" in study.conditions:
        names += with_twins(["primary_by_negatives"])
    if study.figures.label_fractions is not None:
        names += with_twins([of_pool("probe_by_label_fraction", pool) for pool in pools])
    if study.dataset.rare_classes:
        names += ["class_groups"]
    if study.figures.embedding is not None:
        names += ["embedding"]
    return [*names, "training_loss", "share_at_bound", "same_class_ratio", "true_negative_mean"]


def _figures_of_pairs(study: ImageTextStudy) -> list[str]:
    """Curves are always drawn, class probabilities where the classes' are known, what a sweep does where there is one, the
    others where the study asks for them.
    """
    names = []
    if constant_sweep(study) is not None:
        names += with_twins(["tradeoff"])
    if study.figures.similarities is not None:
        names += ["similarity_histograms"]
    if study.figures.overlays is not None:
        names += ["grounding_overlays"]
    if study.dataset.source == "phantom":
        names += ["eta_by_class"]
    if "batch_size" in study.conditions:
        names += with_twins(["ablation_batch_size"])
    if isinstance(study.projection.dimensions, list):
        names += with_twins(["ablation_dimensions"])
    if strength_sweep(study) is not None:
        names += with_twins(["ablation_strength"])
    if study.dataset.rated:
        names += ["human_ratings", "eta_by_anchor"]
    return [*names, "training_loss", "share_at_bound", "positive_similarity"]


def _tables_of_pairs(study: ImageTextStudy) -> list[str]:
    names = ["tasks", *(["contrasts"] if study.contrasts else [])]
    if _has_prompts(study):
        names += ["zero_shot"]
    names += ["retrieval"]
    if (_has_prompts(study) and study.evaluation.precision is not None) or study.evaluation.chexpert_8x200 is not None:
        names += ["precision"]
    if study.dataset.boxed:
        names += ["grounding"]
    if study.dataset.labelled:
        names += ["linear_evaluation"]
    if study.dataset.rated:
        names += ["human_ratings"]
    return [*names, "differences", *(["published"] if study.published else [])]


def _has_prompts(study: ImageTextStudy) -> bool:
    """Whether there are labels, and sentences that stand for them: of own labels a study has to say which."""
    return study.dataset.labelled and (study.dataset.source != "image_table" or study.evaluation.zero_shot.prompts is not None)


def constant_sweep(study: ImageTextStudy) -> str | None:
    """The DCL objective that tries several constant class probabilities, if there is one."""
    for name, objective in study.objectives.items():
        if objective.name == "dcl" and isinstance(objective.class_probability, list):
            constants = [value for value in objective.class_probability if not isinstance(value, str)]
            if len(constants) > 1:
                return name
    return None


def strength_sweep(study: ImageTextStudy) -> str | None:
    """The ReCo objective that tries several weights of the negatives, if there is one."""
    sweeping = (
        name
        for name, objective in study.objectives.items()
        if objective.name == "reco" and isinstance(objective.negative_weight, list)
    )
    return next(sweeping, None)


def with_twins(names: list[str]) -> list[str]:
    """Each name, followed by that of its paired twin."""
    return [twin for name in names for twin in (name, name + PAIRED)]


def of_pool(name: str, pool: str) -> str:
    """Name of a figure about the linear probe on one pool of labels."""
    return f"{name}_{pool}_labels"


def artefacts_of(figure: str, name: str, study: Study) -> list[str]:
    """Files that a figure or table of the study `name` reads alone: an experiment's, or what the gathered tables do not hold."""
    if isinstance(study, TheoryStudy):
        experiment = (simulation.FIGURES | simulation.TABLES)[figure]
        return [f"results/{name}/artefacts/simulation/{experiment}.parquet"]
    if isinstance(study, LikelihoodStudy):
        return [f"results/{name}/artefacts/assumption/{corpus}/summary.parquet" for corpus in runs.corpora(study)]
    if figure == "published":
        return [f"results/{name}/artefacts/published.parquet"]
    if isinstance(study, ImageTextStudy):
        return _artefacts_of_pairs(figure, name, study)
    if figure != "embedding":
        return []
    wanted = study.figures.embedding
    dataset = wanted.dataset or study.primary.dataset or next(iter(runs.datasets(study)))
    return [f"results/{name}/artefacts/embedding/{dataset}/{objective}.parquet" for objective in wanted.objectives]


def _artefacts_of_pairs(figure: str, name: str, study: ImageTextStudy) -> list[str]:
    folder = f"results/{name}/artefacts"
    if figure == "eta_by_class":
        return [f"{folder}/class_probabilities.parquet"]
    if figure in RATINGS:
        return [f"{folder}/human_ratings/{table}.parquet" for table in RATINGS[figure]]
    asked = {
        "similarity_histograms": ("similarities", study.figures.similarities),
        "grounding_overlays": ("overlays", study.figures.overlays),
    }
    if figure not in asked:
        return []
    kind, wanted = asked[figure]
    dataset = study.primary.dataset or next(iter(runs.datasets(study)))
    return [f"{folder}/{kind}/{dataset}/{objective}.parquet" for objective in wanted.objectives]
