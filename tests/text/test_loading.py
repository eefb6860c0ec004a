"""Models load from folders, CXR-BERT without its code, and what cannot be loaded says why."""

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
    model.save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(("make", "variant"), [(models.bert, "original"), (models.roberta, "original"), (models.gpt, "causal")])
def test_a_folder_loads_as_it_was_saved(tmp_path, make, variant):
    model = make(len(TOKENIZER))
    loaded, tokenizer = load_language_model(save(model, tmp_path / "model"), variant=variant)
    assert not loaded.training
    np.testing.assert_allclose(
        pseudo_log_likelihood(loaded, tokenizer, models.SENTENCES, variant=variant),
        pseudo_log_likelihood(model, TOKENIZER, models.SENTENCES, variant=variant),
        atol=1e-5,
    )


def test_cxr_bert_is_plain_bert_and_none_of_its_code_runs(tmp_path):
    """A folder in the manner of BiomedVLP-CXR-BERT: own model type, own code, a projection head, pickled weights."""
    model = models.bert(len(TOKENIZER))
    folder = save(model, tmp_path / "cxr")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "cxr-bert", "architectures": ["CXRBertModel"], "projection_size": 8}
    config["auto_map"] = {"AutoConfig": "configuration_cxrbert.CXRBertConfig", "AutoModel": "modelling_cxrbert.CXRBertModel"}
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("configuration_cxrbert.py", "modelling_cxrbert.py"):
        (folder / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "model.safetensors").unlink()
    weights = model.state_dict() | {"cls_projection_head.dense_to_hidden.weight": torch.zeros(8, 16)}
    torch.save(weights, folder / "pytorch_model.bin")
    loaded, tokenizer = load_language_model(folder)
    assert type(loaded) is transformers.BertForMaskedLM
    assert not (tmp_path / "ran").exists()
    np.testing.assert_allclose(
        pseudo_log_likelihood(loaded, tokenizer, models.SENTENCES),
        pseudo_log_likelihood(model, TOKENIZER, models.SENTENCES),
        atol=1e-5,
    )


def test_an_encoder_without_its_head_is_refused(tmp_path):
    folder = save(models.bert(len(TOKENIZER)).bert, tmp_path / "encoder")
    with pytest.raises(UserError, match=r"lacks \d+ weights .* would be random"):
        load_language_model(folder)


def test_a_folder_that_is_none_is_told(tmp_path):
    with pytest.raises(UserError, match=r"config\.json"):
        load_language_model(tmp_path)
    with pytest.raises(UserError, match=r"\./not/there"):
        load_language_model("./not/there")


def test_other_code_needs_consent(tmp_path):
    folder = save(models.bert(len(TOKENIZER)), tmp_path / "own")
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "own-bert"}
    config["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModelForMaskedLM": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(UserError, match="set trust_remote_code: true"):
        load_language_model(folder)
    assert not (tmp_path / "ran").exists()


def response(status):
    """As much of an answer of the hub as its errors look at."""
    return SimpleNamespace(status_code=status, headers={}, request=SimpleNamespace(url="https://huggingface.co/a/b", headers={}))


@pytest.mark.parametrize(
    "cause",
    [
        lambda e: e.GatedRepoError("of the cause", response=response(403)),
        lambda e: e.RepositoryNotFoundError("of the cause", response=response(401)),
        lambda e: e.LocalEntryNotFoundError("of the cause"),
        lambda e: OSError("of the cause"),
    ],
)
def test_what_the_hub_refuses_is_explained(monkeypatch, cause):
    """With the model, the revision, the hub's own reason, and what to do."""

    def refuse(*arguments, **options):
        raise OSError("wrapped") from cause(huggingface_hub.errors)

    monkeypatch.setattr(transformers.PretrainedConfig, "get_config_dict", refuse)
    with pytest.raises(UserError) as caught:
        load_language_model("a/b", revision="v1")
    for fact in ("a/b", "v1", "wrapped", "of the cause", "https://huggingface.co/a/b", "hf auth login", "hf download a/b"):
        assert fact in str(caught.value)
