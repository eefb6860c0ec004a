"""Masked language models learn, resume bit for bit, stop early, and are never trained on the
reports that they score.
"""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional
from torch.nn.functional import cross_entropy

from tests.text import corpus, models
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.store.language_models import read_language_models
from trueneg.text import pseudo_log_likelihood
from trueneg.text.folds import training_parts, with_folds
from trueneg.text.language_models import train_language_models
from trueneg.text.loading import load_language_model
from trueneg.text.masked_lm import MaskedLMTraining, new_masked_lm
from trueneg.text.tokenizing import train_tokenizer

TEXTS = [
    "The lungs are clear.",
    "No effusion.",
    "Small left effusion.",
    "Heart size is normal.",
] * 20
SETTINGS = corpus.MODEL | {"vocabulary": 200, "epochs": 3, "batch_size": 16}


def begin(texts=None, **changes):
    model, tokenizer = new_masked_lm(TEXTS, SETTINGS, seed=0)
    return MaskedLMTraining(
        model, tokenizer, (texts or TEXTS, TEXTS[:8]), SETTINGS | changes, 0, torch.device("cpu")
    )


def finish(training):
    """Train all remaining epochs, and return their rows and the weights after each."""
    rows, weights = [], []
    while training.epoch < training.epochs:
        rows.append(training.train_epoch(lambda: None))
        weights.append({name: value.clone() for name, value in training.model.state_dict().items()})
    return rows, weights


def equal(first, second):
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


def test_training_sentences_become_likelier_than_shuffled_words():
    training = begin(epochs=12, learning_rate=1e-2)
    before = training.pseudo_perplexity()
    rows, _ = finish(training)
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert training.best < before / 3
    texts = ["No effusion.", "Effusion lungs no are."]
    likely, unlikely = pseudo_log_likelihood(training.finished_model(), training.tokenizer, texts)
    assert likely > unlikely


def test_pseudo_perplexity_matches_its_definition():
    training = begin()
    texts, counts = training._validating
    log_p = pseudo_log_likelihood(training.model, training.tokenizer, texts)
    tokens = [
        len(training.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts
    ]
    assert training.pseudo_perplexity() == pytest.approx(
        np.exp(-(log_p @ counts) / (np.array(tokens) @ counts))
    )


def test_an_interrupted_training_gives_the_same_result():
    whole, interrupted, updates = begin(), begin(), []
    finish(whole)

    def interrupt():
        updates.append(1)
        if len(updates) == 7:
            raise KeyboardInterrupt

    interrupted.train_epoch(interrupt)
    with pytest.raises(KeyboardInterrupt):
        interrupted.train_epoch(interrupt)
    tensors, values = interrupted.state()
    resumed = begin()
    resumed.load_state(tensors, json.loads(json.dumps(values)))
    torch.manual_seed(999)  # must not matter
    finish(resumed)
    assert equal(whole.finished_model().state_dict(), resumed.finished_model().state_dict())
    assert resumed.best == whole.best


def test_training_stops_early_and_keeps_the_weights_of_the_best_epoch(monkeypatch):
    training = begin(epochs=10, patience=2)
    perplexities = iter([9.0, 5.0, 6.0, 7.0])
    monkeypatch.setattr(MaskedLMTraining, "pseudo_perplexity", lambda self: next(perplexities))
    _, weights = finish(training)
    assert training.epoch == 4
    assert training.best == 5.0
    assert equal(training.finished_model().state_dict(), weights[1])


def test_every_sentence_has_a_masked_token_and_special_tokens_are_never_masked(monkeypatch):
    training = begin(mask_share=0.01)
    batches, model, tokenizer = [], type(training.model), training.tokenizer
    original = model.forward
    monkeypatch.setattr(
        model,
        "forward",
        lambda self, input_ids, **rest: (
            batches.append(input_ids) or original(self, input_ids, **rest)
        ),
    )
    training.train_epoch(lambda: None)
    masked = [batch for batch in batches if (batch == tokenizer.mask_token_id).any()]
    assert masked
    for ids in [ids for batch in masked for ids in batch]:
        text = ids[ids != tokenizer.pad_token_id]
        assert text[0] == tokenizer.cls_token_id
        assert text[-1] == tokenizer.sep_token_id
        assert (text == tokenizer.mask_token_id).sum() >= 1


def test_a_text_without_a_known_word_is_not_learned(monkeypatch):
    unknown = "a" * 150
    training = begin([unknown, unknown, *TEXTS[:6]], batch_size=2)
    learned = []
    monkeypatch.setattr(
        functional,
        "cross_entropy",
        lambda logits, targets, **settings: (
            learned.append(targets) or cross_entropy(logits, targets, **settings)
        ),
    )
    training.train_epoch(lambda: None)
    assert learned
    special = torch.tensor(training.tokenizer.all_special_ids)
    assert not torch.isin(torch.cat(learned), special).any()
    assert all(parameter.isfinite().all() for parameter in training.model.parameters())


def test_texts_without_any_known_word_are_refused():
    with pytest.raises(UserError, match="knows no word of its training texts"):
        begin(["a" * 150] * 4).train_epoch(lambda: None)


def test_names_of_special_tokens_are_masked_and_predicted_as_text():
    training = begin(texts=["[SEP]", "The [MASK] is [PAD] clear."] * 8)
    special = [training.tokenizer.cls_token_id, training.tokenizer.sep_token_id]
    for start, stop in itertools.pairwise(training._starts):
        ids = training._ids[start:stop].tolist()
        assert [ids[0], ids[-1]] == special
        assert not {*ids[1:-1]} & {*training.tokenizer.all_special_ids}
    assert np.isfinite(training.train_epoch(lambda: None)["loss"])


def test_vocabularies_are_reproducible_and_cover_every_word():
    vocabularies = [train_tokenizer(models.SENTENCES, 300, 64).get_vocab() for _ in range(4)]
    assert all(vocabulary == vocabularies[0] for vocabulary in vocabularies)
    tokenizer = train_tokenizer(models.SENTENCES, 300, 64)
    assert (
        tokenizer.unk_token_id
        not in tokenizer("Zyxq (quokka) 37 % @ home; café?")["input_ids"][:-3]
    )
    with pytest.raises(ValueError, match="expected at least"):
        train_tokenizer(models.SENTENCES, 20, 64)


def test_folds_and_parts_share_no_patient():
    table = pd.DataFrame(
        {"patient": [f"p{number // 3}" for number in range(300)], "sentence": "Clear."}
    )
    table = with_folds(table, 3, seed=0)
    assert table.groupby("patient")["fold"].nunique().max() == 1
    for fold in range(3):
        training, validating = training_parts(table, fold, 0.2, seed=0)
        scored = set(table.loc[table["fold"] == fold, "patient"])
        assert not scored & (set(training["patient"]) | set(validating["patient"]))
        assert not set(training["patient"]) & set(validating["patient"])
        assert len(training) + len(validating) == (table["fold"] != fold).sum()
    alone = with_folds(table[table["patient"] == "p1"], 3, seed=0)
    assert alone["fold"].tolist() == table.loc[table["patient"] == "p1", "fold"].tolist()
    assert set(table["fold"]) == {0, 1, 2}
    with pytest.raises(
        UserError, match=r"fold 0, there are \d+ training sentences and 0 validation sentences"
    ):
        training_parts(table, 0, 0.0, seed=0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train models on a corpus in which one report contains a unique word."""
    folder = tmp_path_factory.mktemp("trained")
    path = corpus.write_sentences(folder)
    table, _ = privacy.read_table(path)
    table.loc[table.index[0], "sentence"] = "Zyxq zyxq zyxq zyxq zyxq zyxq zyxq."
    privacy.write_table(table, path, restricted=False)
    return folder, corpus.train(folder), table


def test_the_model_that_scores_a_report_was_not_trained_on_it(trained):
    _, manifest, table = trained
    models = read_language_models(manifest)["models"]
    pieces = {
        model["fold"]: len(load_language_model(model["folder"])[1].tokenize("zyxq"))
        for model in models
    }
    scored_by = with_folds(table, 2, 0)["fold"].iloc[0]
    assert pieces[scored_by] == 4  # letter by letter
    assert pieces[1 - scored_by] < 4


def test_finished_models_are_reused_and_load_with_the_same_weights(trained):
    folder, manifest, _ = trained
    before = {path: path.stat().st_mtime_ns for path in folder.glob("store/*/model.safetensors")}
    assert len(before) == 2
    corpus.train(folder)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not list(folder.glob("store/*/checkpoint*"))
    assert {model["fold"] for model in read_language_models(manifest)["models"]} == {0, 1}
    for path in before:
        curve = pd.read_parquet(path.parent / "training.parquet")["pseudo-perplexity"]
        assert (curve > 1).all()
        model, tokenizer = load_language_model(path.parent)
        assert all(
            torch.equal(value, model.state_dict()[name]) for name, value in load_file(path).items()
        )
        assert tokenizer.is_fast
        assert tokenizer.model_max_length == corpus.MODEL["longest"]
        record = json.loads((path.parent / "run.json").read_text())
        assert record["pseudo-perplexity"] == pytest.approx(curve.min())


def test_the_same_training_writes_the_same_bytes(trained, tmp_path):
    """Results made with a language model are up to date if its checksum is unchanged."""
    folder, _, _ = trained
    shutil.copy(folder / "sentences.parquet", tmp_path)
    corpus.train(tmp_path)
    again = list(tmp_path.glob("store/*/model.safetensors"))
    assert len(again) == 2
    for path in again:
        assert path.read_bytes() == (folder / path.relative_to(tmp_path)).read_bytes()


def test_settings_that_affect_the_result_give_another_model(trained, tmp_path):
    folder, _, _ = trained
    corpus.train(folder, checkpoint_minutes=1.0)
    assert len(list(folder.glob("store/*"))) == 2
    places = {
        "store": folder / "store",
        "manifest": tmp_path / "fine.json",
        "start": folder / "models.json",
    }
    train_language_models(
        folder / "sentences.parquet", settings=corpus.MODEL | {"epochs": 1}, seed=0, **places
    )
    models = read_language_models(tmp_path / "fine.json")["models"]
    assert len(list(folder.glob("store/*"))) == 4
    # Fine-tuning keeps the vocabulary of the initial model.
    first, second = (load_language_model(model["folder"])[1].get_vocab() for model in models)
    assert first == second


def test_invalid_vocabularies_and_manifests_are_reported(trained, tmp_path):
    folder, manifest, _ = trained
    arguments = {"seed": 0, "store": tmp_path / "store", "manifest": tmp_path / "m.json"}
    with pytest.raises(UserError, match="language_models: vocabulary is 20; expected at least"):
        train_language_models(
            folder / "sentences.parquet", settings=corpus.MODEL | {"vocabulary": 20}, **arguments
        )
    listed = json.loads(manifest.read_text())
    listed["models"][0]["checksum"] = "0" * 64
    (tmp_path / "other.json").write_text(json.dumps(listed))
    with pytest.raises(UserError, match=r"does not contain the model that .*other\.json lists"):
        read_language_models(tmp_path / "other.json")
    for name in ("model.safetensors", "config.json", "run.json"):
        path = Path(listed["models"][1]["folder"]) / name
        intact = path.read_bytes()
        path.write_bytes(intact[:-1] + b" ")
        with pytest.raises(UserError, match=rf"{path} .*damaged.*Remove the folder {path.parent}"):
            read_language_models(manifest)
        path.write_bytes(intact)
