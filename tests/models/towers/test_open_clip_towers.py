"""The towers of an open_clip model match open_clip itself: vectors, regions, tokens and blocks."""

import copy
import json
import runpy
import sys
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.clips import clip_config, tiny_clip, write_clip
from torch import nn

from trueneg.errors import UserError
from trueneg.models.towers.open_clip_towers import OpenClipImages, OpenClipTexts
from trueneg.models.towers.tower import train_only
from trueneg.training.export import write_encoder
from trueneg.training.guides.ema import EmaGuide

open_clip = pytest.importorskip(
    "open_clip", reason="compares with open_clip's own models (the extra towers)"
)

TEXTS = ["No pleural effusion.", "A &amp; B, É, 12:30 ___", "Clear", " two  spaces, the left lobe "]
WORDS = [
    "<pad>",
    "</s>",
    "<unk>",
    "no",
    "pleural",
    "effusion",
    "a",
    "b",
    "clear",
    "two",
    "spaces",
    "the",
    "left",
    "lobe",
]
PREPROCESSING = {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}
CLIP_TEXT = clip_config()["text_cfg"]
VIT = {"image_size": 32, "patch_size": 8, "width": 64, "layers": 2, "head_width": 32}
SIGLIP_TEXT = {
    "context_length": 16,
    "vocab_size": len(WORDS),
    "width": 96,
    "heads": 2,
    "layers": 2,
    "no_causal_mask": True,
}
SIGLIP_TEXT |= {
    "proj_bias": True,
    "pool_type": "last",
    "hf_tokenizer_name": "nobody/tiny",
    "tokenizer_kwargs": {"clean": "canonicalize"},
}
COCA_VISION = VIT | {
    "attentional_pool": True,
    "attn_pooler_heads": 2,
    "attn_pooler_queries": 5,
    "output_tokens": True,
}
COCA_TEXT = CLIP_TEXT | {"context_length": 23, "embed_cls": True, "output_tokens": True}
HF_TEXT = {
    "hf_model_name": "nobody/tiny",
    "hf_tokenizer_name": "nobody/tiny",
    "hf_proj_type": "mlp",
    "context_length": 16,
}
CONFIGS = {
    "resnet": clip_config(),
    "vit": {"embed_dim": 24, "vision_cfg": VIT, "text_cfg": CLIP_TEXT},
    "vit_average": {
        "embed_dim": 24,
        "vision_cfg": VIT | {"pool_type": "avg", "final_ln_after_pool": True},
        "text_cfg": CLIP_TEXT,
    },
    "siglip": {
        "embed_dim": 96,
        "init_logit_bias": -10,
        "custom_text": True,
        "vision_cfg": {
            "image_size": 160,
            "timm_model_name": "test_vit3",
            "timm_pool": "map",
            "timm_proj": "none",
        },
        "text_cfg": SIGLIP_TEXT,
    },
    "convnext": {
        "embed_dim": 24,
        "vision_cfg": {
            "image_size": 64,
            "timm_model_name": "test_convnext",
            "timm_pool": "",
            "timm_proj": "mlp",
        },
        "text_cfg": CLIP_TEXT,
    },
    "coca": {
        "embed_dim": 24,
        "custom_text": True,
        "vision_cfg": COCA_VISION,
        "text_cfg": COCA_TEXT,
        "multimodal_cfg": {
            "context_length": 24,
            "vocab_size": 49408,
            "width": 16,
            "heads": 2,
            "layers": 1,
        },
    },
    "hugging_face": {"embed_dim": 24, "vision_cfg": VIT, "text_cfg": HF_TEXT},
}
WITH_REGIONS = {
    "resnet": (2, 2),
    "vit": (4, 4),
    "vit_average": (4, 4),
    "siglip": (10, 10),
    "convnext": (2, 2),
    "hugging_face": (4, 4),
}


def write_hugging_face(folder):
    """Write a tokenizer of whole words, and the configuration of a tiny RoBERTa."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, RobertaConfig

    tokenizer = Tokenizer(
        models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>")
    )
    tokenizer.normalizer, tokenizer.pre_tokenizer = (
        normalizers.Lowercase(),
        pre_tokenizers.Whitespace(),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
    }
    RobertaConfig(
        vocab_size=len(WORDS), max_position_embeddings=32, pad_token_id=0, **sizes
    ).save_pretrained(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return open_clip's own model, with weights that would expose mistakes, and the settings of
    its files, by name.
    """
    made = {}
    for name, config in CONFIGS.items():
        folder, config = tmp_path_factory.mktemp(name), copy.deepcopy(config)
        if "hf_tokenizer_name" in config["text_cfg"]:
            write_hugging_face(folder)
        path = folder / "open_clip_config.json"
        local = copy.deepcopy(config)
        if name == "hugging_face":
            local["text_cfg"]["hf_model_name"] = str(folder)
        path.write_text(json.dumps({"model_cfg": local, "preprocess_cfg": PREPROCESSING}))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = open_clip.create_model(f"local-dir:{folder}", pretrained_text=False).eval()
            for key, tensor in network.state_dict().items():
                if tensor.is_floating_point() and not key.startswith("logit"):
                    tensor.add_(0.1 * torch.randn(tensor.shape))
                if key.endswith("running_var"):
                    tensor.abs_()
        save_file(
            {key: value.contiguous() for key, value in network.state_dict().items()},
            folder / "open_clip_model.safetensors",
        )
        path.write_text(json.dumps({"model_cfg": config, "preprocess_cfg": PREPROCESSING}))
        files = {
            "name": "open_clip",
            "train": "all",
            "model": str(path),
            "weights": str(folder / "open_clip_model.safetensors"),
        }
        made[name] = SimpleNamespace(
            network=network,
            folder=folder,
            files=files,
            images=files | {"resolution": None, "views": None},
        )
        made[name].texts = files | {"truncate": False, "maximum_tokens": None}
    return made


def pixels(size, count=2, channels=3):
    return torch.rand(count, channels, size, size, generator=torch.Generator().manual_seed(0))


def normalised(images, mean=PREPROCESSING["mean"], std=PREPROCESSING["std"]):
    return (images - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)


def encode_image(network, images):
    return network.encode_image(images, normalize=False)


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("name", CONFIGS)
def test_image_vectors_match_open_clip(models, name):
    model, tower = models[name], OpenClipImages.build(models[name].images)
    images = pixels(CONFIGS[name]["vision_cfg"]["image_size"])
    pooled, regions = tower(images)
    close(pooled, encode_image(model.network, normalised(images)))
    close(
        tower(images[:, :1]).pooled,
        encode_image(model.network, normalised(images[:, :1].expand(-1, 3, -1, -1))),
    )
    assert (tower.dimensions, tower.training) == (pooled.shape[1], False)
    if name in WITH_REGIONS:
        assert tower.grid == WITH_REGIONS[name]
        assert regions.shape == (2, tower.dimensions, *WITH_REGIONS[name])
    else:
        assert (tower.grid, regions) == (None, None)
    assert tower.logit_scale == pytest.approx(model.network.logit_scale.exp().item())
    assert not any("text" in key or "token_embedding" in key for key in tower.state_dict())


@torch.no_grad()
@pytest.mark.parametrize("name", CONFIGS)
def test_text_vectors_and_tokens_match_open_clip(models, name):
    model, tower = models[name], OpenClipTexts.build(models[name].texts)
    tokenizer = open_clip.get_tokenizer(f"local-dir:{model.folder}")
    expected = tokenizer(TEXTS)
    tokens = tower.prepare(TEXTS)["tokens"]
    assert torch.equal(tokens, expected[:, : tokens.shape[1]])
    padding = expected[:, tokens.shape[1] :]
    assert (padding == 0).all()
    close(tower(tower.prepare(TEXTS)).pooled, model.network.encode_text(expected, normalize=False))
    assert tower.lengths(TEXTS) == (expected != 0).sum(1).tolist()
    assert tower.maximum_tokens == CONFIGS[name]["text_cfg"]["context_length"]
    assert tower.dimensions == CONFIGS[name]["embed_dim"]
    assert not any("visual" in key or "trunk" in key for key in tower.state_dict())


@torch.no_grad()
def test_a_region_of_a_resnet_is_attention_pooling_of_its_cell_alone(models):
    """With a single token, attention has weight 1: open_clip's pooling of that cell without
    positions.
    """
    network = copy.deepcopy(models["resnet"].network)
    images = pixels(64, count=1)
    regions = OpenClipImages.build(models["resnet"].images)(images).regions
    features = network.visual.forward_intermediates(normalised(images), indices=1)[
        "image_intermediates"
    ][0]
    network.visual.attnpool.positional_embedding = torch.nn.Parameter(torch.zeros(2, 128))
    for row in range(2):
        for column in range(2):
            cell = features[:, :, row : row + 1, column : column + 1]  # its mean is itself
            close(regions[:, :, row, column], network.visual.attnpool(cell))


@torch.no_grad()
@pytest.mark.parametrize("name", ["vit", "vit_average"])
def test_regions_of_a_vit_are_projected_patch_tokens(models, name):
    visual, tower = (
        copy.deepcopy(models[name].network.visual),
        OpenClipImages.build(models[name].images),
    )
    visual.output_tokens = True
    _, tokens = visual(normalised(pixels(32)))
    if name == "vit_average":  # its norm follows the average
        tokens = visual.ln_post(tokens)
    close(tower(pixels(32)).regions.flatten(2).mT, tokens @ visual.proj)


@torch.no_grad()
def test_regions_of_a_timm_trunk_are_projected(models):
    visual, tower = (
        models["convnext"].network.visual,
        OpenClipImages.build(models["convnext"].images),
    )
    features = visual.trunk.forward_features(normalised(pixels(64)))
    cell = visual.head(visual.trunk.forward_head(features[:, :, :1, 1:]))
    close(tower(pixels(64)).regions[:, :, 0, 1], cell)


@torch.no_grad()
@pytest.mark.parametrize(("name", "resolution"), [("vit", 48), ("siglip", 96), ("convnext", 96)])
def test_another_resolution_interpolates_positions_as_open_clip_does(models, name, resolution):
    model, settings = models[name], models[name].images | {"resolution": resolution}
    tower = OpenClipImages.build(settings)
    other = open_clip.create_model(f"local-dir:{model.folder}", force_image_size=resolution).eval()
    images = pixels(resolution)
    close(tower(images).pooled, encode_image(other, normalised(images)))
    again = OpenClipImages.restore(settings, tower.files())
    again.load_state_dict(tower.state_dict())
    assert torch.equal(again(images).pooled, tower(images).pooled)


@torch.no_grad()
@pytest.mark.parametrize("name", CONFIGS)
def test_restored_towers_give_the_same_vectors_without_files_or_hub(models, name):
    gone = {"model": "gone.json", "weights": "gone.pt"}
    images, texts = (
        OpenClipImages.build(models[name].images),
        OpenClipTexts.build(models[name].texts),
    )
    images_again = OpenClipImages.restore(models[name].images | gone, images.files())
    images_again.load_state_dict(images.state_dict())
    pictures = pixels(CONFIGS[name]["vision_cfg"]["image_size"])
    assert torch.equal(images_again(pictures).pooled, images(pictures).pooled)
    texts_again = OpenClipTexts.restore(models[name].texts | gone, texts.files())
    texts_again.load_state_dict(texts.state_dict())
    assert torch.equal(
        texts_again(texts_again.prepare(TEXTS)).pooled, texts(texts.prepare(TEXTS)).pooled
    )
    assert texts_again.files().keys() == texts.files().keys()


@torch.no_grad()
@pytest.mark.parametrize("kind", ["images", "images of another size", "texts", "short texts"])
@pytest.mark.parametrize("name", CONFIGS)
def test_exported_towers_give_the_same_vectors_without_files_or_hub(models, name, kind, tmp_path):
    larger, settings = (
        2 * CONFIGS[name]["vision_cfg"]["image_size"],
        models[name].texts | {"truncate": True},
    )
    if "images" in kind:
        changes = {"resolution": larger, "weights": "none"} if kind != "images" else {}
        tower = OpenClipImages.build(models[name].images | changes)
        augmentation, inputs = SimpleNamespace(), pixels(tower.size[0])
        expected = tower(inputs).pooled
    else:
        changes = {"maximum_tokens": 8} if kind != "texts" else {}
        tower, augmentation, inputs = OpenClipTexts.build(settings | changes), None, TEXTS
        expected = tower(tower.prepare(TEXTS)).pooled
    write_encoder(tower, nn.Identity(), augmentation, {}, tmp_path / "out")
    close(runpy.run_path(str(tmp_path / "out" / "load.py"))["load"]()(inputs), expected)


@pytest.mark.parametrize(
    ("name", "image_blocks", "text_blocks"),
    # Embeddings and layers of a transformer, or timm's stem and blocks.
    [("vit", 3, 3), ("siglip", 10, 3), ("resnet", 0, 3), ("hugging_face", 3, 4)],
)
def test_the_last_blocks_are_trained_with_what_follows_them(
    models, name, image_blocks, text_blocks
):
    for kind, settings, count in [
        (OpenClipImages, models[name].images, image_blocks),
        (OpenClipTexts, models[name].texts, text_blocks),
    ]:
        tower = kind.build(settings)
        assert len(tower.blocks()) == count
        for last in range(1, count + 1):
            tower.network.requires_grad_(True)
            train_only(tower, {"last": last}, "encoder")
            trained = {
                key
                for key, parameter in tower.network.named_parameters()
                if parameter.requires_grad
            }
            tower.network.requires_grad_(True)
            # open_clip counts a projection or attention pooling as a group, but not that of a
            # Hugging Face network.
            tower.network.lock(last + (not hasattr(tower.network, "config")))
            assert trained == {
                key
                for key, parameter in tower.network.named_parameters()
                if parameter.requires_grad
            }


@torch.no_grad()
def test_long_texts_are_truncated(models):
    long = "the left lobe " * 30
    for name in ("vit", "siglip"):
        tower = OpenClipTexts.build(models[name].texts)
        tokenizer = open_clip.get_tokenizer(f"local-dir:{models[name].folder}")
        assert torch.equal(tower.prepare([long])["tokens"], tokenizer([long]))
        assert tower.lengths([long, "clear"]) == ([92, 3] if name == "vit" else [91, 2])


@torch.no_grad()
def test_maximum_tokens_shortens_texts(models):
    tower = OpenClipTexts.build(models["vit"].texts | {"maximum_tokens": 5, "truncate": True})
    tokens = open_clip.get_tokenizer(f"local-dir:{models['vit'].folder}")(TEXTS, context_length=5)
    padded = torch.nn.functional.pad(tokens, (0, 19))
    close(tower(tower.prepare(TEXTS)).pooled, models["vit"].network.encode_text(padded))
    with pytest.raises(UserError, match=r"maximum_tokens is 25; expected at most 24"):
        OpenClipTexts.build(models["vit"].texts | {"maximum_tokens": 25})


@torch.no_grad()
@pytest.mark.parametrize("name", ["vit", "coca", "hugging_face"])
def test_a_moving_average_of_the_tower_stays_finite(models, name):
    tower = OpenClipTexts.build(models[name].texts)
    guide = EmaGuide({"momentum": 0.9}, SimpleNamespace(network=tower))
    for texts in (TEXTS, TEXTS[:1], TEXTS):
        tower(tower.prepare(texts))
        guide.after_update()
    average = guide.average.module
    close(average(average.prepare(TEXTS)).pooled, tower(tower.prepare(TEXTS)).pooled)


@pytest.mark.parametrize("name", ["resnet", "vit", "siglip", "convnext"])
def test_gradients_reach_every_parameter(models, name):
    images, texts = (
        OpenClipImages.build(models[name].images).train(),
        OpenClipTexts.build(models[name].texts).train(),
    )
    pooled, regions = images(pixels(CONFIGS[name]["vision_cfg"]["image_size"]))
    (
        pooled.sum() + regions.square().sum() + texts(texts.prepare(TEXTS)).pooled.square().sum()
    ).backward()
    for tower in (images, texts):
        assert [key for key, parameter in tower.named_parameters() if parameter.grad is None] == []


def test_without_weights_the_seed_decides(models):
    towers = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        towers.append(OpenClipImages.build(models["vit"].images | {"weights": "none"}))
    values = [tower.network.proj for tower in towers]
    assert torch.equal(values[0], values[1])
    assert not torch.equal(values[0], values[2])


@pytest.mark.parametrize("stated_by", ["the weights", "the network"])
def test_the_activation_is_that_of_the_published_weights(tmp_path, monkeypatch, stated_by):
    """Written by open_clip itself, because the published weights cannot be downloaded."""
    config = CONFIGS["resnet"]
    if stated_by == "the network":
        config = config | {"quick_gelu": True}
        monkeypatch.delitem(open_clip.get_pretrained_cfg("RN50", "openai"), "quick_gelu")
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "RN50", config)
    torch.save(open_clip.create_model("RN50").state_dict(), tmp_path / "weights.pt")
    monkeypatch.setattr(open_clip, "download_pretrained", lambda tag: str(tmp_path / "weights.pt"))
    tower = OpenClipTexts.build(
        {"model": "RN50", "weights": "openai", "truncate": False, "maximum_tokens": None}
    )
    assert type(tower.network.transformer.resblocks[0].mlp.gelu).__name__ == "QuickGELU"


def test_the_class_embedding_of_a_coca_is_part_of_the_stem(models):
    tower = OpenClipTexts.build(models["coca"].texts)
    train_only(tower, {"last": 1}, "text_encoder")
    trained = {key for key, value in tower.network.named_parameters() if value.requires_grad}
    assert "cls_emb" not in trained
    assert "text_projection" in trained


def test_a_file_whose_activation_is_unknown_is_reported(tmp_path, monkeypatch, caplog):
    """Only where open_clip has the same network with the other activation."""
    for name in ("RN50", "RN50-quickgelu"):
        config = CONFIGS["resnet"] | {"quick_gelu": "quickgelu" in name}
        monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, name, config)
    torch.save(tiny_clip().state_dict(), tmp_path / "openai.pt")
    settings = {"weights": str(tmp_path / "openai.pt"), "truncate": False, "maximum_tokens": None}
    vectors = {}
    for name in ("RN50-quickgelu", "RN50"):
        assert caplog.messages == []
        tower = OpenClipTexts.build(settings | {"model": name})
        vectors[name] = tower(tower.prepare(["no effusion"])).pooled
    assert not vectors["RN50"].allclose(vectors["RN50-quickgelu"])
    (message,) = caplog.messages
    assert all(fact in message for fact in ("openai.pt", "RN50-quickgelu", "GELU"))
    caplog.clear()
    OpenClipTexts.build(settings | {"model": "RN50", "weights": "none"})
    assert caplog.messages == []


def test_a_file_of_a_library_model_is_normalised_as_its_published_weights():
    from trueneg.models.towers.open_clip_towers import _configuration

    assert _configuration("ViT-B-16-SigLIP")[0]["preprocess_cfg"]["mean"] == (0.5, 0.5, 0.5)
    assert _configuration("RN50")[0]["preprocess_cfg"]["mean"] == open_clip.OPENAI_DATASET_MEAN


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"model": "ViT-B32"}, ("ViT-B32 is not a model of open_clip", "ViT-B-32")),
        (
            {"model": "nowhere.json"},
            ("nowhere.json: does not exist", "JSON configuration of open_clip"),
        ),
        ({"model": __file__.replace(".py", ".json")}, ("does not exist",)),
        (
            {"model": "RN50-quickgelu", "weights": "openia"},
            ("openia does not exist", "openai", "yfcc15m"),
        ),
        ({"weights": "nowhere.pt"}, ("nowhere.pt does not exist", "none for this model")),
        ({"weights": __file__}, (__file__, "complete state dict")),
        ({"resolution": 7}, ("open_clip_config.json", "output (H: 0, W: 0)")),
    ],
)
def test_unusable_models_and_weights_raise_an_error(models, changes, facts):
    with pytest.raises(UserError) as refused:
        OpenClipImages.build(models["vit"].images | changes)
    for fact in facts:
        assert fact in str(refused.value)


def test_the_error_names_tensors_that_do_not_fit(models, tmp_path):
    state = load_file(models["vit"].files["weights"])
    state["extra"], state["visual.proj"] = torch.zeros(1), torch.zeros(3)
    save_file(state, tmp_path / "other.safetensors")
    with pytest.raises(UserError) as refused:
        OpenClipImages.build(
            models["vit"].images | {"weights": str(tmp_path / "other.safetensors")}
        )
    for fact in ("other.safetensors", '"extra"', "visual.proj"):
        assert fact in str(refused.value)


def test_an_incomplete_configuration_is_refused(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps({"embed_dim": 3, "vision_cfg": VIT}))
    with pytest.raises(
        UserError, match=r"model\.json: cannot be read as a model that open_clip builds .*text_cfg"
    ):
        OpenClipImages.build(
            {
                "model": str(tmp_path / "model.json"),
                "weights": str(tmp_path / "model.json"),
                "resolution": None,
            }
        )


def test_a_model_with_its_own_code_is_refused(models, tmp_path):
    """The folder's configuration names a module, and its tokenizer's settings allow to run one."""
    write_hugging_face(tmp_path)
    (tmp_path / "own.py").write_text("raise SystemExit('custom code ran')")
    config = {
        "model_type": "unheard_of",
        "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Model"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.json").write_text(json.dumps(CONFIGS["hugging_face"]))
    settings = models["vit"].texts | {"model": str(tmp_path / "model.json"), "weights": "none"}
    with pytest.raises(
        UserError,
        match=r"model\.json: cannot be read as a model that open_clip builds without custom code",
    ):
        OpenClipTexts.build(settings)
    described = json.loads((tmp_path / "tokenizer_config.json").read_text())
    described |= {
        "tokenizer_class": "OwnTokenizer",
        "auto_map": {"AutoTokenizer": ["own.OwnTokenizer", None]},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(described))
    text = SIGLIP_TEXT | {"tokenizer_kwargs": {"trust_remote_code": True}}
    (tmp_path / "model.json").write_text(json.dumps(CONFIGS["siglip"] | {"text_cfg": text}))
    with pytest.raises(
        UserError,
        match=(
            r"model\.json: cannot be read as a tokenizer that transformers loads without custom"
            r" code"
        ),
    ):
        OpenClipTexts.build(settings)


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        (
            {"model": "RN50-quickgelu", "weights": "openai"},
            r"RN50-quickgelu openai: cannot be downloaded from timm/resnet50_clip.openai",
        ),
        (
            {"model": "ViT-B-16-SigLIP", "weights": "none"},
            r"the tokenizer timm/ViT-B-16-SigLIP: cannot be downloaded",
        ),
        (
            {"model": "roberta-ViT-B-32", "weights": "none"},
            r"the configuration of roberta-base: cannot be downloaded",
        ),
    ],
)
def test_a_failed_download_names_the_address(tmp_path, monkeypatch, settings, address):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=address):
        OpenClipTexts.build({"truncate": False, "maximum_tokens": None, **settings})


def test_without_open_clip_the_error_names_the_extra(models, monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    for kind, settings in [
        (OpenClipImages, models["vit"].images),
        (OpenClipTexts, models["vit"].texts),
    ]:
        with pytest.raises(
            UserError, match=r"open_clip is missing .*pip install 'trueneg\[towers\]'"
        ):
            kind.build(settings)


@torch.no_grad()
def test_files_of_model_configs_format_are_read(tmp_path):
    network = tiny_clip()
    tower = OpenClipImages.build({"resolution": None, **write_clip(tmp_path, network)})
    expected = normalised(pixels(64), open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD)
    close(tower(pixels(64)).pooled, network.encode_image(expected))
