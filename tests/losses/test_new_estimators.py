"""Corrections beside the published ones for two views, against loops and sentence-transformers:
relative margins, hardness weighting, scopes, sequences, logQ, SupCon, embeddings with labels.
"""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from tests.losses import by_the_book as book
from tests.losses.distributed_losses import Embedded
from tests.losses.forms import (
    hardness,
    is_own_hard,
    logits_of,
    normal,
    of_pairs,
    of_views,
    plain,
    supervised,
)
from trueneg.losses import (
    AdjustedInfoNCE,
    Bayesian,
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    GlobalMass,
    Guided,
    HardNegative,
    HardnessWeighted,
    LearnedThresholds,
    LogQ,
    Oracle,
    Quantile,
    Removed,
    Reweighted,
    Sequence,
    Sigmoid,
    SupConLoss,
    Uncorrected,
    build,
)
from trueneg.losses.adapters import LabelledLoss, RankingLoss

T = 0.4
CHUNKS = [None, 2]
SCOPES = {
    "all": lambda i, column: True,
    "in_batch": lambda i, column: not is_own_hard(i, column),
    "hard": is_own_hard,
}
# of sentence-transformers
MODES = {"all": "all_negatives", "in_batch": "in_batch_negatives", "hard": "hard_negatives"}


@pytest.fixture
def library():
    return pytest.importorskip("sentence_transformers", "6.1", reason="has hardness_mode")


def batch(count=4, hard=2):
    """Two views, and hard negatives of each sample."""
    return normal(count, 4), normal(count, 4, seed=1), normal(count, hard, 4, seed=2)


def columns_of(anchors, positives, hard):
    """Return features of columns of texts whose embeddings are given."""
    return [{"model": each} for each in (anchors, positives, *hard.unbind(1))]


def ranking(estimator, scale=1 / T, **options):
    return RankingLoss(Embedded("model"), estimator, scale, same_text=False, **options)


# margins


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("margin", [0.0, 0.05, 0.5, -0.3])
@pytest.mark.parametrize("strategy", ["relative", "absolute"])
def test_margins_equal_a_loop_with_positives_of_any_sign(strategy, margin, chunk_size):
    texts, images, hard = batch()
    rated = 2 * torch.rand(4, 4 + 8, generator=torch.Generator().manual_seed(3)).double() - 1
    own = torch.tensor([0.7, -0.4, 0.0, 0.2], dtype=torch.float64)
    known = {"negative_similarity": rated, "positive_similarity": own}
    loss = CrossModalLoss(Guided(margin, strategy), "text", chunk_size=chunk_size)
    actual = loss.of_features(texts, images, 0.7, hard_negatives=hard, **known).loss

    def keeps(side, i, column):
        limit = own[i] - margin * (abs(own[i]) if strategy == "relative" else 1)
        return rated[i, column.column] <= limit

    expected = of_pairs(texts, images, 0.7, plain, "text", hard, keeps=keeps).mean()
    book.assert_same(actual, expected, [texts, images, hard])


def test_a_relative_margin_of_five_percent_keeps_up_to_95_percent_of_the_positive():
    """As TopK-PercPos of NV-Retriever."""
    rated = torch.tensor([[0.7601, 0.7599, 0.9]])
    marks = {"similarity": rated, "positive_similarity": torch.tensor([0.8])}
    guided = Guided(0.05, strategy="relative")
    assert guided(torch.zeros(1), torch.zeros(1, 3), **marks).exp().item() == pytest.approx(1)


class Encoder(nn.Module):
    """A model as GISTEmbedLoss needs it, whose embeddings stand in the features."""

    max_seq_length = 8

    def __init__(self, name, tokenizer):
        super().__init__()
        self.name, self.tokenizer = name, tokenizer

    def forward(self, features):
        return {"sentence_embedding": features[self.name]}


@pytest.mark.parametrize("margin", [0.0, 0.1, 0.6, -0.2])
@pytest.mark.parametrize("strategy", ["relative", "absolute"])
@pytest.mark.parametrize("hard", [0, 1])
def test_margins_equal_gist_embed_loss(library, strategy, margin, hard):
    from sentence_transformers.sentence_transformer.losses import GISTEmbedLoss

    from tests.text.models import tokenizer

    trained = batch(5, 1)
    guides = [each.detach() for each in (normal(5, 3, seed=8), normal(5, 3, seed=9), normal(5, 3))]
    features = [
        {"model": one, "guide": other}
        for one, other in zip((*trained[:2], trained[2][:, 0]), guides, strict=True)
    ][: 2 + hard]
    words = tokenizer()
    model, guide = Encoder("model", words), Encoder("guide", words)
    between = {"contrast_anchors": False, "contrast_positives": False}
    options = {"margin_strategy": strategy, "margin": margin, **between}
    theirs = GISTEmbedLoss(model, guide, temperature=T, **options)
    ours = RankingLoss(model, Guided(margin, strategy), 1 / T, guide, same_text=False)
    actual, expected = ours(features), theirs(features, None)
    book.assert_same(actual, expected, list(trained[: 2 + hard]), 1e-7)
    assert not torch.isclose(actual, ranking(Uncorrected())(features))


def test_unknown_strategies_and_scopes_are_refused():
    with pytest.raises(ValueError, match="strategy"):
        Guided(strategy="percent")
    for make in (
        Guided,
        Oracle,
        HardnessWeighted,
        Debiased,
        lambda **known: GlobalMass(3, **known),
    ):
        with pytest.raises(ValueError, match="scope"):
            make(scope="batch")


# scopes


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("owned", ["all", "each"])
def test_masks_look_at_their_scope_only(scope, owned, chunk_size):
    first, second, hard = batch()
    if owned == "all":
        hard = normal(3, 4, seed=2)
    labels = [0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1][: 4 + hard.numel() // 4]
    further = {"hard_negatives": hard}
    inside = SCOPES[scope]
    loss = ContrastiveLoss(Oracle(scope=scope), T, chunk_size=chunk_size)
    actual = loss(first, second, labels=torch.tensor(labels), **further)

    def keeps(v, i, column):
        return not (inside(i, column) and labels[i] == labels[column.sample])

    expected = of_views((first, second), T, plain, hard, keeps=keeps).mean()
    book.assert_same(actual, expected, [first, second, hard])
    rated = torch.rand(8, 8 + hard.numel() // 4, generator=torch.Generator().manual_seed(3))
    own = torch.rand(8, generator=torch.Generator().manual_seed(4))
    guided = ContrastiveLoss(Guided(scope=scope), T, chunk_size=chunk_size)
    actual = guided(first, second, negative_similarity=rated, positive_similarity=own, **further)

    def keeps_below(v, i, column):
        above = rated[4 * v + i, column.column] > own[4 * v + i]
        return not (inside(i, column) and above)

    expected = of_views((first, second), T, plain, hard, keeps=keeps_below).mean()
    book.assert_same(actual, expected, [first, second, hard])


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("name", ["dcl", "hcl", "bcl", "quantile", "remove", "adnce"])
def test_estimators_correct_the_columns_in_scope_and_add_the_others(name, scope, chunk_size):
    first, second, hard = batch()
    facts = {}
    if name == "dcl":
        estimator = Debiased(0.1, scope=scope)

        def inner(i, p, u, own):
            return book.debiased(p, u, 0.1, T)
    elif name == "hcl":
        estimator = HardNegative(1.0, 0.1, scope=scope)

        def inner(i, p, u, own):
            return book.hard_negative(p, u, 0.1, T, 1.0)
    elif name == "bcl":
        estimator = Bayesian(0.8, 1.0, 0.1, scope=scope)

        def inner(i, p, u, own):
            return book.bayesian(p, u, 0.1, 0.8, 1.0, "paper")
    elif name == "adnce":
        estimator = AdjustedInfoNCE(0.4, 0.3, scope=scope)

        def inner(i, p, u, own):
            return book.adjusted(p, u, T, 0.4, 0.3)
    elif name == "quantile":
        estimator = Quantile(0.4, scope=scope)

        def inner(i, p, u, own):
            kept = sorted(u, key=lambda each: each.item())
            return book.exp_sum(kept[: len(u) - math.ceil(0.4 * len(u) - 1e-9)])
    else:
        estimator = Removed(0.5, scope=scope)
        rated = torch.rand(4, 12, generator=torch.Generator().manual_seed(3))
        facts = {
            "negative_similarity": torch.cat((rated, rated))[
                :, [*range(4), *range(4), *range(4, 12)]
            ]
        }

        def inner(i, p, u, own):
            s = [rated[i, each.sample] for each in own]
            return book.removed(p, u, s, 0.5)

    def mass(i, positives, negatives):
        own = [each for each in negatives if SCOPES[scope](i, each)]
        others = [each for each in negatives if not SCOPES[scope](i, each)]
        return inner(i, positives, logits_of(own), own) + book.exp_sum(logits_of(others))

    loss = ContrastiveLoss(estimator, T, chunk_size=chunk_size)
    actual = loss(first, second, hard_negatives=hard, **facts)
    expected = of_views((first, second), T, mass, hard).mean()
    book.assert_same(actual, expected, [first, second, hard])


@pytest.mark.parametrize("scope", ["all", "in_batch", "hard"])
def test_without_hard_negatives_a_scope_is_all_or_nothing(scope):
    first, second, _ = batch()
    labels = torch.tensor([0, 1, 0, 1])
    actual = ContrastiveLoss(Oracle(scope=scope), T)(first, second, labels=labels)
    same = (lambda v, i, column: i % 2 != column.sample % 2) if scope != "hard" else None
    book.assert_same(
        actual, of_views((first, second), T, plain, keeps=same).mean(), [first, second]
    )


# hardness


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("alpha", [0.0, 0.5, 9.0])
@pytest.mark.parametrize("scope", SCOPES)
def test_hardness_weights_equal_a_loop(scope, alpha, chunk_size):
    """The weights get no gradient."""
    first, second, hard = batch()

    def mass(i, positives, negatives):
        return hardness(negatives, T, alpha, lambda each: SCOPES[scope](i, each))

    loss = ContrastiveLoss(HardnessWeighted(alpha, scope=scope), T, chunk_size=chunk_size)
    actual = loss(first, second, hard_negatives=hard)
    expected = of_views((first, second), T, mass, hard).mean()
    book.assert_same(actual, expected, [first, second, hard])


def test_hardness_weights_of_strength_zero_are_plain():
    first, second, _ = batch()
    weighted, plainly = (
        ContrastiveLoss(each, T)(first, second) for each in (HardnessWeighted(0.0), Uncorrected())
    )
    book.assert_same(weighted, plainly, [first, second])


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("alpha", [0.5, 5.0, 9.0])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("hard", [0, 2])
def test_hardness_weights_equal_sentence_transformers(library, hard, scope, alpha, chunk_size):
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    first, second, near = batch(hard=2)
    columns = columns_of(first, second, near)[: 2 + hard]
    theirs = MultipleNegativesRankingLoss(
        None, scale=1 / T, hardness_mode=MODES[scope], hardness_strength=alpha
    )
    expected = theirs.compute_loss_from_embeddings([each["model"] for each in columns], None)
    actual = ranking(HardnessWeighted(alpha, scope=scope), chunk_size=chunk_size)(columns)
    book.assert_same(actual, expected, [first, second, near][: 2 + bool(hard)], 1e-7)


DIRECTIONS = {
    "joint": ("query_to_doc", "query_to_query", "doc_to_doc"),
    "symmetric": ("query_to_doc", "doc_to_query"),
}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("contrast", DIRECTIONS)
def test_hardness_weights_of_further_contrasts_equal_theirs_of_hard_negatives_alone(
    library, contrast, scope
):
    """The library weights no other negatives than the documents of an anchor."""
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    columns = columns_of(*batch(hard=2))
    theirs = MultipleNegativesRankingLoss(
        None,
        scale=1 / T,
        directions=DIRECTIONS[contrast],
        partition_mode="joint" if contrast == "joint" else "per_direction",
        hardness_mode=MODES[scope],
        hardness_strength=5.0,
    )
    expected = theirs.compute_loss_from_embeddings([each["model"] for each in columns], None)
    actual = ranking(HardnessWeighted(5.0, scope=scope), contrast=contrast)(columns)
    assert torch.isclose(actual, expected, rtol=1e-7) == (scope == "hard")


def test_hardness_weights_of_large_scales_are_finite():
    first, second, _ = (normalize(each, dim=-1) for each in batch())
    loss = ContrastiveLoss(HardnessWeighted(9.0), 1e-3)(first.float(), second.float())
    assert loss.isfinite()
    with pytest.raises(ValueError, match="alpha"):
        HardnessWeighted(-1.0)


# sequences


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("scope", SCOPES)
def test_a_mask_and_a_weight_equal_a_loop(scope, chunk_size):
    """Each has its own scope."""
    first, second, hard = batch()
    labels = [0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1]
    estimator = Sequence([Oracle(scope="in_batch"), HardnessWeighted(3.0, scope=scope)])
    loss = ContrastiveLoss(estimator, T, chunk_size=chunk_size)
    actual = loss(first, second, labels=torch.tensor(labels), hard_negatives=hard)

    def keeps(v, i, column):
        return is_own_hard(i, column) or labels[i] != labels[column.sample]

    def mass(i, positives, negatives):
        return hardness(negatives, T, 3.0, lambda each: SCOPES[scope](i, each))

    expected = of_views((first, second), T, mass, hard, keeps=keeps).mean()
    book.assert_same(actual, expected, [first, second, hard])


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_two_masks_and_a_correction_with_the_number_of_the_remaining(chunk_size):
    first, second, hard = batch()
    labels, eta = [0, 1, 0, 2], torch.tensor([0.1, 0.2, 0.0, 0.3]).double().requires_grad_()
    rated = torch.rand(8, 16, generator=torch.Generator().manual_seed(3))
    own = torch.rand(8, generator=torch.Generator().manual_seed(4)) / 2 + 0.5
    estimator = Sequence([Oracle(), Guided(), Debiased()])
    facts = {"negative_similarity": rated, "positive_similarity": own, "class_probability": eta}
    loss = ContrastiveLoss(estimator, T, chunk_size=chunk_size)
    further = {"labels": torch.tensor(labels), "hard_negatives": hard}
    actual = loss(first, second, **facts, **further)

    def keeps(v, i, column):
        same = column.sample < 4 and labels[i] == labels[column.sample]
        return not (same or rated[4 * v + i, column.column] > own[4 * v + i])

    def mass(i, positives, negatives):
        return book.debiased(positives, logits_of(negatives), eta[i], T)

    expected = of_views((first, second), T, mass, hard, keeps=keeps).mean()
    book.assert_same(actual, expected, [first, second, hard, eta])
    with_own = Sequence([Oracle(), Debiased(0.2)])
    actual = ContrastiveLoss(with_own, T)(first, second, labels=torch.tensor(labels))
    fixed = ContrastiveLoss(Sequence([Oracle(), Debiased()]), T)
    expected = fixed(first, second, labels=torch.tensor(labels), class_probability=0.2)
    book.assert_same(actual, expected, [first, second])


def test_a_sequence_within_a_sequence_and_its_facts():
    first, second, _ = batch()
    inner = Sequence([Oracle(), HardnessWeighted(2.0)])
    nested = Sequence([Quantile(0.3), inner])
    labels = torch.tensor([0, 1, 0, 1])
    three = Sequence([Quantile(0.3), Oracle(), HardnessWeighted(2.0)])
    expected = ContrastiveLoss(three, T)(first, second, labels=labels)
    book.assert_same(
        ContrastiveLoss(nested, T)(first, second, labels=labels), expected, [first, second]
    )
    with pytest.raises(ValueError, match="labels"):
        ContrastiveLoss(nested, T)(first, second)
    with pytest.raises(ValueError, match="class_probability"):
        ContrastiveLoss(nested, T)(first, second, labels=labels, class_probability=0.1)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [Oracle()],
        [Debiased(0.1), Oracle()],
        [HardnessWeighted(), Uncorrected()],
        [Reweighted(), Uncorrected()],
        [Oracle(), Sigmoid()],
        [Sigmoid(), Uncorrected()],
        [Oracle(), GlobalMass(4)],
        [Oracle(), Oracle],
        ["oracle", Uncorrected()],
        [LearnedThresholds(4), HardnessWeighted()],
        [Oracle(), LearnedThresholds(4)],
    ],
    ids=str,
)
def test_sequences_of_wrong_parts_are_refused(parts):
    """Those that remember samples would find neither their numbers nor their state."""
    with pytest.raises(ValueError, match=r"Sequence|estimator"):
        Sequence(parts)


# logQ


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_log_q_equals_a_softmax_of_corrected_logits(chunk_size):
    """Equation 3 of Yi et al. (2019): the positive is corrected, too."""
    texts, images, hard = batch()
    q = torch.rand(12, generator=torch.Generator().manual_seed(3)).double() + 0.01
    loss = CrossModalLoss(LogQ(), "both", chunk_size=chunk_size)
    actual = loss.of_features(texts, images, 0.7, hard_negatives=hard, sampling_probability=q).loss
    losses = []
    for anchors, keys in (
        (texts, torch.cat((images, hard.flatten(0, 1)))),
        (images, texts),
    ):
        for i, anchor in enumerate(anchors):
            corrected = [0.7 * (anchor * key).sum() - q[j].log() for j, key in enumerate(keys)]
            losses.append(-torch.log(torch.exp(corrected[i]) / book.exp_sum(corrected)))
    book.assert_same(actual, torch.stack(losses).mean(), [texts, images, hard])


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_log_q_of_views_equals_a_loop_and_a_common_factor_cancels(chunk_size):
    first, second, _ = batch()
    queue, q = normal(3, 4, seed=9), [0.1, 0.02, 0.5, 0.3, 0.9, 0.07, 0.2]
    loss = ContrastiveLoss(LogQ(), T, chunk_size=chunk_size)
    further = {"queue": queue, "sampling_probability": torch.tensor(q, dtype=torch.float64)}
    actual = loss(first, second, **further)

    def mass(i, positives, negatives):
        return sum(q[i] * torch.exp(each.logit) / q[each.sample] for each in negatives)

    expected = of_views((first, second), T, mass, queue=queue).mean()
    book.assert_same(actual, expected, [first, second, queue])
    further["sampling_probability"] = 7 * further["sampling_probability"]
    book.assert_same(loss(first, second, **further), expected, [first, second, queue])
    further["sampling_probability"] = torch.full((7,), 0.1, dtype=torch.float64)
    equal = ContrastiveLoss(Uncorrected(), T)(first, second, queue=queue)
    book.assert_same(loss(first, second, **further), equal, [first, second, queue])


def test_sampling_probabilities_are_checked():
    first, second, _ = batch()
    loss = ContrastiveLoss(LogQ(), T)
    for wrong in (None, torch.ones(3), torch.zeros(4), torch.tensor([0.1, -0.1, 0.1, 0.1]), 0.1):
        with pytest.raises(ValueError, match="sampling_probability"):
            loss(first, second, sampling_probability=wrong)


# supervised


LABELS = [[0, 1, 0, 2], [0, 0, 0, 0], [0, -1, 0, -1], [3, 1, 1, -7]]


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("views", [2, 3])
def test_supcon_equals_a_loop_of_l_out(views, labels, chunk_size):
    given = [*batch()[:2], normal(4, 4, seed=5)][:views]
    given = [each.detach().requires_grad_() for each in given]
    loss = SupConLoss(T, chunk_size=chunk_size)
    actual = loss(given, labels=torch.tensor(labels))
    book.assert_same(actual, supervised(given, labels, T).mean(), given)
    each = SupConLoss(T, reduction="none")(given, labels=torch.tensor(labels))
    torch.testing.assert_close(each, supervised(given, labels, T))


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_supcon_with_a_labelled_queue_equals_a_loop(chunk_size):
    first, second, _ = batch()
    queue, of_queue = normal(5, 4, seed=6), [0, 3, -1, 1, 0]
    labels = [0, 1, 0, -1]
    loss = SupConLoss(T, chunk_size=chunk_size)
    actual = loss(first, second, labels=torch.tensor(labels + of_queue), queue=queue)
    expected = supervised((first, second), labels, T, queue, of_queue).mean()
    book.assert_same(actual, expected, [first, second, queue])


@pytest.mark.parametrize("labels", LABELS)
def test_supcon_by_name_equals_the_class(labels):
    first, second, _ = batch()
    named = build({"name": "supcon"}, temperature=T)
    assert isinstance(named, ContrastiveLoss)
    known = {"labels": torch.tensor(labels)}
    book.assert_same(
        named(first, second, **known), SupConLoss(T)(first, second, **known), [first, second]
    )


def test_supcon_needs_labels():
    first, second, _ = batch()
    for known in ({}, {"labels": torch.zeros(3)}):
        with pytest.raises(ValueError, match="labels"):
            SupConLoss(T)(first, second, **known)


# embeddings with labels


MASSES = {
    "cl": (Uncorrected(), lambda p, u: book.exp_sum(u)),
    "dcl": (Debiased(0.2), lambda p, u: book.debiased(p, u, 0.2, T)),
    "hcl": (HardNegative(1.0, 0.2), lambda p, u: book.hard_negative(p, u, 0.2, T, 1.0)),
    "bcl": (Bayesian(0.8, 1.0, 0.2), lambda p, u: book.bayesian(p, u, 0.2, 0.8, 1.0, "paper")),
}


def labelled(mass, anchors, keys, positives, negatives):
    """Return the mean over the pairs of anchors and positives, as pytorch-metric-learning's."""
    losses = []
    for i, anchor in enumerate(anchors):
        u = [book.cosine(anchor, key) / T for key in keys]
        own = [u[j] for j in range(len(keys)) if positives(i, j)]
        others = [u[j] for j in range(len(keys)) if negatives(i, j)]
        total = mass(own, others) if own and others else 0.0
        losses += [book.anchor_loss(each, total) for each in own]
    return sum(losses) / len(losses) if losses else 0.0 * anchors.sum()


@pytest.mark.parametrize("name", MASSES)
@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 0, 2], [0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5]])
def test_labelled_embeddings_equal_a_loop(name, labels):
    estimator, mass = MASSES[name]
    embeddings = normal(6, 4)
    actual = LabelledLoss(estimator, T)(embeddings, torch.tensor(labels))
    expected = labelled(
        mass,
        embeddings,
        embeddings,
        lambda i, j: i != j and labels[i] == labels[j],
        lambda i, j: labels[i] != labels[j],
    )
    book.assert_same(actual, expected, [embeddings])


@pytest.mark.parametrize("name", MASSES)
def test_labelled_references_equal_a_loop(name):
    """As pytorch-metric-learning's CrossBatchMemory passes its memory."""
    estimator, mass = MASSES[name]
    embeddings, references = normal(4, 4), normal(5, 4, seed=1)
    labels, of_references = [0, 1, 1, 7], [1, 0, 3, 1, 0]
    given = embeddings, torch.tensor(labels), None, references, torch.tensor(of_references)
    expected = labelled(
        mass,
        embeddings,
        references,
        lambda i, j: labels[i] == of_references[j],
        lambda i, j: labels[i] != of_references[j],
    )
    book.assert_same(LabelledLoss(estimator, T)(*given), expected, [embeddings, references])


@pytest.mark.parametrize("name", MASSES)
@pytest.mark.parametrize("with_references", [False, True])
def test_labelled_pairs_of_a_miner_equal_a_loop(name, with_references):
    estimator, mass = MASSES[name]
    embeddings, references = normal(4, 4), normal(5, 4, seed=1)
    keys = references if with_references else embeddings
    positives, negatives = {(0, 1), (1, 0), (0, 3)}, {(0, 2), (1, 2), (1, 3), (3, 0)}
    tuples = [
        torch.tensor(each) for pairs in (positives, negatives) for each in zip(*pairs, strict=True)
    ]
    further = (references, torch.zeros(5).long()) if with_references else ()
    actual = LabelledLoss(estimator, T)(embeddings, torch.zeros(4).long(), tuple(tuples), *further)
    expected = labelled(
        mass,
        embeddings,
        keys,
        lambda i, j: (i, j) in positives,
        lambda i, j: (i, j) in negatives,
    )
    book.assert_same(actual, expected, [embeddings, references])
    without_labels = LabelledLoss(estimator, T)(embeddings, None, tuple(tuples), *further[:1])
    assert torch.equal(without_labels, actual)
    for wrong in (tuples[:3], tuples[:2], [*tuples[:3], tuples[3][:3]]):
        with pytest.raises(ValueError, match="indices_tuple"):
            LabelledLoss(estimator, T)(embeddings, torch.zeros(4).long(), tuple(wrong))


@pytest.mark.parametrize("name", MASSES)
@pytest.mark.parametrize("triplets", [False, True])
def test_labelled_pairs_count_as_often_as_a_miner_lists_them(name, triplets):
    """As in pytorch-metric-learning, where triplets list a pair once for each partner."""
    estimator, mass = MASSES[name]
    embeddings = normal(5, 4)
    positives = [(3, 1), (0, 1), (0, 1), (0, 2)]
    negatives = [(0, 3), (0, 4), (3, 0), (0, 3), (3, 2)]
    if triplets:
        negatives = [(3, 2), (0, 3), (0, 4), (0, 3)]
    anchors, own, of_negatives, other = (*torch.tensor(positives).T, *torch.tensor(negatives).T)
    indices = (anchors, own, other) if triplets else (anchors, own, of_negatives, other)
    losses = []
    for i, j in positives:
        draws, u = (
            [book.cosine(embeddings[i], embeddings[k]) / T for row, k in pairs if row == i]
            for pairs in (positives, negatives)
        )
        positive = book.cosine(embeddings[i], embeddings[j]) / T
        losses.append(book.anchor_loss(positive, mass(draws, u)))
    actual = LabelledLoss(estimator, T)(embeddings, indices_tuple=indices)
    book.assert_same(actual, sum(losses) / len(losses), [embeddings])


def test_labelled_losses_need_labels_or_pairs():
    embeddings = normal(4, 4)
    for given in ({}, {"ref_emb": embeddings}, {"labels": None, "ref_labels": torch.arange(4)}):
        with pytest.raises(ValueError, match="labels is missing"):
            LabelledLoss(Uncorrected(), T)(embeddings, **given)
    with pytest.raises(ValueError, match="ref_labels"):
        LabelledLoss(Uncorrected(), T)(embeddings, torch.arange(4), None, embeddings)


@pytest.mark.parametrize("name", MASSES)
def test_labelled_views_of_samples_equal_the_loss_of_two_views(name):
    """As inside of SelfSupervisedLoss, where labels are the numbers of samples."""
    estimator, _ = MASSES[name]
    first, second, _ = batch()
    labels = torch.arange(4).repeat(2)
    actual = LabelledLoss(estimator, T)(torch.cat((first, second)), labels)
    book.assert_same(actual, ContrastiveLoss(estimator, T)(first, second), [first, second])
    three = normal(4, 4, seed=5)
    actual = LabelledLoss(estimator, T)(
        torch.cat((first, second, three)), torch.arange(4).repeat(3)
    )
    expected = ContrastiveLoss(estimator, T)([first, second, three])
    book.assert_same(actual, expected, [first, second, three])


@pytest.mark.parametrize(
    "estimator",
    [
        Oracle(),
        Guided(),
        Removed(),
        LogQ(),
        GlobalMass(4),
        LearnedThresholds(4),
        Sigmoid(),
        Sequence([Oracle(), Uncorrected()]),
        Uncorrected,
    ],
    ids=str,
)
def test_labelled_losses_refuse_what_needs_more(estimator):
    with pytest.raises(ValueError, match=r"estimator|needs"):
        LabelledLoss(estimator)


# texts


@pytest.mark.parametrize("name", ["cl", "dcl"])
@pytest.mark.parametrize("hard", [0, 2])
@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_a_symmetric_contrast_is_both_directions_of_pairs(name, hard, chunk_size):
    estimator, _ = MASSES[name]
    first, second, near = batch()
    columns = columns_of(first, second, near)[: 2 + hard]
    actual = ranking(estimator, contrast="symmetric", chunk_size=chunk_size)(columns)
    unit = [normalize(each, dim=-1) for each in (first, second, near)]
    further = {"hard_negatives": unit[2].transpose(0, 1).flatten(0, 1)} if hard else {}
    pairs = CrossModalLoss(estimator, "both").of_features(unit[0], unit[1], 1 / T, **further).loss
    book.assert_same(actual, pairs, [first, second, near])


@pytest.mark.parametrize("hard", [0, 2])
def test_a_symmetric_contrast_equals_sentence_transformers(library, hard):
    from sentence_transformers.sentence_transformer.losses import (
        MultipleNegativesSymmetricRankingLoss,
    )

    first, second, near = batch()
    columns = columns_of(first, second, near)[: 2 + hard]
    theirs = MultipleNegativesSymmetricRankingLoss(None, scale=1 / T)
    expected = theirs.compute_loss_from_embeddings([each["model"] for each in columns], None)
    actual = ranking(Uncorrected(), contrast="symmetric")(columns)
    book.assert_same(actual, expected, [first, second, near], 1e-7)


@pytest.mark.parametrize("contrast", ["documents", "joint", "symmetric"])
@pytest.mark.parametrize("hard", [0, 1])
@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_positives_of_a_group_are_no_negatives_in_any_row_of_it(contrast, hard, chunk_size):
    """With a loop over the places of a batch; equal embeddings do not make texts equal."""
    first, second, near = batch(5, 1)
    groups = [4, -1, 4, 0, -1]
    columns = columns_of(first, second, near)[: 2 + hard]
    loss = ranking(Debiased(0.1), contrast=contrast, chunk_size=chunk_size)
    actual = loss(columns, group=torch.tensor(groups))
    embedded = [each["model"] for each in columns]

    def u(one, other):
        return book.cosine(embedded[one[0]][one[1]], embedded[other[0]][other[1]]) / T

    losses = []
    for i in range(5):
        rows = [k for k in range(5) if k == i or groups[k] == groups[i] >= 0]
        places = list(itertools.product(range(1, len(columns)), range(5)))
        sets = [[((0, i), each) for each in places]]
        if contrast == "joint":
            sets[0] += [((0, i), (0, j)) for j in range(5)]
            sets[0] += [((1, i), (c, j)) for c, j in places if j != i]
        if contrast == "symmetric":
            sets.append([((1, i), (0, j)) for j in range(5)])
        for pairs in sets:
            left = [u(one, (c, j)) for one, (c, j) in pairs if not (c < 2 and j in rows)]
            positive = u((0, i), (1, i))
            losses.append(book.anchor_loss(positive, book.debiased([positive], left, 0.1, T)))
    book.assert_same(actual, sum(losses) / len(losses), [first, second, near][: 2 + hard])


@pytest.mark.parametrize("contrast", ["documents", "joint", "symmetric"])
def test_equal_anchors_have_one_query(contrast):
    """The same as a group, which the token ids of the anchors reveal."""
    first, second, near = batch(3, 1)
    with torch.no_grad():
        first[1] = first[0]
    words = [[1, 1, 2], [3, 4, 5], [6, 7, 8]]
    columns = [
        features | {"input_ids": torch.tensor(ids)[:, None], "attention_mask": torch.ones(3, 1)}
        for features, ids in zip(columns_of(first, second, near), words, strict=True)
    ]
    by_text = RankingLoss(Embedded("model"), Uncorrected(), 1 / T, contrast=contrast)
    by_group = ranking(Uncorrected(), contrast=contrast)
    expected = by_group(columns, group=torch.tensor([0, 0, 1]))
    book.assert_same(by_text(columns), expected, [first, second, near])
    assert by_text(columns) < by_group(columns)


def test_the_share_of_removed_hard_negatives_is_that_of_the_own_row():
    """The guide rates the first hard negative above the positive, and that of another row, too."""
    near_one, far = [1.0, 0.1], [0.0, 1.0]
    positives = torch.tensor([[0.8, 0.6], [0.6, -0.8]], dtype=torch.float64)
    hard = torch.tensor([[near_one, far], [far, near_one]], dtype=torch.float64)
    anchors = torch.tensor([[1.0, 0.0], [0.6, -0.8]], dtype=torch.float64)
    columns = columns_of(anchors, positives, hard)
    for scope, share in {"all": 0.25, "in_batch": 0.0, "hard": 0.25}.items():
        loss = ranking(Guided(scope=scope))
        assert loss.share_of_hard_removed.isnan()
        loss(columns)
        assert loss.share_of_hard_removed.item() == pytest.approx(share)
        loss(columns[:2])
        assert loss.share_of_hard_removed.isnan()
