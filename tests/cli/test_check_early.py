"""What a job would refuse before its first update is refused by ``trueneg check``, in the job's
words.
"""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml
from safetensors.torch import save_file
from torchvision.models import resnet18
from transformers import BertConfig, BertForMaskedLM, RobertaConfig, RobertaModel

from tests.data.official_layouts import write_image_table
from tests.studies import first_run, tiny_study, tiny_words, tiny_world
from trueneg.cli.estimates import NO_DATA, UNMEASURED
from trueneg.cli.main import main
from trueneg.cli.planned_networks import check_language_models
from trueneg.config.reading import load_configuration
from trueneg.errors import UserError
from trueneg.io.downloads import announced
from trueneg.models.text_encoders import load_bert
from trueneg.planning.updates import planned_updates
from trueneg.text.loading import load_language_model
from trueneg.text.tokenizing import train_tokenizer
from trueneg.training.networks import build_networks
from trueneg.training.sides.base import TrainedOn


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path / "torch"))


def checked(capsys, *options, **studies):
    """Return the exit code, the output and the errors of a check."""
    Path("study.yaml").write_text(yaml.safe_dump(studies))
    code = main(["check", "study.yaml", *options])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def bert(folder, hidden=16, heads=2, **options):
    """Write a small masked BERT with its tokenizer."""
    tokenizer = train_tokenizer(["no effusion"], 200, 32)
    shape = {
        "hidden_size": hidden,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "intermediate_size": 32,
    }
    BertForMaskedLM(
        BertConfig(vocab_size=len(tokenizer), max_position_embeddings=32, **shape)
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Path(folder, "vocab.txt").write_text(
        "\n".join(sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get))
    )
    return str(folder)


def refused_by_job(studies):
    """Return the sentence with which the training job refuses the networks of a study."""
    run = first_run("world", studies, "CL")
    with pytest.raises(UserError) as refused:
        build_networks(run.settings, TrainedOn(["No effusion."], 1, ([0.0], [1.0])))
    return str(refused.value)


def spoil(kind, folder):
    """Damage a BERT's folder in one way."""
    weights = Path(folder, "model.safetensors")
    if kind == "roberta":
        RobertaModel(
            RobertaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
        ).save_pretrained(folder)
    elif kind == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif kind == "without weights":
        weights.unlink()
    elif kind == "other shapes":
        config = json.loads(Path(folder, "config.json").read_text())
        Path(folder, "config.json").write_text(json.dumps(config | {"hidden_size": 8}))
    else:
        Path(folder, "config.json").unlink()


KINDS = ["roberta", "truncated", "without weights", "other shapes", "without config"]


@pytest.mark.parametrize("kind", [*KINDS, "too many frozen layers", "no such folder"])
def test_unusable_text_encoders_are_refused_as_by_the_job(kind, tmp_path, capsys):
    folder, encoder = bert(tmp_path / "bert"), {}
    if kind == "too many frozen layers":
        encoder = {"frozen_layers": 3}
    elif kind == "no such folder":
        folder = "./models/none/bert"
    else:
        spoil(kind, folder)
    text = {"name": "pretrained", "model": folder, "offline": True, **encoder}
    studies = {"words": tiny_words(), "world": tiny_world(text_encoder=text)}
    code, _, error = checked(capsys, **studies)
    assert code == 1
    assert refused_by_job(studies) in error


@pytest.mark.parametrize("kind", ["missing", "of another network", "truncated", "not weights"])
def test_unusable_weights_of_an_image_encoder_are_refused_as_by_the_job(kind, tmp_path, capsys):
    path = tmp_path / "weights.safetensors"
    state = {
        name: value
        for name, value in resnet18().state_dict().items()
        if kind != "of another network" or "layer4" not in name
    }
    save_file(state, path)
    if kind == "missing":
        path.unlink()
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:-1000])
    elif kind == "not weights":
        path.write_text("nothing")
    studies = {
        "words": tiny_words(),
        "world": tiny_world(encoder={"name": "resnet18", "weights": str(path)}),
    }
    code, _, error = checked(capsys, **studies)
    assert code == 1
    assert refused_by_job(studies) in error


def test_downloads_are_announced_without_using_the_network(capsys, monkeypatch):
    """Neither torchvision nor the hub can be reached if no socket can be opened."""
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("connects"))
    text = {"name": "pretrained", "model": "nobody/no-bert"}
    world = tiny_world(encoder={"name": "resnet18", "weights": "IMAGENET1K_V1"}, text_encoder=text)
    words = tiny_words(language_models={"BERT": {"model": "somebody/a-model", "device": "cpu"}})
    code, output, error = checked(capsys, words=words, world=world)
    assert code == 0
    assert "Downloading" not in error
    lines = [line for line in output.splitlines() if line.startswith("  DOWNLOAD")]
    for model in ("resnet18 IMAGENET1K_V1", "nobody/no-bert", "somebody/a-model"):
        assert sum(model in line for line in lines) == 1


def test_no_download_is_announced_that_the_job_will_not_start(monkeypatch):
    lines = []
    with announced(lines):
        load_bert("nobody/no-bert")
    (line,) = lines
    assert line.startswith("DOWNLOAD nobody/no-bert")
    with pytest.raises(UserError, match="nobody/no-bert"), announced(lines, "nobody/no-bert"):
        load_bert("nobody/no-bert", offline=True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="nobody/no-bert"), announced(lines):
        load_bert("nobody/no-bert")
    assert len(lines) == 1


def test_an_unknown_clip_model_is_refused_with_the_nearest_names(capsys):
    pytest.importorskip("open_clip")
    clip = {"name": "open_clip", "model": "RN50-none", "weights": "openai"}
    studies = {"words": tiny_words(), "world": tiny_world(encoder=clip)}
    code, _, error = checked(capsys, **studies)
    assert code == 1
    assert "RN50-none" in error
    assert "RN50-quickgelu" in error
    assert refused_by_job(studies) in error


@pytest.mark.parametrize("kind", KINDS)
def test_unusable_language_models_are_refused_as_by_the_job(kind, tmp_path, capsys):
    folder = bert(tmp_path / "lm")
    spoil(kind, folder)
    words = tiny_words(language_models={"BERT": {"model": folder, "device": "cpu"}})
    with pytest.raises(UserError) as refused:
        load_language_model(folder)
    code, _, error = checked(capsys, words=words)
    assert code == 1
    assert str(refused.value) in error


def test_batches_larger_than_the_training_images_are_refused(capsys):
    """Digits has 1,797 images, of which a quarter and then a tenth are held out."""
    dataset, training = (
        {"source": "digits", "test": 0.25, "validation": 0.1},
        {"epochs": 2, "batch_size": 1600, "device": "cpu"},
    )
    code, _, error = checked(capsys, tiny=tiny_study(dataset=dataset, training=training))
    assert code == 1
    (line,) = error.splitlines()
    assert "training.batch_size is 1600, but the subset of seed 0 contains 1211" in line
    with pytest.raises(UserError) as refused:
        planned_updates(training | {"updates": None}, 1211, 0)
    assert str(refused.value) in line


def own_pairs(texts=None, **training):
    """Write a table of images, and return studies on it."""
    write_image_table(Path("images"), Path("table.csv"))
    reports = {
        "source": "image_table",
        "path": "images",
        "table": "table.csv",
        "patient_column": "patient",
    }
    words = tiny_words(reports=reports | {"split_sentences": False})
    dataset = {"source": "image_table", "text": "words", "resolution": 32}
    section = tiny_world()["training"] | training
    objectives = {
        "CL": {"name": "cl"},
        "DCL-LM": {"name": "dcl", "class_probability": "language model"},
    }
    evaluation = {"evaluation": {"retrieval": {"ks": [1]}}}
    primary = {
        "task": "retrieval sentence",
        "metric": "R",
        "labels": "report",
        "direction": "text to image",
        "k": 1,
    }
    primary |= {"treatment": "DCL-LM", "baseline": "CL"}
    world = tiny_world(
        dataset=dataset, training=section, objectives=objectives, primary=primary, **evaluation
    )
    world.pop("figures")
    return {"words": words, "world": world | (texts or {})}


@pytest.mark.parametrize(("key", "value"), [("batch_size", 4000), ("warmup_updates", 900)])
def test_the_schedule_is_checked_against_the_rows_of_a_table_that_was_not_read_yet(
    key, value, capsys
):
    studies = own_pairs(**{key: value})
    run = first_run("world", studies, "CL")
    code, _, error = checked(capsys, **studies)
    assert code == 1
    assert error.count(f"training.{key} is {value}") == 1
    count = int(re.search(r"has (\d+) pairs", error)[1]) if key == "batch_size" else 56
    with pytest.raises(UserError) as refused:
        planned_updates(run.settings["training"], count, run.seed)
    assert str(refused.value) in error


def test_long_texts_are_refused_before_anything_is_computed(capsys):
    text = tiny_world()["text_encoder"] | {"maximum_tokens": 3}
    code, _, error = checked(capsys, **own_pairs({"text_encoder": text}))
    assert code == 1
    assert "tokens; expected at most 3. Set text_encoder.truncate" in error


def test_long_captions_are_named_by_the_row_of_the_users_table(capsys):
    studies = own_pairs({"text_encoder": tiny_world()["text_encoder"] | {"maximum_tokens": 40}})
    table = pd.read_csv("table.csv")
    table.loc[12, "text"] = "no effusion " * 30
    table.to_csv("table.csv", index=False)
    code, _, error = checked(capsys, **studies)
    assert code == 1
    assert "tokens; expected at most 40" in error
    assert "table.csv, line 14." in error


def test_texts_longer_than_a_language_model_takes_are_named_by_row(tmp_path):
    model = bert(tmp_path / "lm")
    texts = ["no effusion here", "no effusion " * 40, "a mass in the lung", "nothing"]
    pd.DataFrame({"text": texts}).to_csv("texts.csv", index=False)
    study = tiny_words(
        reports={"source": "text_table", "path": "texts.csv"},
        language_models={"BERT": {"model": model, "device": "cpu", "train": False}},
    )
    (validated,) = load_configuration({"words": study}, "study.yaml").studies.values()
    sentences = pd.DataFrame({"patient": list("abcd"), "sentence": texts})
    (line,) = check_language_models(validated, sentences, ["BERT"])
    assert "1 of 4 texts have more than 32 tokens" in line
    assert line.endswith("texts.csv, line 3.")


def test_runs_whose_kind_never_finished_are_of_unknown_duration(capsys):
    code, output, _ = checked(capsys, **own_pairs())
    assert code == 0
    (line,) = [line for line in output.splitlines() if "runs to train" in line]
    assert UNMEASURED in line
    (line,) = [line for line in output.splitlines() if "images opened" in line]
    assert "--images" in line


def test_the_duration_is_unknown_without_a_table(capsys):
    studies = own_pairs()
    Path("table.csv").unlink()
    code, output, _ = checked(capsys, **studies)
    assert code == 0
    assert "MISSING reports.table, table.csv" in output
    assert f"4 of unknown duration ({NO_DATA})" in output
