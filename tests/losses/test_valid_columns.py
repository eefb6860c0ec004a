"""Columns that are not negatives have no effect, whatever their values."""

import pytest
import torch

from tests.losses.test_contrastive import EXACT, name
from trueneg.losses import HardNegative, Resampled

ESTIMATORS = [*EXACT, HardNegative(0.0, 0.1)]


@pytest.mark.parametrize("estimator", [*ESTIMATORS, Resampled(5)], ids=name)
def test_ignored_columns_have_no_effect(estimator):
    generator = torch.Generator().manual_seed(0)
    negatives = torch.randn(6, 9, generator=generator, dtype=torch.float64, requires_grad=True)
    positive = torch.randn(6, generator=generator, dtype=torch.float64)
    # Five of nine columns of each row.
    columns = torch.rand(6, 9, generator=generator).argsort(-1)[:, :5].sort(-1).values
    valid = torch.zeros(6, 9, dtype=torch.bool).scatter(1, columns, True)
    known = {}
    if estimator.needs_labels:
        known["same_class"] = torch.rand(6, 9, generator=generator) < 0.3
    if estimator.needs_similarity:
        known["similarity"] = 2 * torch.rand(6, 9, generator=generator, dtype=torch.float64) - 1
    results = []
    for masked in (True, False):
        torch.manual_seed(1)
        if masked:
            log_mass = estimator(positive, negatives, 0.1, temperature=1.0, valid=valid, **known)
        else:
            kept = {key: value.gather(1, columns) for key, value in known.items()}
            log_mass = estimator(
                positive, negatives.gather(1, columns), 0.1, temperature=1.0, **kept
            )
        finite = log_mass[log_mass.isfinite()].sum()
        results.append((log_mass, torch.autograd.grad(finite, negatives)[0]))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name)
def test_the_number_of_negatives_may_differ_between_anchors(estimator):
    generator = torch.Generator().manual_seed(2)
    negatives, positive = (
        torch.randn(3, 8, generator=generator),
        torch.randn(3, generator=generator),
    )
    valid = torch.arange(8) < torch.tensor([[8], [5], [2]])
    known = {}
    if estimator.needs_labels:
        known["same_class"] = torch.arange(8).expand(3, 8) % 2 == 1
    if estimator.needs_similarity:
        known["similarity"] = torch.rand(3, 8, generator=generator)
    together = estimator(positive, negatives, 0.1, temperature=1.0, valid=valid, **known)
    for row, count in enumerate((8, 5, 2)):
        own = {key: value[row : row + 1, :count] for key, value in known.items()}
        alone = estimator(
            positive[row : row + 1], negatives[row : row + 1, :count], 0.1, temperature=1.0, **own
        )
        torch.testing.assert_close(together[row : row + 1], alone)
