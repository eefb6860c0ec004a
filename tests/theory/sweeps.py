"""The sweeps of a theory study, small enough for a test."""

SWEEPS = {
    "alphas": [0.5, 0.9],
    "class_probabilities": [0.1, 0.3],
    "negative_counts": [16, 64],
    "anchor_counts": [20, 60],
    "slides": [0.0, 0.3],
    "temperatures": [0.5, 1.0],
    "released_temperatures": [0.5, 1.0],
    "long_negative_counts": [64, 128],
    "positive_counts": [1, 4],
    "assumed_alphas": [0.7, 0.9],
    "bound_negative_counts": [4, 64],
    "bound_positive_counts": [1, 4],
    "imbalances": [0.2, 1.0],
    "lemma_negative_counts": [4, 64],
}
