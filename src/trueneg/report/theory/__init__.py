"""Figures and tables of the theory: what the stochastic process says about estimators and bounds.

Each takes the frame of one experiment (:mod:`trueneg.specs.experiments`) and returns a matplotlib figure or a table.
Bands and bars are 95 % Monte-Carlo intervals, 1.96 standard errors on each side.
"""

from collections.abc import Mapping

from trueneg.report.drawing import Drawing
from trueneg.report.theory import bounds, errors, process, tables

# Names as in trueneg.specs.experiments.
FIGURES: Mapping[str, Drawing] = {
    "class_conditional_densities": Drawing(
        process.class_conditional_densities,
        "Densities of true and false negatives",
        "BCL's Fig. 3: the better the encoder ranks (α), the farther apart the two are; lines in closed form, dots drawn.",
    ),
    "observation_densities": Drawing(
        process.observation_densities,
        "Densities of the observations",
        "BCL's Fig. 4: what an estimator sees, in closed form and as a Gaussian kernel shows it, which blurs the ends.",
    ),
    "density_ratio": Drawing(
        process.density_ratio,
        "The density ratio that the biased loss estimates",
        "BCL's Fig. 1: the jump of equation 10 lies where no similarity can be; below it the ratio only grows.",
    ),
    "importance_weights": Drawing(
        process.importance_weights,
        "Importance weights by rank",
        "The printed formula puts the mixture's rank where the base's belongs: far negatives weigh too much.",
    ),
    "mean_squared_errors": Drawing(
        errors.mean_squared_errors,
        "Mean squared error of the estimators",
        "BCL's Fig. 5, with all three forms: BCL below DCL below biased holds in the paper's setting, not everywhere.",
    ),
    "estimated_means": Drawing(
        errors.estimated_means,
        "Mean estimates",
        "BCL's Fig. 8: the printed form lies below the truth, more so for a better encoder.",
    ),
    "bias_by_negatives": Drawing(
        errors.bias_by_negatives,
        "Bias as the number of negatives grows",
        "Lemma 3.2 says that BCL's bias vanishes: the printed form's stays, the consistent form's goes.",
    ),
    "errors_by_positives": Drawing(
        errors.errors_by_positives,
        "Mean squared error against the number of positives",
        "With one positive, as in training, DCL is farther off than no correction.",
    ),
    "errors_by_assumed_alpha": Drawing(
        errors.errors_by_assumed_alpha,
        "Mean squared error under a wrong α",
        "BCL needs to know how well the encoder ranks; DCL does not.",
    ),
    "best_estimators": Drawing(
        errors.best_estimators,
        "Which estimator is best where",
        "Letters name the smallest mean squared error over α, τ⁺, N and K.",
    ),
    "approximation_errors": Drawing(
        bounds.approximation_errors,
        "Proposition 1: the approximation error under its bound",
        "The bound lies orders of magnitude above the error, and mostly above what is trivially true.",
    ),
    "supervised_bound": Drawing(
        bounds.supervised_bound,
        "Lemma 2 on digits",
        "The asymptotic debiased loss is above the mean classifier's, as the lemma says, and rises with log N.",
    ),
    "generalisation_terms": Drawing(
        bounds.generalisation_terms,
        "Theorem 4's terms",
        "The complexity term alone is far above the loss of a classifier that knows nothing: the bound is vacuous.",
    ),
    "smooth_bound": Drawing(
        bounds.smooth_bound,
        "DCL's hard and smooth bound",
        "The smooth bound lowers the gradient and puts off the point at which anchors are switched off; it does not remove it.",
    ),
}
TABLES: Mapping[str, Drawing] = {
    "protocol_numbers": Drawing(tables.protocol_numbers, "BCL's estimators, measured again", "Earlier numbers beside new ones."),
    "normalisation": Drawing(tables.normalisation, "Proposition 3.1", "Densities integrate to 1 and are nowhere negative."),
    "informative_sizes": Drawing(
        tables.informative_sizes, "Where Proposition 1 says something", "With ten classes and one positive: nowhere."
    ),
}
