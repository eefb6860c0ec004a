"""Estimators of the true-negative mass N·g, the part of the denominator due to true negatives; one
module each.
"""
