"""Central claims of the papers, each as stated in the papers or their sources.

Claims that the tests of a module state are not repeated here.
"""

import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.textures import texture_source
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.reports import open_i
from trueneg.data.samples import Subset, refuse_leakage
from trueneg.errors import UserError
from trueneg.evaluation.pairs.precision import label_precisions, single_label_gallery
from trueneg.losses import CrossModalLoss, Debiased, Uncorrected

NEGATIVES = 63  # of a batch of 64


def batches(draws, positive, seed=0):
    """Return float64 similarities (draws, 64, 64): U(−0.2, 0.4) off the diagonal, the positive on
    it.
    """
    generator = torch.Generator().manual_seed(seed)
    similarity = 0.6 * torch.rand(draws, 64, 64, generator=generator, dtype=torch.float64) - 0.2
    similarity.diagonal(dim1=1, dim2=2).fill_(positive)
    return similarity


def loss_without_a_bound(similarity, scale, eta):
    """The pseudo-code of Sample-Specific Debiasing (2023), Fig. 5: exponentials, no lower bound;
    one loss per anchor.
    """
    exponentials = (scale * similarity).exp()
    positive = exponentials.diagonal()
    negative = exponentials.sum(1) - positive
    return -(positive / (positive + (negative - NEGATIVES * eta * positive) / (1 - eta))).log()


@pytest.mark.parametrize("scale", [2.0, 14.0, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_false_negatives_dcl_is_infonce(scale, dtype):
    for similarity in batches(5, 0.6).to(dtype):
        plain, corrected = (
            CrossModalLoss(one, "text")(similarity, scale) for one in (Uncorrected(), Debiased(0.0))
        )
        by_cross_entropy = torch.nn.functional.cross_entropy(
            scale * similarity.double(), torch.arange(64)
        )
        assert corrected.item() == plain.item()
        assert plain.item() == pytest.approx(
            by_cross_entropy.item(), rel=1e-4 if dtype == torch.float32 else 1e-12
        )


@pytest.mark.parametrize("scale", [2.0, 14.0])
@pytest.mark.parametrize("eta", [0.0, 0.01, 0.05, 0.3])
def test_the_same_class_probability_for_every_sample_is_constant_dcl(scale, eta):
    for similarity in batches(5, 0.6):
        constant = CrossModalLoss(Debiased(eta), "text")(similarity, scale)
        own = CrossModalLoss(Debiased(), "text")(
            similarity, scale, class_probability=torch.full((64,), eta)
        )
        assert own.item() == pytest.approx(constant.item(), rel=1e-6)


@pytest.mark.parametrize("eta", [0.05, 0.1, 0.2])
def test_the_pseudo_code_without_a_bound_is_the_loss_at_a_low_logit_scale(eta):
    for similarity in batches(100, 0.6):
        expected = loss_without_a_bound(similarity, 2.0, eta)
        assert CrossModalLoss(Debiased(eta), "text")(similarity, 2.0).item() == pytest.approx(
            expected.mean().item()
        )


@pytest.mark.parametrize("eta", [0.05, 0.1, 0.2])
def test_at_the_logit_scale_of_image_text_studies_the_pseudo_code_is_nan_and_the_bound_applies(eta):
    """With positives at cosine 0.6 the bracket is negative for every anchor; at the bound the
    negatives have no gradient.
    """
    for similarity in batches(100, 0.6):
        assert loss_without_a_bound(similarity, 14.0, eta).isnan().all()
        similarity.requires_grad_()
        terms = CrossModalLoss(Debiased(eta), "text").terms(similarity, 14.0)
        assert terms.at_bound.double().mean().item() == 1
        bound = math.log(NEGATIVES) - 14.0  # log of N·e^(−γ²)
        assert terms.loss.item() == pytest.approx(math.log1p(math.exp(bound - 14.0 * 0.6)))
        terms.loss.backward()
        gradient = similarity.grad
        assert (gradient - gradient.diagonal().diag()).abs().max().item() == 0
        assert (gradient.diagonal() < 0).all()


def test_the_coefficient_of_the_positive_changes_its_sign_at_one_over_n_plus_one():
    """1 − N·η/(1 − η): without a bound, a larger η rewards an anchor for a smaller positive."""
    similarity = torch.zeros(64, 64, dtype=torch.float64)
    for eta, sign in ((1 / 64 - 1e-3, 1), (1 / 64 + 1e-3, -1)):
        nearer = similarity + 0.01 * torch.eye(64)
        mass = [
            (1 + loss_without_a_bound(one, 2.0, eta).expm1()) * (2 * one.diagonal()).exp()
            for one in (similarity, nearer)
        ]
        assert ((mass[1] - mass[0]) * sign > 0).all()


@pytest.mark.parametrize("scale", [14.0, 100.0])
@pytest.mark.parametrize("positive", [-1.0, 0.0, 0.6, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_and_gradient_are_finite_at_any_logit_scale(scale, positive, dtype):
    similarity = batches(1, positive)[0].to(dtype).requires_grad_()
    logit_scale = torch.tensor(scale, dtype=dtype, requires_grad=True)
    loss = CrossModalLoss(Debiased(0.1), "both")(similarity, logit_scale)
    loss.backward()
    assert loss.isfinite()
    assert similarity.grad.isfinite().all()
    assert logit_scale.grad.isfinite()


def test_a_patient_in_both_train_and_test_raises_an_error():
    """The leak of MS-CXR's own split and of CheXpert 8×200: other images and reports, the same
    patient.
    """
    source = texture_source(patients=60)  # studies in pairs of one patient
    subset = split_pairs(source, 0)
    refuse_leakage(source, subset)
    held_out = source.patients[subset.test[0]]
    images = np.flatnonzero(source.patients == held_out)
    reports = np.unique(source.reports[images])
    assert len(reports) == 2
    moved = images[source.reports[images] == reports[0]]
    test = np.setdiff1d(subset.test, moved)
    leaking = Subset(
        0, subset.source_checksum, np.union1d(subset.train, moved), test, subset.validation
    )
    with pytest.raises(
        UserError, match=f"1 patients, such as {held_out}, in both train and test; expected none"
    ):
        refuse_leakage(source, leaking)


def test_random_scores_on_a_set_like_8x200_have_a_precision_of_one_eighth():
    """1,600 images of exactly one of eight labels; 80 image and 40 text queries, the same number
    for each label.
    """
    labels = np.repeat(np.eye(8), 200, axis=0)
    images, shown = single_label_gallery(labels, np.arange(1600))
    assert len(images) == 1600
    generator = np.random.default_rng(0)
    for queries in (10, 5):
        own = np.repeat(np.arange(8), queries)
        found = [
            label_precisions(
                generator.random((len(own), 1600)), own, shown, (5, 10, 50), list("abcdefgh")
            )
            for _ in range(20)
        ]
        for k in (5, 10, 50):
            assert np.mean([one[k]["mean"] for one in found]) == pytest.approx(0.125, abs=0.015)


@pytest.mark.skipif(
    "TRUENEG_CHEXPERT_8X200" not in os.environ,
    reason="TRUENEG_CHEXPERT_8X200 names no folder of its lists",
)
def test_the_sizes_of_the_lists_of_8x200_match_the_papers_and_not_their_readme():
    folder = Path(os.environ["TRUENEG_CHEXPERT_8X200"])
    candidates, images = (
        pd.read_csv(folder / "image-retrieval" / f"{name}.csv") for name in ("candidate", "query")
    )
    texts = pd.read_csv(folder / "text-retrieval" / "query.csv")
    pd.testing.assert_frame_equal(
        pd.read_csv(folder / "text-retrieval" / "candidate.csv"), candidates
    )
    assert (len(candidates), len(images), len(texts)) == (1600, 80, 40)
    names = sorted(images["Variable"].unique())
    assert images["Variable"].value_counts().to_dict() == dict.fromkeys(names, 10)
    # the README says 10
    assert texts["Variable"].value_counts().to_dict() == dict.fromkeys(names, 5)
    patients = candidates["Path"].str.extract(r"(patient\d+)")[0].to_numpy()
    _, labels = single_label_gallery(candidates[names].to_numpy(), np.arange(1600))
    assert np.bincount(labels).tolist() == [200] * 8
    assert not set(images["Path"]) & set(candidates["Path"])
    shared = set(images["Path"].str.extract(r"(patient\d+)")[0]) & set(patients)
    assert len(shared) == 6  # other images of a query's patient are candidates
    assert candidates["Path"].str.contains("/train/").all()  # never to be fine-tuned on


def open_i_archive():
    try:
        return open_i.find_archive(os.environ.get("TRUENEG_OPEN_I"))
    except UserError:
        return None


@pytest.mark.skipif(
    open_i_archive() is None,
    reason="neither torchxrayvision is installed nor does TRUENEG_OPEN_I name its folder",
)
def test_the_size_of_open_i_matches_its_description():
    reports = [report for _, report in open_i.read_archive(open_i_archive())]
    assert len(reports) == 3_955
    assert all(report is not None for report in reports)
    assert sum(len(list(report.iter("parentImage"))) for report in reports) == 7_470
    sections = [open_i.section_text(report) for report in reports]
    assert sum(len(own) == 2 for own in sections) == 3_419  # findings and impression
    assert sum(len(own) > 0 for own in sections) == 3_927
