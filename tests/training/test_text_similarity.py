"""Similarity of sentences by a language model: embeddings, quantiles, and sentences about the same
finding.
"""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional

from tests.text import corpus
from tests.text.models import SENTENCES, saved
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.registry import prepare_pairs
from trueneg.errors import UserError
from trueneg.losses import Removed
from trueneg.text.embeddings import sentence_embeddings
from trueneg.text.loading import load_language_model
from trueneg.training.text_similarity import TextSimilarity, embeddings_of

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def phantom(tmp_path_factory):
    """A phantom source with language models trained on its sentences."""
    folder = tmp_path_factory.mktemp("phantom")
    corpus.write_sentences(folder, reports=150)
    text = {
        name: folder / f"{name}.parquet" for name in ("sentences", "assigned", "reports", "classes")
    }
    settings = {"source": "phantom", "images": None, "resolution": 32, "contrast": 3.0, "seed": 0}
    text["language_models"] = corpus.train(folder, epochs=3)
    prepare_pairs(settings, text, folder / "pairs.npz", cache=folder / "cache", threads=1)
    return read_pairs(folder / "pairs.npz"), text


def test_an_embedding_is_the_mean_of_the_last_layer_over_the_sentences_tokens(tmp_path):
    model = saved(tmp_path)
    sentences = [*SENTENCES, " ".join(SENTENCES * 3)]
    found = sentence_embeddings(sentences, model, CPU)
    network, tokenizer = load_language_model(tmp_path)
    for sentence, embedding in zip(sentences, found, strict=True):
        tokens = tokenizer(sentence)["input_ids"]
        tokens = tokens if len(tokens) <= 96 else [*tokens[:95], tokenizer.sep_token_id]
        with torch.no_grad():
            hidden = network.bert(input_ids=torch.tensor([tokens])).last_hidden_state[0]
        torch.testing.assert_close(
            embedding, torch.stack(list(hidden)).mean(0), atol=1e-5, rtol=1e-4
        )


def test_a_language_model_other_than_the_recorded_one_is_refused(tmp_path):
    model = saved(tmp_path)
    with pytest.raises(UserError, match=str(tmp_path)):
        sentence_embeddings(SENTENCES, model | {"checksum": "other"}, CPU)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=f"{tmp_path}: the weights are missing"):
        sentence_embeddings(SENTENCES, model, CPU)


def test_the_models_of_the_first_fold_embed_all_sentences_of_a_source(phantom):
    source, text = phantom
    listed = pd.read_json(text["language_models"], typ="series")["models"]
    assert source.language_model["folder"] == listed[0]["folder"] != listed[1]["folder"]
    texts = source.sentences["sentence"].unique()[:5].tolist()
    expected = sentence_embeddings(texts, source.language_model, CPU)
    torch.testing.assert_close(embeddings_of(source, texts, CPU), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("quantile", [0.0, 0.25, 0.5, 0.9, 0.95, 0.999, 1.0])
def test_a_quantile_removes_exactly_its_share_of_a_fixed_corpus(quantile):
    # 820 pairs with distinct similarities
    embeddings = torch.randn(41, 6, generator=torch.Generator().manual_seed(0))
    similarity = TextSimilarity(embeddings, torch.arange(41), torch.arange(41))
    alike = similarity(torch.arange(41), torch.arange(41))
    np.testing.assert_allclose(alike, cosines(embeddings.numpy()), atol=1e-6)
    others = alike[~torch.eye(41, dtype=torch.bool)].view(41, 40)
    kept = Removed(similarity.threshold(quantile))(
        torch.zeros(41), torch.zeros(41, 40), similarity=others
    ).exp()
    removed = others.numel() - kept.sum().item()  # each pair counts twice
    assert removed == pytest.approx(2 * np.ceil(820 * (1 - quantile) - 1e-6), abs=1e-2)


def cosines(embeddings):
    """Return the cosines of the centred embeddings, pair by pair."""
    rows = embeddings - embeddings.mean(axis=0)
    return np.array(
        [[one @ other / np.sqrt((one @ one) * (other @ other)) for other in rows] for one in rows]
    )


def test_pairs_of_the_same_sentence_are_removed_together_by_any_quantile_below_one():
    text_of = torch.tensor([0, 0, 0, 1, 2, 3])  # three of the fifteen pairs are the same sentence
    similarity = TextSimilarity(
        torch.randn(4, 5, generator=torch.Generator().manual_seed(0)), text_of, torch.arange(6)
    )
    alike = similarity(torch.arange(6), torch.arange(6))[*torch.triu_indices(6, 6, 1)]
    for quantile, removed in ((0.93, 3), (0.81, 3), (0.8, 3), (0.7, 5), (1.0, 0)):
        assert int((alike > similarity.threshold(quantile)).sum()) == removed


def test_the_mean_weights_sentences_by_their_frequency():
    embeddings = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    text_of = torch.tensor([0, 0, 0, 1])
    similarity = TextSimilarity(embeddings, text_of, torch.arange(4))
    rows = functional.normalize(embeddings - embeddings[text_of].mean(0), dim=1)[text_of]
    torch.testing.assert_close(similarity(torch.arange(4), torch.arange(4)), rows @ rows.T)


def test_sentences_about_the_same_finding_are_more_similar_than_random_ones(phantom):
    source, text = phantom
    table = source.sentences.drop_duplicates("sentence").merge(
        pd.read_parquet(text["classes"])[["class", "finding", "kind"]]
    )
    table = table[table["kind"] == "positive"].reset_index(drop=True)
    numbers = torch.arange(len(table))
    alike = TextSimilarity(
        embeddings_of(source, table["sentence"].tolist(), CPU), numbers, numbers
    )(numbers, numbers).numpy()
    finding = table["finding"].to_numpy()
    same, other = finding[:, None] == finding, ~np.eye(len(table), dtype=bool)
    assert alike[same & other].mean() > alike[other].mean() + 0.1
    assert np.median(alike[other]) < 0.3  # without centring, all would be similar
