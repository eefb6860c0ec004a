"""Numerical checks of the theory: simulate scores from a known process and evaluate each estimator
on them.
"""

from trueneg.theory.estimate import estimate_true_negative_mean
from trueneg.theory.scores import Scores, Setting, simulate_blocks, simulate_scores

__all__ = ["Scores", "Setting", "estimate_true_negative_mean", "simulate_blocks", "simulate_scores"]
