"""BERT encoders match transformers; freezing, padding, truncation and errors."""

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    BertTokenizer,
    DistilBertConfig,
    DistilBertModel,
)

from trueneg.errors import UserError
from trueneg.models.text_encoders import BertTextEncoder, load_bert, small_bert, tokenise
from trueneg.text.tokenizing import train_tokenizer
from trueneg.training.guides.ema import EmaGuide

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "no",
    "pleural",
    "##s",
    "effusion",
    "heart",
    "is",
    "enlarged",
    ".",
]
SENTENCES = ["No pleural effusion.", "Heart is enlarged", "no effusions"]


@pytest.fixture
def tokenizer():
    return BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)})


@pytest.fixture
def folder(tmp_path, tokenizer):
    """A folder with a saved masked language model and its tokenizer."""
    torch.manual_seed(0)
    settings = {
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    BertForMaskedLM(
        BertConfig(vocab_size=len(WORDS), max_position_embeddings=24, **settings)
    ).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_encoder_and_tokenizer_are_loaded_from_a_masked_language_model(folder):
    bert, tokenizer = load_bert(folder)
    reference = BertForMaskedLM.from_pretrained(folder).eval().bert
    tokens = tokenise(tokenizer, SENTENCES, maximum_tokens=24)
    expected = reference(**tokens).last_hidden_state
    torch.testing.assert_close(BertTextEncoder(bert)(**tokens), expected[:, 0])
    mask = tokens["attention_mask"].bool()
    means = torch.stack([row[own].mean(0) for row, own in zip(expected, mask, strict=True)])
    torch.testing.assert_close(BertTextEncoder(bert, pooling="mean")(**tokens), means)
    maxima = [
        [max(values) for values in zip(*row[own].tolist(), strict=True)]
        for row, own in zip(expected, mask, strict=True)
    ]
    torch.testing.assert_close(BertTextEncoder(bert, pooling="max")(**tokens), torch.tensor(maxima))
    assert not bert.training
    assert BertTextEncoder(bert).dimensions == 16
    assert BertTextEncoder(bert).maximum_tokens == 24


def test_a_checkpoint_in_half_precision_is_computed_in_float32(folder):
    BertModel.from_pretrained(folder, dtype=torch.float16).save_pretrained(folder)
    assert {parameter.dtype for parameter in load_bert(folder)[0].parameters()} == {torch.float32}


def test_the_tokenizer_keeps_its_rules_for_other_scripts(folder):
    texts = ["Выпота нет, лёгкий йод.", "ปอดใสดี"]
    words = train_tokenizer(texts, 300, 24)
    words.save_pretrained(folder)
    expected = tokenise(words, texts, maximum_tokens=24)
    found = tokenise(load_bert(folder)[1], texts, maximum_tokens=24)
    assert found["input_ids"].equal(expected["input_ids"])


def test_weights_saved_by_torch_are_loaded(folder):
    expected = load_bert(folder)[0].state_dict()
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    torch.testing.assert_close(load_bert(str(folder))[0].state_dict(), expected, rtol=0, atol=0)


def test_cxr_bert_is_loaded_as_a_plain_bert_without_its_code(folder):
    # Copies: the file is written again below, and some versions of the libraries map it into
    # memory.
    expected = {name: value.clone() for name, value in load_bert(folder)[0].state_dict().items()}
    settings = json.loads((folder / "config.json").read_text())
    settings |= {
        "model_type": "cxr-bert",
        "auto_map": {"AutoModel": "own.Model", "AutoConfig": "own.Config"},
    }
    settings["projection_size"] = 8
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "own.py").write_text("raise SystemExit('the code of a model was run')")
    weights = load_file(folder / "model.safetensors") | {
        "cls_projection_head.dense_to_hidden.weight": torch.zeros(8, 16)
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    torch.testing.assert_close(load_bert(folder)[0].state_dict(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_padding_does_not_change_vectors(folder, pooling):
    bert, tokenizer = load_bert(folder)
    encoder = BertTextEncoder(bert, pooling)
    together = encoder(**tokenise(tokenizer, SENTENCES, maximum_tokens=24))
    for sentence, vector in zip(SENTENCES, together, strict=True):
        alone = tokenise(tokenizer, [sentence], maximum_tokens=24)
        assert alone["attention_mask"].all()
        torch.testing.assert_close(encoder(**alone)[0], vector, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("frozen", "learning_layers"), [(None, [0, 1, 2]), (0, [0, 1, 2]), (2, [2]), (3, [])]
)
def test_only_unfrozen_layers_get_gradients(folder, frozen, learning_layers):
    bert, tokenizer = load_bert(folder)
    encoder = BertTextEncoder(bert, frozen_layers=frozen).train()
    vectors = encoder(**tokenise(tokenizer, SENTENCES, maximum_tokens=24))
    if frozen == 3:
        assert not vectors.requires_grad
        return
    vectors.square().sum().backward()
    assert all(
        (parameter.grad is not None) == (frozen is None)
        for parameter in bert.embeddings.parameters()
    )
    for number, layer in enumerate(bert.encoder.layer):
        assert all(
            (parameter.grad is not None) == (number in learning_layers)
            for parameter in layer.parameters()
        )


def test_small_bert_is_initialised_from_torchs_generator():
    options = {"vocabulary_size": 30, "hidden": 8, "layers": 2, "heads": 2, "maximum_tokens": 12}
    torch.manual_seed(3)
    bert = small_bert(**options)
    torch.manual_seed(3)
    torch.testing.assert_close(
        small_bert(**options).state_dict(), bert.state_dict(), rtol=0, atol=0
    )
    assert isinstance(bert, BertModel)
    assert bert.pooler is None
    assert BertTextEncoder(bert).maximum_tokens == 12
    assert bert.config.intermediate_size == 32


@torch.no_grad()
def test_a_moving_average_of_constant_weights_does_not_change_vectors(folder):
    encoder = BertTextEncoder(load_bert(folder)[0], "mean")
    guide = EmaGuide({"momentum": 0.9}, SimpleNamespace(network=encoder))
    for _ in range(3):
        guide.after_update()
    tokens = torch.ones(2, 9, dtype=torch.int64)
    torch.testing.assert_close(guide.average(tokens, tokens), encoder(tokens, tokens))


def test_batches_are_padded_to_their_longest_text(tokenizer):
    tokens = tokenise(tokenizer, SENTENCES, maximum_tokens=24)
    assert tokens["input_ids"].tolist() == [
        [2, 5, 6, 8, 12, 3],
        [2, 9, 10, 11, 3, 0],
        [2, 5, 8, 7, 3, 0],
    ]
    assert tokens["attention_mask"].tolist() == [[1] * 6, [1] * 5 + [0], [1] * 5 + [0]]
    assert {value.dtype for value in tokens.values()} == {torch.int64}
    assert list(tokens) == ["input_ids", "attention_mask"]
    assert tokenise(tokenizer, SENTENCES[1:], maximum_tokens=24)["input_ids"].shape == (2, 5)


def test_long_texts_raise_an_error_or_are_truncated(tokenizer):
    with pytest.raises(UserError, match="sentence 1 has 12 tokens; expected at most 6"):
        tokenise(tokenizer, ["no", "no " * 10, "heart"], maximum_tokens=6)
    cut = tokenise(tokenizer, ["no", "no " * 10], maximum_tokens=6, truncate=True)
    assert cut["input_ids"].tolist() == [[2, 5, 3, 0, 0, 0], [2, 5, 5, 5, 5, 3]]


def test_too_many_frozen_layers_raise_an_error():
    with pytest.raises(ValueError, match="frozen_layers is 3; expected 0 to 2"):
        BertTextEncoder(small_bert(9, hidden=8, heads=2), frozen_layers=3)


def test_a_model_missing_from_the_cache_raises_an_error():
    with pytest.raises(
        UserError,
        match=r"nobody/no-such-bert: .*cached files.* Use a hub name or a complete folder",
    ):
        load_bert("nobody/no-such-bert", offline=True)


def test_empty_or_damaged_folders_raise_an_error(tmp_path, folder):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match=r"empty: .*a complete and readable BERT"):
        load_bert(empty)
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="a complete and readable BERT"):
        load_bert(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"a complete and readable BERT .*model.safetensors"):
        load_bert(folder)


def test_missing_tensors_are_named(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["bert.encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        UserError, match=r"lacks 1 BERT tensors, such as encoder.layer.1.output.dense.weight"
    ):
        load_bert(folder)


def test_other_architectures_raise_an_error(folder):
    DistilBertModel(
        DistilBertConfig(vocab_size=9, dim=8, n_layers=1, n_heads=2, hidden_dim=8)
    ).save_pretrained(folder)
    with pytest.raises(UserError, match=r"is a 'distilbert' model; expected a BERT"):
        load_bert(folder)
    (folder / "config.json").write_text(
        json.dumps({"model_type": "mystery", "auto_map": {"AutoModel": "own.Model"}})
    )
    with pytest.raises(
        UserError, match=r"is a 'mystery' model .*trust_remote_code.* expected a BERT"
    ):
        load_bert(folder)


class RefusingHub(BaseHTTPRequestHandler):
    """Responds like the hub to requests for gated and unknown models and unknown revisions."""

    ANSWERS: ClassVar = {
        "gated": (403, "GatedRepo"),
        "unknown": (401, "RepoNotFound"),
        "revised": (404, "RevisionNotFound"),
    }

    def do_HEAD(self):
        answers = [answer for name, answer in self.ANSWERS.items() if f"/{name}" in self.path]
        status, code = answers[0] if answers else (404, "EntryNotFound")
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *arguments):
        pass


def test_hub_errors_are_reported_with_a_remedy(tmp_path):
    """A separate process queries a local hub, because the address is read when the library is
    imported.
    """
    script = (
        "from trueneg.errors import UserError\n"
        "from trueneg.models.text_encoders import load_bert\n"
        "for name in ('gated', 'unknown', 'revised'):\n"
        "    try: load_bert(f'some/{name}')\n"
        "    except UserError as error: print(error)\n"
    )
    hub = HTTPServer(("127.0.0.1", 0), RefusingHub)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    home = {
        "HF_HOME": str(tmp_path),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "HF_HUB_OFFLINE": "0",
    }
    environment = {**os.environ, **home, "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}"}
    try:
        asked = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        hub.shutdown()
        hub.server_close()
    gated, unknown, revised = asked.stdout.splitlines()
    assert re.search(r"some/gated: .*gated repo.*Make sure to have access", gated)
    assert re.search(r"some/unknown: .*not a valid model identifier", unknown)
    assert re.search(r"some/revised: .*not a valid git identifier", revised)


def test_loading_prints_nothing(folder, capfd):
    load_bert(folder)
    written = capfd.readouterr()
    assert written.out == written.err == ""
