"""Scores equal those of minicons (Misra, 2022), which computes the whole vocabulary at every
position.
"""

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from tests.text import models
from trueneg.data.phantom.reports import phantom_reports
from trueneg.data.reports import open_i
from trueneg.errors import UserError
from trueneg.text import pseudo_log_likelihood, split_sentences

minicons = pytest.importorskip(
    "minicons.scorer", reason="minicons is not installed (an environment of its own has it)"
)


@pytest.fixture(scope="module")
def sentences():
    """Return 200 real sentences if torchxrayvision is installed, else the phantom's."""
    try:
        archive = open_i.find_archive()
    except UserError:
        made = phantom_reports(400, seed=0).sentences["sentence"].unique()
    else:
        texts = (
            " ".join(open_i.section_text(root).values()) for _, root in open_i.read_archive(archive)
        )
        made = [sentence for text in texts for sentence in split_sentences(text)]
        made = list(dict.fromkeys(made))
    return [made[place] for place in np.random.default_rng(0).choice(len(made), 200, replace=False)]


@pytest.mark.parametrize("variant", ["original", "within_word_l2r"])
def test_scores_equal_those_of_minicons(sentences, variant, monkeypatch):
    # minicons 0.3.39 calls a method that transformers 5 removed; it was the same as calling the
    # tokenizer.
    monkeypatch.setattr(
        PreTrainedTokenizerFast,
        "batch_encode_plus",
        PreTrainedTokenizerFast.__call__,
        raising=False,
    )
    tokenizer = models.train_tokenizer(sentences, 600, 256)
    model = models.bert(len(tokenizer), longest=256, hidden=32)
    peer = minicons.MaskedLMScorer(model, "cpu", tokenizer=tokenizer)
    expected = [
        peer.sequence_score(
            [text], reduction=lambda tokens: tokens.sum().item(), PLL_metric=variant
        )[0]
        for text in sentences
    ]
    scores = pseudo_log_likelihood(model, tokenizer, sentences, variant=variant)
    np.testing.assert_allclose(scores, expected, atol=1e-4, rtol=1e-6)
