"""Pseudo-log-likelihoods equal a loop over their definition, for every variant, model and batch
size.
"""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.text import models
from trueneg.text import pseudo_log_likelihood
from trueneg.text.pseudo_likelihood import score
from trueneg.text.scorers import AnyModel, PlainBert
from trueneg.text.tokenizing import unexpressed

TOKENIZER = models.tokenizer()
WORDS = len(TOKENIZER)
BERT, ROBERTA, GPT = models.bert(WORDS), models.roberta(WORDS), models.gpt(WORDS)
SENTENCES = models.SENTENCES


@torch.no_grad()
def reference(model, tokenizer, sentence, variant):
    """Compute a score with one float64 pass per token: Salazar et al. (2020), Kauf and Ivanova
    (2023), the chain rule.
    """
    model = model.double()
    encoded = tokenizer(sentence, return_special_tokens_mask=True, split_special_tokens=True)
    ids, words = torch.tensor(encoded["input_ids"]), encoded.word_ids()
    if variant == "causal":
        ids = ids[:-1]  # without [SEP]; [CLS] begins the text
        log_p = model(input_ids=ids[None]).logits[0].log_softmax(-1)
        total = sum(log_p[place - 1, ids[place]].item() for place in range(1, len(ids)))
    else:
        total = 0.0
        for place, special in enumerate(encoded["special_tokens_mask"]):
            if special:
                continue
            masked = ids.clone()
            masked[place] = tokenizer.mask_token_id
            if variant == "within_word_l2r":
                for later in range(place + 1, len(ids)):
                    if words[later] == words[place]:
                        masked[later] = tokenizer.mask_token_id
            total += (
                model(input_ids=masked[None]).logits[0, place].log_softmax(-1)[ids[place]].item()
            )
    model.float()
    return total


@pytest.mark.parametrize(
    ("model", "variant"),
    [
        (BERT, "original"),
        (BERT, "within_word_l2r"),
        (ROBERTA, "original"),
        (ROBERTA, "within_word_l2r"),
        (GPT, "causal"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_likelihoods_match_their_definition(model, variant):
    scores = pseudo_log_likelihood(model, TOKENIZER, SENTENCES, variant=variant)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(
        scores,
        [reference(model, TOKENIZER, text, variant) for text in SENTENCES],
        atol=1e-5,
        rtol=1e-6,
    )


def test_the_variants_differ_where_words_have_several_pieces():
    original, whole = (
        pseudo_log_likelihood(BERT, TOKENIZER, SENTENCES, variant=v)
        for v in ("original", "within_word_l2r")
    )
    several = [
        len(set(TOKENIZER(text).word_ids())) < len(TOKENIZER(text).word_ids()) - 1
        for text in SENTENCES
    ]
    assert any(several)
    assert (np.abs(original - whole)[several] > 1e-3).any()


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("variant", ["original", "within_word_l2r"])
def test_the_fast_path_for_bert_equals_the_general_one(layers, variant, monkeypatch):
    model = models.bert(WORDS, layers=layers)
    assert PlainBert.takes(model)
    short = pseudo_log_likelihood(model, TOKENIZER, SENTENCES, variant=variant)
    monkeypatch.setattr(PlainBert, "takes", staticmethod(lambda model: False))
    np.testing.assert_allclose(
        short,
        pseudo_log_likelihood(model, TOKENIZER, SENTENCES, variant=variant),
        atol=1e-5,
        rtol=1e-6,
    )


def test_the_fast_path_is_only_for_unmodified_bert():
    changed = models.bert(WORDS)
    changed.bert.encoder.layer[0].attention.self.query = torch.nn.Sequential(
        changed.bert.encoder.layer[0].attention.self.query
    )
    assert not PlainBert.takes(ROBERTA)
    assert not PlainBert.takes(changed)


@pytest.mark.parametrize(
    ("model", "variant"), [(BERT, "original"), (ROBERTA, "within_word_l2r"), (GPT, "causal")]
)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_scores_do_not_depend_on_order_batches_or_other_sentences(model, variant, data):
    chosen = data.draw(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=10))
    tokens = data.draw(st.integers(1, 400))
    alone = {
        text: pseudo_log_likelihood(model, TOKENIZER, [text], variant=variant)[0]
        for text in set(chosen)
    }
    scores = pseudo_log_likelihood(
        model, TOKENIZER, chosen, tokens_per_batch=tokens, variant=variant
    )
    np.testing.assert_allclose(scores, [alone[text] for text in chosen], atol=1e-5)


def test_a_repeated_sentence_is_computed_once(monkeypatch):
    targets, original = [], PlainBert.log_probabilities
    monkeypatch.setattr(
        PlainBert,
        "log_probabilities",
        lambda self, b: targets.append(len(b.targets)) or original(self, b),
    )
    pseudo_log_likelihood(BERT, TOKENIZER, [SENTENCES[0]] * 50)
    assert sum(targets) == len(TOKENIZER(SENTENCES[0], add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize(("make", "variant"), [(models.bert, "original"), (models.gpt, "causal")])
def test_sentences_over_the_limit_are_scored_in_windows_and_logged(make, variant, caplog):
    model, tokenizer = make(WORDS, longest=12), models.tokenizer(longest=12)
    long = SENTENCES[6]
    ids = tokenizer(long, add_special_tokens=False)["input_ids"]
    assert len(ids) > 30
    with caplog.at_level(logging.WARNING, "trueneg"):
        part = next(iter(score(model, tokenizer, [long], variant=variant)))
    assert "rows 0" in caplog.text
    assert long not in caplog.text
    assert part.windows[0] > 1
    assert part.tokens[0] == len(ids)
    # not 0, which would be the highest possible score
    assert part.log_likelihood[0] < -len(ids) * 0.1
    first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
    capacity = 11 if variant == "causal" else 10
    # Windows overlap by half. A token is scored with the longest past, or where it is nearest to
    # the middle, and nearer to the beginning of two.
    starts = [*range(0, len(ids) - capacity, capacity // 2), len(ids) - capacity]
    expected = 0.0
    for place in range(len(ids)):
        containing = [start for start in starts if start <= place < start + capacity]
        from_middle = [abs(2 * (place - start) - capacity + 1) for start in containing]
        nearest = max(
            start
            for start, far in zip(containing, from_middle, strict=True)
            if far == min(from_middle)
        )
        start = min(containing) if variant == "causal" else nearest
        window = torch.tensor(
            [first, *ids[start : start + capacity], *([] if variant == "causal" else [last])]
        )
        within = place - start + 1
        if variant != "causal":
            window[within] = tokenizer.mask_token_id
        with torch.no_grad():
            log_p = model(input_ids=window[None]).logits[0].log_softmax(-1)
        expected += log_p[within - (variant == "causal"), ids[place]].item()
    assert part.log_likelihood[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("variant", ["original", "within_word_l2r", "causal"])
def test_names_of_special_tokens_are_scored_as_text(variant):
    texts = ["The [MASK] is clear.", "[SEP]", "[CLS] no [PAD]", "Clear."]
    model = {"causal": models.gpt}.get(variant, models.bert)(WORDS)
    scores = pseudo_log_likelihood(model, TOKENIZER, texts, variant=variant)
    expected = [reference(model, TOKENIZER, text, variant) for text in texts]
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    assert unexpressed(texts, TOKENIZER, 96) == unexpressed(["Clear."], TOKENIZER, 96) == ""


def test_a_limit_that_just_fits_needs_no_window():
    ids = TOKENIZER(SENTENCES[3])["input_ids"]
    model = models.bert(WORDS, longest=len(ids))
    part = next(iter(score(model, models.tokenizer(longest=len(ids)), [SENTENCES[3]])))
    assert part.windows[0] == 1
    np.testing.assert_allclose(
        part.log_likelihood[0], reference(model, TOKENIZER, SENTENCES[3], "original"), atol=1e-5
    )


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["Clear.", ""], "row 1 .* is empty"),
        (["Clear.", " \n"], "row 1 .* is empty"),
        (["Clear.", None], "row 1 .* is NoneType"),
        (["Clear.", 3.5], "row 1 .* is float"),
        (["Clear.", "Clear.", "\u200d"], "row 2 .* has no tokens"),
        ("Clear.", "one string"),
    ],
)
def test_sentences_without_a_likelihood_are_rejected_with_their_row(sentences, message):
    with pytest.raises(ValueError, match=message):
        pseudo_log_likelihood(BERT, TOKENIZER, sentences)


def test_invalid_arguments_are_rejected():
    with pytest.raises(ValueError, match="variant is 'pll'; expected one of original"):
        pseudo_log_likelihood(BERT, TOKENIZER, ["Clear."], variant="pll")
    with pytest.raises(ValueError, match="no vocabulary head"):
        AnyModel(BERT.bert, 4)
    without = models.tokenizer()
    without.mask_token = None
    with pytest.raises(ValueError, match="no mask token"):
        pseudo_log_likelihood(BERT, without, ["Clear."])
    broken = models.bert(WORDS)
    with torch.no_grad():
        broken.cls.predictions.decoder.bias[:] = float("nan")
    with pytest.raises(ValueError, match="row 0 is not finite"):
        pseudo_log_likelihood(broken, TOKENIZER, ["Clear."])


def test_scoring_disables_dropout_and_restores_the_training_mode():
    model = models.bert(WORDS).train()
    np.testing.assert_array_equal(
        pseudo_log_likelihood(model, TOKENIZER, SENTENCES),
        pseudo_log_likelihood(BERT, TOKENIZER, SENTENCES),
    )
    assert model.training
