"""Entries of training: three updates of every objective in each kind of training, with tiny
networks, in float64.
"""

import copy
import dataclasses
import functools
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from tests import questions
from tests.golden.chosen import EMA, PAIR_NUMBERS, PAIRS, TEXTS, VIEW_NUMBERS, VIEWS, Objective
from tests.golden.golden import RTOL, Entry
from tests.golden.network_files import temporary_folder, with_files
from tests.golden.numerics import change, copied, double_precision, float32_is_float64, summary
from tests.objectives import examples, variants
from tests.text import models
from tests.textures import LSE_NL, texture_source
from tests.textures import settings_of as pair_settings
from tests.training.test_simclr import settings_of as view_settings
from tests.training.test_untrained import restored
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.mining import mine
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.specs.objectives import OF_PAIRS, OF_TWO_VIEWS
from trueneg.store.versions import training_versions
from trueneg.training.guides.ema import EmaGuide
from trueneg.training.guides.thresholds import ThresholdGuide
from trueneg.training.image_text import ImageText
from trueneg.training.loop import TrainingRun
from trueneg.training.networks import read_networks
from trueneg.training.simclr import SimCLR
from trueneg.training.text_pairs import TextPairs

CPU = torch.device("cpu")
UPDATES, BATCH = 3, 16
# Not recorded: times, and monitors that are newer than the records.
UNRECORDED = ("seconds", "_per_second", "share of own report", "share of same text")
# Parts of a run that its made-up data replace here.
MADE_UP = ("splitter", "language_model", "likelihoods", "class_probability", "texts/text_table")
MADE_UP += ("text_encoder/text/sentence_transformers",)  # replaced by vectors
# sections of which only some settings are changed
MERGED = ("dataset", "training", "similarity", "projection")


def entries() -> Iterator[tuple[str, Entry]]:
    """Every objective at its defaults, with each word and boolean of its settings, and with chosen
    settings.
    """
    for kind, registered, chosen in (
        ("images", OF_TWO_VIEWS, VIEWS),
        ("image-text", OF_PAIRS, PAIRS),
    ):
        by_name = {
            name: model
            for model in registered
            for name in model.model_fields["name"].annotation.__args__
        }
        for title, objective in {**dict(_varied(kind, registered)), **chosen}.items():
            yield (
                f"{kind}: {title}",
                _objective(kind, by_name[objective["name"]].model_validate(objective)),
            )
    yield from _texts()
    yield from _loop()
    yield from _networks()


def _texts() -> Iterator[tuple[str, Entry]]:
    """Every objective on drawn pairs of texts at its defaults, and chosen ones on given pairs with
    hard negatives.
    """
    of_texts = [model for model in OF_PAIRS if not model.MASKS_WORDS]
    drawn = {
        title: _numbers("text", objective)
        for title, objective in examples(of_texts)
        if "targets" not in title
    }
    for positives, objectives in (("same_label", drawn), ("given", TEXTS)):
        for title, objective in objectives.items():
            settings = _settings("text", objective, dataset={"positives": positives})
            compute = functools.partial(
                _trained, settings, with_row=title.startswith(("oracle", "guided by self"))
            )
            # ranks and thresholds: near-ties differ between processors
            rtol = 5e-3 if title in ("bcl", "glofnd") else RTOL
            yield (
                f"text: {title}{', hard negatives' * (positives == 'given')}",
                Entry(_parts(settings), compute, rtol),
            )
    yield "text: untrained", Entry(("objective/text/untrained", "training/text"), _untrained_texts)
    yield "text: mined hard negatives", Entry(("mining", "training/text"), _mined_texts)


def _mined_texts() -> dict[str, Any]:
    """What is mined, and what an epoch draws of it, by settings."""
    source = _questions("same_label")
    frozen = questions.frozen_of(source)
    vectors = frozen.texts.values[[frozen.rows[text] for text in source.sentences["sentence"]]]
    mined = mine(source, questions.subset_of(source), vectors[:, 0, :, 0])
    frozen = frozen._replace(mined={0: mined})
    drawn = {}
    for title, wanted in {
        "margin": {"relative_margin": 0.1},
        "true ones": {"without_positives": True, "sampling": "top"},
        "control": {"false_share": 0.5, "shuffled": True},
    }.items():
        settings = questions.settings_of({"name": "cl", "hard_negatives": wanted})
        data = questions.started(source, settings, frozen).data
        drawn[title] = data.epoch("", torch.Generator().manual_seed(0)).columns.float()
    return summary({"similarity": torch.from_numpy(mined.similarity[:, :5]), **drawn})


def _untrained_texts() -> dict[str, Any]:
    """The vectors of frozen towers of two sizes, restored from the file of a run without
    training.
    """
    source = _questions("given")
    with double_precision(), tempfile.TemporaryDirectory() as folder:
        frozen = questions.frozen_of(
            source, np.float64, positive_encoder=questions.vectors_of(source, 4, dtype=np.float64)
        )
        settings = questions.settings_of(
            positive_encoder={"train": "none"}, projection={"name": "none"}
        )
        settings["dataset"]["positives"], settings["objective"] = "given", {"name": "untrained"}
        weights = TextPairs.untrained_weights(
            settings, 0, source, questions.subset_of(source), frozen
        )
        save_file(weights, Path(folder) / "model.safetensors")
        networks = read_networks(Path(folder) / "model.safetensors", settings, frozen)
        stored = {
            "anchors": frozen.texts.values,
            "positives": frozen.stored["positive_encoder"].values,
        }
        return summary(
            {
                name: networks.model.embed(
                    side.prefix, torch.from_numpy(stored[name][:5, 0]).unsqueeze(2)
                ).pooled
                for name, side in zip(stored, networks.sides, strict=True)
            }
        )


def _numbers(kind: str, objective: Objective) -> Objective:
    """Return an objective with numbers with which it does something."""
    numbers = VIEW_NUMBERS if kind == "images" else PAIR_NUMBERS
    changes = dict(numbers.get(objective["name"], {}))
    if kind != "images" and objective.get("by") == "guide":
        changes |= {"guide": EMA} | ({"threshold": 0.2} if "threshold" in objective else {})
    return {**objective, **changes}


def _varied(kind: str, registered: Any) -> Iterator[tuple[str, Objective]]:
    for title, objective in (*examples(registered), *variants(registered)):
        if "learned_logit_scale" in title or (title.startswith("cl") and "targets" in title):
            continue  # among the chosen settings
        yield title, _numbers(kind, objective)


def _objective(kind: str, model: Any) -> Entry:
    settings = _settings(kind, model.model_dump())
    return Entry(_parts(settings), functools.partial(_trained, settings))


def _settings(kind: str, objective: Objective, **sections: Any) -> dict[str, Any]:
    if kind == "images":
        settings = view_settings(
            epochs=None, updates=UPDATES, batch_size=BATCH, schedule="cosine"
        ) | {"objective": objective}
    elif kind == "text":
        settings = questions.settings_of(
            objective, training={"updates": UPDATES, "batch_size": BATCH, "warmup_updates": 2}
        )
    else:
        settings = pair_settings(
            objective, training={"epochs": None, "updates": UPDATES, "batch_size": BATCH}
        )
        settings["training"]["warmup_updates"] = 2
        settings["text_encoder"]["dropout"] = 0.0  # torch's own draws differ from those of MKL
        settings["dataset"] = {"source": "textures"}
    for name, values in sections.items():
        settings[name] = settings[name] | values if name in MERGED else values
    return settings


def _parts(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The versioned parts of a run, those that the settings choose first."""
    parts = {part for part in training_versions(settings) if part not in MADE_UP}
    kind = settings["training"].get("kind", "images")
    objective = settings["objective"]
    nested = [
        f"{key}/{kind}/{objective[key]['name']}"
        for key in ("targets", "guide")
        if objective.get(key) is not None
    ]
    first = [f"objective/{kind}/{objective['name']}", *nested]
    return tuple(first + sorted(parts - set(first)))


@functools.cache
def _images(augmentation: str = "digits") -> Any:
    """Digits, of which half of the classes are rare; or small colour images of noise."""
    if augmentation != "color":
        source = load_source("digits")
        return source, make_subset(
            source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25
        )
    images = np.random.default_rng(0).integers(0, 256, (80, 3, 12, 12), np.uint8)
    source = ImageSource("noise", images, np.arange(80) % 4, np.zeros(80, bool), tuple("abcd"))
    return source, make_subset(source, seed=0)


@functools.cache
def _textures() -> Any:
    with double_precision():  # draws of float32 differ between processors
        source = texture_source(
            patients=30, language_model=models.saved(Path(temporary_folder().name) / "bert")
        )
    lengths = source.sentences["sentence"].str.len()
    source = dataclasses.replace(
        source, sentences=source.sentences.assign(**{"eta by length": 0.1 / lengths})
    )
    return source, split_pairs(source, 0)


@functools.cache
def _questions(positives: str) -> Any:
    with double_precision():
        model = models.saved(Path(temporary_folder().name) / f"bert of {positives}")
    is_given = positives == "given"
    return questions.question_source(is_given, 2 * is_given, language_model=model)


def _started(settings: Mapping[str, Any]) -> TrainingRun:
    settings, kind = copy.deepcopy(dict(settings)), settings["training"].get("kind", "images")
    if kind == "images":
        with float32_is_float64():
            training: TrainingRun = SimCLR(
                settings, 0, *_images(settings["augmentation"]["name"]), CPU
            )
    elif kind == "text":
        source = _questions(settings["dataset"]["positives"])
        training = questions.started(source, settings, questions.frozen_of(source, np.float64))
    else:
        training = ImageText(settings, 0, *_textures(), CPU)
    training.network.double()
    training.loss.double()
    if training.guide is not None:
        training.guide.double()
    return training


def _trained(settings: Mapping[str, Any], *, with_row: bool = False) -> dict[str, Any]:
    """The losses of the updates, and how far the weights, their average and the thresholds have
    moved.
    """
    with double_precision():
        training, losses, rates = _started(settings), [], []
        add = training.monitors.add

        def recorded(terms: Any, *others: Any) -> None:
            losses.append(getattr(terms, "loss", terms).detach())
            rates.append(training.optimizer.param_groups[0]["lr"])
            add(terms, *others)

        training.monitors.add = recorded
        depth = 1 if isinstance(training, SimCLR) else 2
        before, row = copied(training.network.state_dict()), {}
        while training.epoch < training.epochs:
            row = training.train_epoch()
        result = {"losses": losses, "weights": change(before, training.network.state_dict(), depth)}
        if isinstance(training.guide, EmaGuide):
            average = copied(training.guide.average.module.state_dict())
            result["average"] = next(iter(change(before, average, 0).values()))
        if isinstance(training.guide, ThresholdGuide):
            thresholds = training.guide.thresholds
            result["thresholds"] = next(iter(summary(copied(thresholds.state_dict()), 0).values()))
        if parameters := copied(dict(training.loss.named_parameters())):
            result["parameters of the loss"] = next(iter(summary(parameters, 0).values()))
        if with_row:
            result["rates"] = rates
            result["row"] = {
                key: value for key, value in row.items() if not key.endswith(UNRECORDED)
            }
        return result


def _loop() -> Iterator[tuple[str, Entry]]:
    """Parts that all objectives share: monitors, schedules, augmentation, and the combinations of
    regions.
    """
    cl, both = {"name": "cl"}, {"name": "cl", "directions": "both"}
    images, pairs = (
        functools.partial(_settings, "images"),
        functools.partial(_settings, "image-text"),
    )
    no_warmup = {"optimizer": "adam", "warmup_updates": 0, "schedule": "constant"}
    loops = {
        "images: monitors": images({"name": "dcl", "class_probability": "true"}),
        "images: constant learning rate, weight decay": images(
            cl, training={"schedule": "constant", "weight_decay": 0.1}
        ),
        "images: two epochs": images(cl, training={"batch_size": 256, "updates": 4}),
        "images: moving averages": images(
            {"name": "global", "rate": 0.4}, training={"batch_size": 256, "updates": 4}
        ),
        "images: colour augmentation": images(cl, augmentation={"name": "color"}),
        "images: no augmentation, no batch norm": images(
            cl, augmentation={"name": "none"}, projection={"batch_norm": False}
        ),
        "image-text: monitors": pairs({"name": "oracle", "directions": "both"}),
        "image-text: units of studies": pairs(both, training={"unit": "study", "updates": 4}),
        "image-text: adam, no warm-up": pairs(both, training=no_warmup),
        "image-text: mlp": pairs(both, projection={"name": "mlp"}),
        "image-text: regions": pairs(both, similarity=LSE_NL),
        "image-text: moving averages": pairs(
            {"name": "global", "directions": "both", "rate": 0.4}, training={"updates": 12}
        ),
        "image-text: regions, losses": pairs(both, similarity=LSE_NL | {"combined": "losses"}),
    }
    for title, settings in loops.items():
        kind = title.split(":")[0]
        parts = (
            f"training/{kind}",
            *(part for part in _parts(settings) if part != f"training/{kind}"),
        )
        yield title, Entry(parts, functools.partial(_trained, settings, with_row=True))


def _networks() -> Iterator[tuple[str, Entry]]:
    """Updates and embeddings of the encoders that need files."""
    released = {"name": "released"}
    biovil = {
        "encoder": {"name": "biovil"},
        "text_encoder": {"name": "pretrained", "released": True},
    }
    trained = {
        "text_encoder pretrained": (
            "text_encoder/image-text/pretrained",
            {"text_encoder": {"name": "pretrained"}},
        ),
    }
    for title, (first, sections) in trained.items():
        settings = _settings("image-text", {"name": "clip"}, **sections)
        parts = (first, *(part for part in _parts(settings) if part != first))
        yield f"image-text: {title}", Entry(parts, functools.partial(_trained_with_files, settings))
    embedded = {
        "a released biovil": (released, biovil | {"projection": released}),
        "small encoders": ({"name": "untrained"}, {}),
        "a resnet18": ({"name": "untrained"}, {"encoder": {"name": "resnet18", "weights": None}}),
        "a resnet50": ({"name": "untrained"}, {"encoder": {"name": "resnet50", "weights": None}}),
    }
    for title, (objective, sections) in embedded.items():
        settings = _settings("image-text", objective, **sections)
        parts = [
            f"{section}/image-text/{settings[section]['name']}"
            for section in ("encoder", "text_encoder")
        ]
        is_about_objective = title in ("a released biovil", "small encoders")
        parts.insert(0 if is_about_objective else 2, f"objective/image-text/{objective['name']}")
        compute = functools.partial(_embeddings, settings)
        yield f"image-text: embeddings of {title}", Entry((*parts, "training/image-text"), compute)


def _trained_with_files(settings: Mapping[str, Any]) -> dict[str, Any]:
    return _trained(with_files(settings))


@torch.no_grad()
def _embeddings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Embeddings and similarities of the networks in the file of a run without training."""
    source, subset = _textures()
    with double_precision(), tempfile.TemporaryDirectory() as folder:
        networks = restored(
            with_files(settings), 0, source, subset, Path(folder) / "model.safetensors"
        )
        model, augmentation = networks.model.double().eval(), networks.columns.augmentation.double()
        images = model.embed(
            "image_", augmentation.normalise(torch.from_numpy(source.images[:2])), regions=True
        )
        tokens = networks.anchors.tokenizer(
            source.sentences["sentence"].tolist()[:3], padding=True, return_tensors="pt"
        )
        texts = model.embed("text_", tokens["input_ids"], tokens["attention_mask"]).pooled
        embedded = {"pooled": images.pooled, "regions": images.regions, "texts": texts}
        return {"embeddings": summary(embedded), "scores": model.similarity(texts, images)}
