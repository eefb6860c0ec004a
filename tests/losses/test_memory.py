"""A loss in chunks saves no tensors that grow with the square of the batch."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trueneg.losses import (
    Bayesian,
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    RelaxedContrastiveLoss,
    Uncorrected,
)

COUNT, DIMENSIONS = 256, 8


def saved_bytes(compute):
    """Return the bytes that autograd saves for the backward pass, counting each storage once."""
    storages = {}

    def keep(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = compute()
    assert loss.requires_grad
    return sum(storages.values())


@pytest.mark.parametrize(
    "estimator", [Uncorrected(), Debiased(0.1), Bayesian(class_probability=0.1)]
)
def test_a_loss_in_chunks_saves_no_logits(estimator):
    z1, z2 = torch.randn(2, COUNT, DIMENSIONS, requires_grad=True)
    square = 4 * COUNT * COUNT

    def two_view(chunk_size):
        return lambda: ContrastiveLoss(estimator, chunk_size=chunk_size)(z1, z2)

    def cross_modal(chunk_size):
        return lambda: (
            CrossModalLoss(estimator, chunk_size=chunk_size).of_features(z1, z2, 5.0).loss
        )

    for loss in (two_view, cross_modal):
        assert saved_bytes(loss(None)) > square  # so the measure sees what there is to see
        assert saved_bytes(loss(32)) < square / 2
    # a few copies of the embeddings and values per anchor
    assert saved_bytes(two_view(32)) < 32 * z1.nbytes


def test_reco_in_chunks_saves_no_cosines():
    u, v = torch.randn(2, COUNT, DIMENSIONS, requires_grad=True)
    square = 4 * COUNT * COUNT
    assert saved_bytes(lambda: RelaxedContrastiveLoss()(u, v)) > square
    assert saved_bytes(lambda: RelaxedContrastiveLoss(chunk_size=32)(u, v)) < 8 * u.nbytes


PEAK = """
import pathlib, re, torch
from trueneg.losses import ContrastiveLoss, Debiased
torch.set_num_threads(1)
z1, z2 = torch.randn(2, 16_384, 128, requires_grad=True)
ContrastiveLoss(Debiased(0.1), chunk_size={chunk_size})(z1, z2).backward()
print(re.search(r"VmHWM:\\s+([0-9]+) kB", pathlib.Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.long
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read as Linux tells it"
)
def test_a_batch_of_16384_needs_less_than_2_gib_and_smaller_chunks_need_less():
    peaks = []
    for chunk_size in (256, 1024):
        code = PEAK.format(chunk_size=chunk_size)
        finished = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        peaks.append(int(finished.stdout) * 1024)
    assert peaks[0] < peaks[1] < 2 * 2**30
