"""Names of the experiments on the stochastic process and of the compared estimators."""

# Maps each experiment function to its module; all take a Setting, and their own sweeps as keyword arguments.
EXPERIMENTS = {
    "class_conditional_densities": "density_experiments",
    "observation_densities": "density_experiments",
    "density_ratio": "density_experiments",
    "importance_weights": "density_experiments",
    "normalisation": "density_experiments",
    "errors_by_parameter": "error_experiments",
    "errors_by_negatives": "error_experiments",
    "errors_by_positives": "error_experiments",
    "errors_by_assumed_alpha": "error_experiments",
    "best_estimators": "error_experiments",
    "approximation_errors": "bound_experiments",
    "informative_sizes": "bound_experiments",
    "supervised_bound": "bound_experiments",
    "generalisation_terms": "bound_experiments",
    "smooth_bound": "bound_experiments",
    "protocol_numbers": "protocol_numbers",
}

# Names of the compared estimators in data frames and figures.
BIASED, DCL, TRUE = "CL (biased)", "DCL", "true negatives"
FORM_NAMES = {"paper": "BCL, paper", "released": "BCL, released", "consistent": "BCL, consistent"}
ESTIMATORS = (BIASED, DCL, *FORM_NAMES.values())
DRAWN, EXACT = REFERENCES = ("drawn true negatives", "exact mean")  # references for the estimates
