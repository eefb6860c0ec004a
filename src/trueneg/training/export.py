"""Write a finished run's encoders, with their projections, as folders that can be used without this
project.
"""

import json
import pkgutil
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_model
from torch import nn
from torch.nn.functional import pad
from torchvision.models.resnet import BasicBlock, Bottleneck

from trueneg.config.runs import OF_GUIDE
from trueneg.data.images.image_source import read_source
from trueneg.data.stored_features import StoredFeatures
from trueneg.errors import UserError
from trueneg.io.files import writable
from trueneg.io.privacy import owner_only
from trueneg.models.biovil import RegionProjection
from trueneg.models.towers.sentence_transformers_tower import (
    SentenceTransformerTower,
    tower_of_bert,
)
from trueneg.models.towers.timm_tower import TimmTower
from trueneg.models.towers.tower import Tower
from trueneg.specs.kinds import kind_of
from trueneg.specs.temperature import temperature_of
from trueneg.store.records import RunRecord
from trueneg.store.run_store import RunStore
from trueneg.training.frozen import Frozen, rebuild_tower
from trueneg.training.networks import read_networks
from trueneg.training.simclr import augmentation_of, projected_encoder

LOADERS = Path(__file__).with_name("loaders")  # parts of load.py; what begins with $ is replaced
FOLDERS = {"encoder": "image", "text_encoder": "text", "positive_encoder": "positives"}
LIBRARIES = {SentenceTransformerTower: "sentence-transformers", TimmTower: "timm"}
LICENCE = "Weights that others have published keep their licence, also after further training."
# the network (None: vectors of a file), its head, and its augmentation (None: of texts)
Exported = tuple[Any, nn.Module, Any]


def export_run(
    run: str, folder: Path, results: Path, facts: Mapping[str, Any] | None = None
) -> None:
    """Write the encoders of a finished run.

    Args:
        run: the run's id, or its first characters.
        folder: folder to write, which gets one subfolder per encoder: ``image``, ``text``.
        results: the results folder.
        facts: what the description says besides what is known of the run.

    Raises:
        UserError: if no run or several runs match, the run has no weights, the folder is not empty,
            or a frozen tower no longer has the weights that its vectors were computed with.
    """
    store = RunStore(results / "runs")
    identifier = finished_run(run, store)
    require_empty(folder)
    store.checksum(identifier)
    record = store.record(identifier, RunRecord)
    keys = ("id", "study", "dataset", "objective", "seed", "source", "settings", "versions")
    about = {key: record[key] for key in keys} | {"licence": LICENCE, **(facts or {})}
    exported, scale = _encoders(record, store.folder(identifier) / RunStore.MODEL, results)
    # an encoder may reveal the data that it was trained on
    with writable(folder), owner_only(True):
        for section, encoder in exported.items():
            write_encoder(*encoder, {**about, **scale}, folder / FOLDERS[section])


def require_empty(folder: Path) -> None:
    """Raise a :class:`UserError` if a folder to write to has content."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not an empty folder. Choose a new folder.")


def finished_run(run: str, store: RunStore) -> str:
    """Return the id of the finished run that starts with this prefix."""
    names = sorted(path.name for path in store.path.glob("*/") if path.name.startswith(run))
    if len(names) != 1:
        raise UserError(
            f"{run} is a prefix of {len(names)} run ids in {store.path}; expected 1. `trueneg runs`"
            " lists all."
        )
    if (state := store.state(names[0])) != "finished":
        raise UserError(
            f"{store.path / names[0]} has no weights ({state}). Finish the run, or export it where"
            " it was trained."
        )
    return names[0]


def _encoders(
    record: Mapping[str, Any], path: Path, results: Path
) -> tuple[dict[str, Exported], dict[str, float]]:
    """Return the encoders by section, and the scale of similarities."""
    settings = record["settings"]
    towers: dict[str, Tower | None] = {}
    stored: dict[str, StoredFeatures] = {}
    kind = kind_of(settings)
    # only the first version, the image itself, is exported
    versions = 3 if kind.two_views else 1
    for section, recorded in record.get("towers", {}).items():
        if section.startswith(OF_GUIDE):  # needed for training only
            continue
        has_network = "path" not in settings[section]
        files = recorded.get("files", {})
        towers[section] = (
            rebuild_tower(settings, section, recorded["weights"], files) if has_network else None
        )
        nothing = np.empty((0, versions, recorded["dimensions"], 1), np.float32)
        stored[section] = StoredFeatures(nothing, None, "", "")
    return pkgutil.resolve_name(kind.EXPORTED_BY)(record, path, results, towers, Frozen(stored))


def image_encoder(
    record: Mapping[str, Any], path: Path, results: Path, towers: Mapping[str, Any], frozen: Frozen
) -> tuple[dict[str, Exported], dict[str, float]]:
    """Rebuild the encoder of a run on two views."""
    settings = record["settings"]
    place = kind_of(settings).data_place(settings["dataset"])
    source = read_source(results / f"{place}.npz")
    if source.checksum != record["source"]["checksum"]:
        raise UserError(
            f"The images of {record['source']['name']} have changed since this run was trained."
            " Restore them."
        )
    channels = source.images.shape[1]
    network: Any = projected_encoder(settings, channels, frozen, load_file(path)).eval()
    encoder = towers.get("encoder", getattr(network.encoder, "tower", network.encoder))
    images = encoder, network.projection, augmentation_of(settings, source, frozen)
    return {"encoder": images}, {"temperature": temperature_of(settings).initial}


def pair_encoders(
    record: Mapping[str, Any], path: Path, results: Path, towers: Mapping[str, Any], frozen: Frozen
) -> tuple[dict[str, Exported], dict[str, float]]:
    """Rebuild the encoders of a run on pairs."""
    networks = read_networks(path, record["settings"], frozen)
    exported: dict[str, Exported] = {}
    sides: Any = networks.sides
    for side in sides:
        encoder = towers.get(side.section, side.encoder)
        if getattr(side, "tokenizer", None) is not None:
            encoder = tower_of_bert(encoder, side.tokenizer, side.maximum_tokens)
        head = networks.model.get_submodule(f"{side.prefix}projection")
        exported[side.section] = encoder, head, getattr(side, "augmentation", None)
    return exported, {"logit scale": networks.model.logit_scale().item()}


def head_layers(head: Any) -> list[nn.Module]:
    r"""Return a projection as layers of torch that are applied one after the other.

    A residual head equals a head of two layers, because :math:`x = \mathrm{gelu}(x) -
    \mathrm{gelu}(-x)`.
    """
    if not hasattr(head, "change"):  # not a ResidualHead
        leaves = (part for part in head.modules() if not [*part.children()])
        return [part for part in leaves if not isinstance(part, nn.Dropout | nn.Identity)]
    first = head.change[0]
    last = head.change[-1]
    same = torch.eye(first.in_features)
    skip = getattr(head.skip, "weight", same)
    hidden = first.out_features + 2 * len(same)
    wide = nn.Linear(len(same), hidden)
    narrow = nn.Linear(hidden, last.out_features)
    wide.load_state_dict(
        {
            "weight": torch.cat([first.weight, same, -same]),
            "bias": pad(first.bias, (0, 2 * len(same))),
        }
    )
    narrow.load_state_dict({"weight": torch.cat([last.weight, skip, -skip], 1), "bias": last.bias})
    return [wide, nn.GELU(), narrow]


def write_encoder(
    network: Any, head: nn.Module, augmentation: Any, about: dict[str, Any], folder: Path
) -> None:
    """Write an encoder with its projection and a description; as a folder of sentence-transformers
    if it is one of its models.

    Args:
        network: a tower, or a network of this project; None: the vectors come from a file.
        head: the projection.
        augmentation: of images; None for texts.
        about: what the description says besides what is known of the network.
        folder: folder to create.
    """
    is_tower = isinstance(network, Tower)
    library = LIBRARIES.get(type(network), "open_clip_torch") if is_tower else "torchvision"
    folder.mkdir(parents=True)
    if library == "sentence-transformers":
        network.export(folder, head_layers(head))
    else:
        parts, code, blocks = _stored(network, head)
        about |= blocks
        template = "vectors" if network is None else "texts" if augmentation is None else "images"
        if template == "images":
            about |= _input_of(network, augmentation)
        for name, content in network.files().items() if is_tower else ():
            (folder / name).write_bytes(content)
        (folder / "load.py").write_text(_loader(template, library, code), encoding="utf-8")
        save_model(parts, str(folder / "encoder.safetensors"))
    about |= {
        "maximum tokens": getattr(network, "maximum_tokens", None),
        "libraries": {library: metadata.version(library)},
    }
    (folder / "encoder.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _stored(
    network: nn.Module | None, head: nn.Module
) -> tuple[nn.Module, dict[str, str], dict[str, Any]]:
    """Return the modules whose weights are stored, the code that builds them in load.py, and the
    shapes of a ResNet's blocks.
    """
    layers = head_layers(head)
    parts = nn.ModuleDict()
    code = dict[str, str]()
    about = dict[str, Any]()
    if isinstance(network, Tower):
        parts["network"] = network.get_submodule("network")
    elif network is not None:
        maps: list[nn.Module] = []
        if isinstance(head, RegionProjection):  # BioViL projects, then pools
            maps = layers
            layers = []
        parts["network"], about["blocks"], code = _flat(network, maps)
    parts["head"] = nn.Sequential(*layers)
    return parts, code | {"$head": _code(layers)}, about


def _input_of(network: Any, augmentation: Any) -> dict[str, Any]:
    """Return how load.py prepares images: their crop, size and channels, means and deviations."""
    is_tower = isinstance(network, Tower)
    is_cropped = getattr(augmentation, "evaluated", "whole") == "crop"
    normalising = network if is_tower else augmentation
    return {
        "crop": augmentation.crop if is_cropped else 1.0,
        "size": getattr(network, "size", None),
        "channels": 3 if is_tower else network.conv1.in_channels,
        **{key: getattr(normalising, key).flatten().tolist() for key in ("mean", "std")},
    }


def _loader(template: str, library: str, code: Mapping[str, str]) -> str:
    """Return the text of load.py, which builds an encoder with a library and the given code."""
    text, definitions = (
        (LOADERS / f"{name}.txt").read_text(encoding="utf-8") for name in (template, library)
    )
    for mark, replacement in {"$definitions": definitions, **code}.items():
        text = text.replace(mark, replacement)
    return text


def _flat(
    encoder: Any, projection: Sequence[nn.Module]
) -> tuple[nn.Module, list[Any], dict[str, str]]:
    """Return a ResNet as one sequence of layers and blocks, the shapes of its blocks, and what
    load.py needs of it.
    """
    blocks = [part for part in encoder.modules() if isinstance(part, BasicBlock | Bottleneck)]
    first = [
        part
        for name, part in encoder.named_children()
        if name in ("conv1", "bn1", "relu", "maxpool")
    ]
    last = [*projection, nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    shapes = [
        (part.conv1.in_channels, part.conv1.out_channels * part.expansion, part.stride)
        for part in blocks
    ]
    code = {"$before": _code(first), "$after": _code(last), "$block": type(blocks[0]).__name__}
    return nn.Sequential(*first, *blocks, *last), shapes, code


def _code(layers: Sequence[nn.Module]) -> str:
    return ", ".join(f"nn.{layer!r}" for layer in layers)
