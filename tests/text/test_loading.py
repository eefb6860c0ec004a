"""Models load from folders, CXR-BERT without its code, and errors explain why a model cannot be
loaded.
"""

import json
from types import SimpleNamespace

import huggingface_hub.errors
import numpy as np
import pytest
import torch
import transformers

from tests.text import models
from trueneg.errors import UserError
from trueneg.text import pseudo_log_likelihood
from trueneg.text.loading import load_language_model

TOKENIZER = models.tokenizer()


def save(model, folder):
    models.saved(folder, model, TOKENIZER)
    return folder


def assert_same_scores(loaded, tokenizer, model, variant="original"):
    scores = (
        pseudo_log_likelihood(*pair, models.SENTENCES, variant=variant)
        for pair in ((loaded, tokenizer), (model, TOKENIZER))
    )
    np.testing.assert_allclose(*scores, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "variant"),
    [(models.bert, "original"), (models.roberta, "original"), (models.gpt, "causal")],
)
def test_a_saved_model_scores_the_same_after_loading(tmp_path, make, variant):
    model = make(len(TOKENIZER))
    loaded, tokenizer = load_language_model(save(model, tmp_path / "model"), variant=variant)
    assert not loaded.training
    assert_same_scores(loaded, tokenizer, model, variant)


@pytest.mark.parametrize("make", [models.bert, models.roberta])
def test_a_masked_model_does_not_score_as_a_causal_one(tmp_path, make):
    folder = save(make(len(TOKENIZER)), tmp_path / "masked")
    with pytest.raises(UserError, match="is not causal: the prediction of a token depends on"):
        load_language_model(folder, variant="causal")


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_checkpoint_in_half_precision_is_computed_in_float32(tmp_path, kind):
    folder = save(models.bert(len(TOKENIZER)).to(kind), tmp_path / "half")
    loaded, _ = load_language_model(folder)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}


def test_cxr_bert_loads_as_bert_without_running_its_code(tmp_path):
    """The folder is like that of BiomedVLP-CXR-BERT: its own model type and code, a projection
    head, and pickled weights.
    """
    model = models.bert(len(TOKENIZER))
    folder = save(model, tmp_path / "cxr")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "cxr-bert", "architectures": ["CXRBertModel"], "projection_size": 8}
    config["auto_map"] = {
        "AutoConfig": "configuration_cxrbert.CXRBertConfig",
        "AutoModel": "modelling_cxrbert.CXRBertModel",
    }
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("configuration_cxrbert.py", "modelling_cxrbert.py"):
        (folder / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "model.safetensors").unlink()
    weights = model.state_dict() | {
        "cls_projection_head.dense_to_hidden.weight": torch.zeros(8, 16)
    }
    torch.save(weights, folder / "pytorch_model.bin")
    loaded, tokenizer = load_language_model(folder)
    assert type(loaded) is transformers.BertForMaskedLM
    assert not (tmp_path / "ran").exists()
    assert_same_scores(loaded, tokenizer, model)


def test_encoders_without_a_head_are_rejected(tmp_path):
    folder = save(models.bert(len(TOKENIZER)).bert, tmp_path / "encoder")
    with pytest.raises(UserError, match=r"lacks \d+ weights"):
        load_language_model(folder)


def test_folders_without_a_model_are_reported(tmp_path):
    with pytest.raises(UserError, match=r"config\.json"):
        load_language_model(tmp_path)
    with pytest.raises(UserError, match=r"\./not/there"):
        load_language_model("./not/there")


def test_remote_code_runs_only_if_trusted(tmp_path):
    folder = save(models.bert(len(TOKENIZER)), tmp_path / "own")
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "own-bert"}
    config["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModelForMaskedLM": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(UserError, match="set trust_remote_code"):
        load_language_model(folder)
    assert not (tmp_path / "ran").exists()


def response(status):
    """Return the parts of a response of the hub that its errors read."""
    return SimpleNamespace(
        status_code=status,
        headers={},
        request=SimpleNamespace(url="https://huggingface.co/a/b", headers={}),
    )


@pytest.mark.parametrize(
    "cause",
    [
        lambda e: e.GatedRepoError("of the cause", response=response(403)),
        lambda e: e.RepositoryNotFoundError("of the cause", response=response(401)),
        lambda e: e.LocalEntryNotFoundError("of the cause"),
        lambda e: OSError("of the cause"),
    ],
)
def test_errors_of_the_hub_are_explained(monkeypatch, cause):
    """The message contains the model, the revision, the reason and the remedy."""

    def refuse(*arguments, **options):
        raise OSError("wrapped") from cause(huggingface_hub.errors)

    monkeypatch.setattr(transformers.PretrainedConfig, "get_config_dict", refuse)
    with pytest.raises(UserError) as caught:
        load_language_model("a/b", revision="v1")
    for fact in (
        "a/b",
        "v1",
        "wrapped",
        "of the cause",
        "https://huggingface.co/a/b",
        "hf auth login",
        "hf download a/b",
    ):
        assert fact in str(caught.value)
