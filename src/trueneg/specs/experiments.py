"""Names of the experiments on the stochastic process and of the estimators that they compare."""

DENSITIES = (
    "class_conditional_densities",
    "observation_densities",
    "density_ratio",
    "normalisation",
)
SWEEPS = (
    "errors_by_parameter",
    "errors_in_simulation_code",
    "errors_by_negatives",
    "errors_by_positives",
)
ERRORS = (*SWEEPS, "errors_by_assumed_alpha")
BOUNDS = ("approximation_errors", "supervised_bound", "generalisation_terms")
# Maps each experiment function, which takes a trueneg.theory.scores.Experiment, to its module.
EXPERIMENTS = {
    **dict.fromkeys(DENSITIES, "density_experiments"),
    **dict.fromkeys(ERRORS, "error_experiments"),
    **dict.fromkeys(BOUNDS, "bound_experiments"),
}

# Names of the compared estimators in data frames and figures.
BIASED = "CL (biased)"
DCL = "DCL"
TRUE = "true negatives"
FORM_NAMES = {"paper": "BCL, paper", "released": "BCL, released", "consistent": "BCL, consistent"}
ESTIMATORS = (BIASED, DCL, *FORM_NAMES.values())
# reference values for the estimates
DRAWN, EXACT = REFERENCES = ("drawn true negatives", "exact mean")
