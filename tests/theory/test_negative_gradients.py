"""The gradient of one negative equals the derivative of the papers' equations, written as loops."""

import pytest
import torch

from tests.losses import by_the_book as book
from trueneg.report.figures.negative_gradients import STYLES
from trueneg.theory.experiments import run

COSINES = (-0.45, -0.05, 0.123, 0.517, 0.66, 0.67, 0.88)
ETA, ALPHA, SCALE, POSITIVE = 0.1, 0.9, 14.0, 0.6
FIXED = [-0.3 + 0.8 * number / 29 for number in range(30)]  # the other negatives
MASSES = {
    "CL": lambda p, u: book.uncorrected(p, u),
    "DCL": lambda p, u: book.debiased(p, u, ETA, -SCALE),
    "HCL": lambda p, u: book.hard_negative(p, u, ETA, -SCALE, 1.0),
    "BCL, paper": lambda p, u: book.bayesian(p, u, ETA, ALPHA, 1.0, "paper"),
    "BCL, consistent": lambda p, u: book.bayesian(p, u, ETA, ALPHA, 1.0, "consistent"),
}
CLOSED = {
    "ReCo": lambda c: max(0.0, c),
    "ReCo, m = −1": lambda c: c + 1,
    "OC": lambda c: c,
    "sigmoid": lambda c: 1 / (1 + torch.tensor(10 - 10 * c, dtype=torch.float64).exp()),
}


@pytest.fixture(scope="module")
def frame():
    return run("negative_gradients", {"class_probability": ETA, "alpha": ALPHA}, cosines=COSINES)


@pytest.mark.parametrize("name", MASSES)
def test_losses_with_a_denominator_have_the_gradient_of_their_equation(frame, name):
    for row in frame[frame["loss"] == name].itertuples():
        logits = torch.tensor([POSITIVE, *FIXED, row.cosine], dtype=torch.float64, requires_grad=True)
        positive, *negatives = SCALE * logits
        loss = book.anchor_loss(positive, torch.as_tensor(MASSES[name]([positive], negatives)))
        assert row.value == pytest.approx(torch.autograd.grad(loss, logits)[0][-1].item() / SCALE, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", CLOSED)
def test_losses_without_a_denominator_have_their_closed_form(frame, name):
    rows = frame[frame["loss"] == name]
    assert rows["value"].tolist() == pytest.approx([float(CLOSED[name](c)) for c in rows["cosine"]], abs=1e-12)


def test_only_dcl_is_at_its_bound_and_every_loss_is_drawn():
    frame = run("negative_gradients", cosines=(0.0, 0.66, 0.67))  # the figure's setting, as docs/estimators.md describes it
    values = frame.pivot(index="loss", columns="cosine", values="value")
    assert (values.loc["DCL", [0.0, 0.66]] == 0).all()
    assert values.loc["DCL", 0.67] == pytest.approx(2.16, abs=0.01)
    assert (values.loc[["CL", "HCL", "BCL, paper", "BCL, consistent"]] != 0).all(axis=None)
    assert set(values.index) == set(STYLES)
