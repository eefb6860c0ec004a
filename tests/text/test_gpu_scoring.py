"""Scoring on a simulated GPU, and on the CPU in the precision of a GPU."""

import copy

import numpy as np
import pytest
import torch

from tests.pretended_gpu import GPU, pretended_gpu
from tests.text import models
from trueneg.runtime import precision
from trueneg.text.masked_copies import CAUSAL, ORIGINAL, WITHIN_WORD, Pieces, batches
from trueneg.text.pseudo_likelihood import pseudo_log_likelihood
from trueneg.text.scorers import AnyModel, PlainBert

pytestmark = pytest.mark.filterwarnings(
    "ignore:User provided device_type of 'cuda'", "ignore:CUDA is not available"
)


def longest(words, variant):
    """Return the first batch, which contains the longest sentence."""
    pieces = Pieces(words, variant, 96).of(models.SENTENCES, np.arange(len(models.SENTENCES)))
    return next(batches(pieces, 2048, 2048, variant == CAUSAL))


def any_model(network, variant):
    return AnyModel(network.to(GPU), None if variant == CAUSAL else 4)


SCORERS = {
    "BERT": (models.bert, ORIGINAL, lambda network, _: PlainBert(network, 4, GPU)),
    "BERT, within words": (models.bert, WITHIN_WORD, lambda network, _: PlainBert(network, 4, GPU)),
    "RoBERTa": (models.roberta, ORIGINAL, any_model),
    "GPT": (models.gpt, CAUSAL, any_model),
}


@pytest.mark.parametrize("name", SCORERS)
def test_all_operands_of_scoring_are_on_the_gpu(name):
    build, variant, scorer_of = SCORERS[name]
    words = models.tokenizer()
    network, batch = build(len(words)), longest(words, variant)
    with pretended_gpu(readable=True):
        scorer = scorer_of(copy.deepcopy(network), variant)
        scored = scorer.log_probabilities(batch)
    assert (scored.shape, scored.dtype, scored.device.type) == (
        batch.targets.shape,
        torch.float64,
        "cpu",
    )


@pytest.mark.parametrize("build", [models.bert, models.roberta], ids=["BERT", "RoBERTa"])
def test_scores_in_bfloat16_agree_with_float32_within_rounding(monkeypatch, build):
    words = models.tokenizer()
    network = build(len(words))
    exact = pseudo_log_likelihood(network, words, models.SENTENCES)
    computed, forward = [], torch.nn.Linear.forward

    def recorded(module, values):
        result = forward(module, values)
        computed.append(result.dtype)
        return result

    monkeypatch.setattr(torch.nn.Linear, "forward", recorded)
    monkeypatch.setattr(precision, "forward_dtype", lambda device: torch.bfloat16)
    monkeypatch.setattr("trueneg.text.scorers.forward_dtype", lambda device: torch.bfloat16)
    rounded = pseudo_log_likelihood(network, words, models.SENTENCES)
    assert torch.bfloat16 in computed
    np.testing.assert_allclose(rounded, exact, rtol=0.02)
    assert not np.array_equal(rounded, exact)
