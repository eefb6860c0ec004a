"""RankingLoss equals the losses of sentence-transformers and works with its trainer."""

import math

import pytest
import torch
from torch.optim.swa_utils import AveragedModel

from tests.losses import by_the_book as book
from tests.text.models import SENTENCES, bert, saved, tokenizer
from trueneg.losses import Debiased, GlobalMass, Guided, Oracle, Uncorrected
from trueneg.losses.adapters import FactsCollator, RankingLoss
from trueneg.text.tokenizing import train_tokenizer

library = pytest.importorskip(
    "sentence_transformers", "5.2", reason="compares with sentence-transformers' own losses"
)
try:
    from sentence_transformers.sentence_transformer import losses
except ImportError:  # before version 5.4
    from sentence_transformers import losses

TEXTS = (
    list(SENTENCES[:5]),
    [
        "Lungs clear.",
        "There is no pneumothorax.",
        "The heart is large, unchanged.",
        "Effusion on the left.",
        "No.",
    ],
    [
        "The lungs are not clear.",
        "Pneumothorax.",
        "No cardiomegaly.",
        "A large effusion.",
        "Hydropneumothorax unchanged.",
    ],
)

# negatives from the other columns alone, as in RankingLoss
BETWEEN = {"contrast_anchors": False, "contrast_positives": False}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of two tiny BERTs with random weights, the same vocabulary and no dropout."""
    words = tokenizer()
    found = [tmp_path_factory.mktemp(name) for name in ("model", "guide")]
    for seed, folder in enumerate(found):
        network = bert(len(words))
        network.config.hidden_dropout_prob = network.config.attention_probs_dropout_prob = 0.0
        torch.manual_seed(seed)
        network.init_weights()
        saved(folder, network, words)
    return [str(folder) for folder in found]


@pytest.fixture
def models(folders):
    return [library.SentenceTransformer(folder, device="cpu").eval() for folder in folders]


def features(model, columns):
    tokenise = model.preprocess if hasattr(model, "preprocess") else model.tokenize
    return [tokenise(TEXTS[column]) for column in range(columns)]


def assert_same(model, ours, theirs, columns):
    """Compare values and gradients of the model."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found, wanted = (loss(features(model, columns), None) for loss in (ours, theirs))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    gradients = [book.gradients(value, parameters) for value in (found, wanted)]
    assert any(gradient.abs().max() > 1e-4 for gradient in gradients[0])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_uncorrected_equals_multiple_negatives_ranking_loss(models, columns, scale):
    model, _ = models
    ours = RankingLoss(model, Uncorrected(), scale)
    assert_same(model, ours, losses.MultipleNegativesRankingLoss(model, scale=scale), columns)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("margin", [0.0, 0.05, -0.05])
def test_guided_equals_gist_embed_loss_between_columns(models, columns, margin):
    model, guide = models
    ours = RankingLoss(model, Guided(margin), scale=5.0, guide=guide)
    theirs = losses.GISTEmbedLoss(model, guide, temperature=0.2, margin=margin, **BETWEEN)
    assert_same(model, ours, theirs, columns)
    plain = RankingLoss(model, Uncorrected(), scale=5.0)
    # so something was removed
    assert ours(features(model, columns)) < plain(features(model, columns))


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("size", [None, 2])
def test_joint_contrasts_equal_multiple_negatives_ranking_loss(models, columns, size):
    model, _ = models
    directions = ("query_to_doc", "query_to_query", "doc_to_doc")
    ours = RankingLoss(model, Uncorrected(), 5.0, contrast="joint", mini_batch_size=size)
    assert_same(
        model,
        ours,
        losses.MultipleNegativesRankingLoss(model, scale=5.0, directions=directions),
        columns,
    )


@pytest.mark.parametrize("size", [None, 2])
def test_symmetric_contrasts_equal_multiple_negatives_symmetric_ranking_loss(models, size):
    model, _ = models
    ours = RankingLoss(model, Uncorrected(), 5.0, contrast="symmetric", mini_batch_size=size)
    theirs = losses.MultipleNegativesRankingLoss(
        model,
        scale=5.0,
        directions=("query_to_doc", "doc_to_query"),
        partition_mode="per_direction",
    )
    assert_same(model, ours, theirs, 2)


@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_joint_contrasts_equal_gist_embed_loss_with_two_columns(models, margin):
    """The guide rates each positive below 1 − margin, so that GISTEmbedLoss leaves a text out of
    its own negatives.
    """
    model, guide = models
    ours = RankingLoss(model, Guided(margin), scale=5.0, guide=guide, contrast="joint")
    theirs = losses.GISTEmbedLoss(model, guide, temperature=0.2, margin=margin)
    assert_same(model, ours, theirs, 2)
    plain = RankingLoss(model, Uncorrected(), scale=5.0, contrast="joint")
    assert ours(features(model, 2)) < plain(features(model, 2))


def test_mini_batches_train_as_cached_multiple_negatives_ranking_loss(folders, tmp_path):
    (expected, wanted), (trainer, values) = (
        trained(folders[0], tmp_path, 3, loss_of)
        for loss_of in (
            lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=2),
            lambda model: RankingLoss(model, Uncorrected(), mini_batch_size=2),
        )
    )
    assert values == pytest.approx(wanted, abs=1e-4)
    torch.testing.assert_close(
        embeddings(trainer.model), embeddings(expected.model), rtol=1e-4, atol=1e-4
    )


def test_without_a_guide_the_models_embeddings_are_used(models):
    model, _ = models
    assert_same(
        model, RankingLoss(model, Guided()), losses.GISTEmbedLoss(model, model, 0.05, **BETWEEN), 3
    )


@pytest.mark.skipif(
    library.__version__ not in ("5.7.0", "6.2.0"), reason="a fact about versions 5.7.0 and 6.2.0"
)
def test_in_gist_embed_loss_a_sample_can_be_its_own_negative(models):
    """The blocks of anchors with anchors and positives with positives have no mask on the diagonal.

    A sample's similarity with itself, 1, is left out only if the guide rates the sample's positive
    below 1 − margin. Here every positive is its anchor's text and the margin is −0.1: nothing is
    left out, each block repeats the first one, and the loss is larger by log 3.
    """
    model, _ = models
    repeated = [features(model, 1)[0] for _ in range(2)]
    gist = {"guide": model, "temperature": 0.05, "margin": -0.1}
    default = losses.GISTEmbedLoss(model, **gist)([dict(each) for each in repeated], None)
    other = losses.GISTEmbedLoss(model, **gist, **BETWEEN)([dict(each) for each in repeated], None)
    torch.testing.assert_close(default, other + math.log(3))
    torch.testing.assert_close(RankingLoss(model, Guided(-0.1))(repeated), other)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A guide with another vocabulary."""
    folder, words = (
        tmp_path_factory.mktemp("foreign"),
        train_tokenizer((*SENTENCES, *TEXTS[1], *TEXTS[2]), 170, 96),
    )
    saved(folder, bert(len(words)), words)
    guide = library.SentenceTransformer(str(folder), device="cpu").eval()
    assert guide.tokenizer.get_vocab() != tokenizer().get_vocab()
    return guide


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("longest", [None, 6])
def test_a_guide_with_another_tokenizer_gets_the_decoded_texts_as_in_gist_embed_loss(
    models, foreign, columns, longest
):
    model, guide = models
    if longest is None:
        guide = foreign
    else:  # the same vocabulary, but the guide truncates
        guide.max_seq_length = longest
    ours = RankingLoss(model, Guided(0.05), scale=5.0, guide=guide)
    theirs = losses.GISTEmbedLoss(model, guide, temperature=0.2, margin=0.05, **BETWEEN)
    assert_same(model, ours, theirs, columns)
    assert ours(features(model, columns)) != RankingLoss(model, Guided(0.05), scale=5.0)(
        features(model, columns)
    )


@pytest.mark.parametrize("columns", [2, 3])
def test_precomputed_vectors_of_a_guide_equal_the_guide(models, foreign, columns):
    model, _ = models
    texts = [text for column in TEXTS for text in column]
    vectors = dict(zip(texts, foreign.encode(texts, convert_to_tensor=True), strict=True))
    with_vectors, with_guide = (
        RankingLoss(model, Guided(0.05), 5.0, guide) for guide in (vectors, foreign)
    )
    decoded = model.tokenizer.batch_decode(
        model.tokenizer(texts)["input_ids"], skip_special_tokens=True
    )
    # so both see the same texts
    assert foreign.tokenizer(decoded)["input_ids"] == foreign.tokenizer(texts)["input_ids"]
    assert_same(model, with_vectors, with_guide, columns)
    assert with_vectors(features(model, columns)) != RankingLoss(model, Guided(0.05), 5.0)(
        features(model, columns)
    )
    del vectors[TEXTS[1][2]]
    with pytest.raises(ValueError, match="1 of 5 texts have no vector in guide"):
        RankingLoss(model, Guided(), guide=vectors)(features(model, columns))


def test_precomputed_vectors_work_with_the_trainer(folders, foreign, tmp_path):
    texts = [text for column in TEXTS for text in column]
    vectors = dict(zip(texts, foreign.encode(texts, convert_to_numpy=True), strict=True))
    (trainer, values), (_, expected) = (
        trained(
            folders[0],
            tmp_path,
            3,
            lambda model, guide=guide: RankingLoss(model, Guided(0.05), guide=guide),
        )
        for guide in (vectors, foreign)
    )
    assert values == pytest.approx(expected, abs=1e-4)
    trainer.save_model(str(tmp_path / "trained"))
    assert '"guide": "GuideVectors"' in (tmp_path / "trained/README.md").read_text(encoding="utf-8")


ETA = [0.02, 0.3, 0.1, 0.05, 0.2]
CLASSES = [0, 1, 0, 2, 1]
GROUP = [0, 1, -1, 1, -1]
INDEX = [7, 0, 3, 9, 4]


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize(
    "make", [Debiased, Oracle, lambda: GlobalMass(10)], ids=["eta", "labels", "index"]
)
@pytest.mark.parametrize("grouped", [False, True])
def test_columns_of_facts_reach_the_loss_in_the_trainer(folders, tmp_path, columns, make, grouped):
    """Labels, class probabilities, queries and indices. At a learning rate of 0, the averages of
    GlobalMass stay those of the batch, so that its loss is CL's.
    """
    estimator = make()
    datasets = pytest.importorskip("datasets", reason="sentence-transformers' trainer needs it")
    pytest.importorskip("accelerate", reason="sentence-transformers' trainer needs it")
    model = library.SentenceTransformer(folders[0], device="cpu")
    texts = dict(zip(("anchor", "positive", "negative"), TEXTS[:columns], strict=False))
    facts = {"label": CLASSES, "class_probability": ETA, "index": INDEX}
    facts |= {"group": GROUP} if grouped else {}
    data = datasets.Dataset.from_dict({**texts, **facts})
    settings = {
        "max_steps": 2,
        "per_device_train_batch_size": 5,
        "logging_steps": 1,
        "learning_rate": 0.0,
    }
    arguments = library.SentenceTransformerTrainingArguments(
        str(tmp_path), report_to="none", use_cpu=True, **settings
    )
    loss = RankingLoss(model, estimator, 1.0, same_text=False, unused="ignore")
    trainer = library.SentenceTransformerTrainer(model, arguments, data, data, loss=loss)
    trainer.data_collator = FactsCollator(trainer.data_collator)
    trainer.train()
    encoded = [model.encode(column, convert_to_tensor=True).double() for column in TEXTS[:columns]]
    total, candidates = 0.0, torch.cat(encoded[1:])
    for i, anchor in enumerate(encoded[0]):
        cosines = [book.cosine(anchor, candidate) for candidate in candidates]
        same = [
            estimator.needs_labels and j < 5 and CLASSES[i] == CLASSES[j]
            for j in range(len(cosines))
        ]
        answers = [j for j in range(5) if grouped and GROUP[i] == GROUP[j] >= 0]
        negatives = [
            cosine
            for j, cosine in enumerate(cosines)
            if j != i and not same[j] and j not in answers
        ]
        positive = [cosines[i]]
        eta = ETA[i] if estimator.uses_class_probability else 0.0
        total += (
            book.anchor_loss(cosines[i], book.debiased(positive, negatives, eta, 1.0)).item() / 5
        )
    values = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert values == pytest.approx([total] * 2, abs=2e-4)  # the trainer rounds
    assert trainer.evaluate()["eval_loss"] == pytest.approx(total, abs=1e-5)
    if estimator.keeps_average:
        known = estimator.log_averages.isfinite()
        assert known[0].nonzero().flatten().tolist() == sorted(INDEX)
        assert not known[1].any()


def test_evaluation_by_the_trainer_does_not_renew_averages(folders, tmp_path):
    """The samples of other data have numbers, too."""
    datasets = pytest.importorskip("datasets", reason="sentence-transformers' trainer needs it")
    pytest.importorskip("accelerate", reason="sentence-transformers' trainer needs it")
    model = library.SentenceTransformer(folders[0], device="cpu")
    data = datasets.Dataset.from_dict({"anchor": TEXTS[0], "positive": TEXTS[1], "index": INDEX})
    arguments = library.SentenceTransformerTrainingArguments(
        str(tmp_path), report_to="none", use_cpu=True, max_steps=1, per_device_train_batch_size=5
    )
    loss = RankingLoss(model, GlobalMass(10))
    trainer = library.SentenceTransformerTrainer(model, arguments, data, data, loss=loss)
    trainer.data_collator = FactsCollator(trainer.data_collator)
    trainer.train()
    before = loss.estimator.log_averages.clone()
    assert before.isfinite().sum() == 5
    trainer.evaluate()
    assert torch.equal(loss.estimator.log_averages, before)


def test_the_share_at_the_bound_is_that_of_the_latest_call(models):
    model, _ = models
    loss, texts = (
        RankingLoss(model, Debiased(0.1), same_text=False),
        [TEXTS[0], [*TEXTS[0][:2], *TEXTS[1][2:]]],
    )
    tokenise = model.preprocess if hasattr(model, "preprocess") else model.tokenize
    anchors, candidates = (
        model.encode(column, convert_to_tensor=True).double() for column in texts
    )
    for eta in (0.5, 0.0):  # the first two positives repeat their anchor
        loss([tokenise(column) for column in texts], class_probability=eta)
        bounded = 0
        for i, anchor in enumerate(anchors):
            u = [20 * book.cosine(anchor, candidate).item() for candidate in candidates]
            mean = sum(math.exp(each) for j, each in enumerate(u) if j != i) / 4
            bounded += (mean - eta * math.exp(u[i])) / (1 - eta) <= math.exp(-20)
        assert (2 <= bounded < 5) == (eta > 0)
        assert loss.share_at_bound.item() == pytest.approx(bounded / 5)


def trained(folder, into, columns, loss_of):
    """Return the trainer after some steps, and the loss at each step."""
    datasets = pytest.importorskip("datasets", reason="sentence-transformers' trainer needs it")
    pytest.importorskip("accelerate", reason="sentence-transformers' trainer needs it")
    model = library.SentenceTransformer(folder, device="cpu")
    texts = dict(zip(("anchor", "positive", "negative"), TEXTS[:columns], strict=False))
    settings = {
        "max_steps": 4,
        "per_device_train_batch_size": 3,
        "dataloader_drop_last": True,
        "logging_steps": 1,
    }
    # Adam would enlarge the rounding of a gradient that is zero
    settings |= {"optim": "sgd", "learning_rate": 0.1}
    arguments = library.SentenceTransformerTrainingArguments(
        str(into), report_to="none", use_cpu=True, **settings
    )
    trainer = library.SentenceTransformerTrainer(
        model, arguments, datasets.Dataset.from_dict(texts), loss=loss_of(model)
    )
    trainer.train()
    return trainer, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def embeddings(model):
    return model.encode([*TEXTS[0], *TEXTS[1]], convert_to_tensor=True)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("guided", [False, True])
def test_training_with_the_trainer_equals_training_with_its_losses(
    folders, tmp_path, columns, guided
):
    def own(model):
        if not guided:
            return losses.MultipleNegativesRankingLoss(model)
        return losses.GISTEmbedLoss(
            model, library.SentenceTransformer(folders[1], device="cpu"), 0.05, **BETWEEN
        )

    def ours(model):
        guide = library.SentenceTransformer(folders[1], device="cpu") if guided else None
        return RankingLoss(model, Guided() if guided else Uncorrected(), guide=guide)

    (expected, wanted), (trainer, values) = (
        trained(folders[0], tmp_path, columns, each) for each in (own, ours)
    )
    assert len(values) == 4
    assert values == pytest.approx(wanted, abs=1e-4)
    found = embeddings(trainer.model)
    torch.testing.assert_close(found, embeddings(expected.model), rtol=1e-4, atol=1e-4)
    assert (
        found - embeddings(library.SentenceTransformer(folders[0], device="cpu"))
    ).abs().max() > 0.01


def test_a_moving_average_can_be_the_guide_and_the_model_card_names_the_loss(folders, tmp_path):
    guides = []

    def loss_of(model):
        guides.append(AveragedModel(model))
        return RankingLoss(model, Guided(margin=0.05), guide=guides[0])

    trainer, values = trained(folders[0], tmp_path, 3, loss_of)
    assert all(map(math.isfinite, values))
    start = library.SentenceTransformer(folders[0], device="cpu")
    torch.testing.assert_close(embeddings(guides[0].module), embeddings(start), rtol=0, atol=0)
    assert (embeddings(trainer.model) - embeddings(start)).abs().max() > 0.01
    trainer.save_model(str(tmp_path / "trained"))
    card = (tmp_path / "trained/README.md").read_text(encoding="utf-8")
    assert "trueneg.losses.ranking.RankingLoss" in card
    assert "Guided(margin=0.05, strategy='absolute')" in card
    again = library.SentenceTransformer(str(tmp_path / "trained"), device="cpu")
    torch.testing.assert_close(embeddings(again), embeddings(trainer.model))


def test_it_works_within_matryoshka_loss(models):
    model, _ = models
    ours, theirs = RankingLoss(model, Uncorrected()), losses.MultipleNegativesRankingLoss(model)
    assert_same(model, *(losses.MatryoshkaLoss(model, each, [16, 4]) for each in (ours, theirs)), 3)
    in_parts = losses.MatryoshkaLoss(
        model, RankingLoss(model, Uncorrected(), mini_batch_size=2), [16, 4]
    )
    with pytest.raises(ValueError, match=r"mini_batch_size=None.*MatryoshkaLoss"):
        in_parts(features(model, 3), None).backward()


def test_it_works_within_adaptive_layer_loss(models):
    model, _ = models
    ours, theirs = RankingLoss(model, Uncorrected()), losses.MultipleNegativesRankingLoss(model)
    within = [
        losses.AdaptiveLayerLoss(model, each, n_layers_per_step=-1) for each in (ours, theirs)
    ]
    assert_same(model, *within, 3)
    repeated = features(model, 3)
    with torch.no_grad():
        torch.testing.assert_close(within[0](repeated, None), within[0](repeated, None))
