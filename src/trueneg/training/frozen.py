"""Frozen towers: computed once for all images or texts of a source, and read again by training and
evaluation.
"""

import functools
import logging
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trueneg.config.runs import (
    OF_GUIDE,
    RunSettings,
    features_key,
    frozen_towers,
    is_of_texts,
)
from trueneg.data.arrays import content_hash
from trueneg.data.images.image_source import ImageSource
from trueneg.data.leakage import numbered, without_equal_vectors
from trueneg.data.mining import Mined, read_mined
from trueneg.data.pairs.pair_source import PairSource, distinct_texts
from trueneg.data.samples import Subset
from trueneg.data.stored_features import StoredFeatures, read_features, write_features
from trueneg.data.texts.text_source import TextSource
from trueneg.data.vector_files import read_vectors
from trueneg.errors import LongTextsError, UserError
from trueneg.models.towers.tower import Tower, state_checksum, train_only
from trueneg.randomness import generator_of, seed_for
from trueneg.runtime.devices import leased_device
from trueneg.specs.encoders import TowerSettings, is_frozen
from trueneg.specs.kinds import KINDS
from trueneg.store.identity import model_of
from trueneg.store.run_files import require_unchanged

log = logging.getLogger(__name__)

# samples per forward pass and save; affects memory and speed, and the last digits of the vectors
AT_ONCE = 64
NO_REGIONS = (
    "{section}: {model} has no vectors of image regions, which similarity.aggregation needs unless"
    " it is global. Set it to global, or use another network, such as a ResNet or ViT of timm."
)


Source = ImageSource | PairSource | TextSource


class Frozen(NamedTuple):
    """The stored vectors of a run's frozen towers.

    Attributes:
        stored: vectors of all images or distinct texts of the source, by the section of their tower
            (:func:`trueneg.config.runs.frozen_towers`).
        rows: row of each text in the vectors of texts.
        mined: what was mined, by seed.
    """

    stored: Mapping[str, StoredFeatures] = {}
    rows: Mapping[str, int] = {}
    mined: Mapping[int, Mined] = {}

    @property
    def images(self) -> StoredFeatures | None:
        """The vectors in place of the images; None: their encoder is not frozen."""
        return self.stored.get("encoder")

    @property
    def texts(self) -> StoredFeatures | None:
        """The vectors in place of the texts, or of the anchors alone; None as for images."""
        return self.stored.get("text_encoder")

    @property
    def vectors(self) -> np.ndarray | None:
        """The values of :attr:`images`."""
        return None if self.images is None else self.images.values

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """The values of :attr:`images` and :attr:`texts`, by section."""
        return {
            section: self.stored[section].values
            for section in ("encoder", "text_encoder")
            if section in self.stored
        }

    @property
    def guide(self) -> dict[str, StoredFeatures]:
        """The vectors of the guide's towers, by ``encoder`` and ``text_encoder``."""
        return {
            section.removeprefix(OF_GUIDE): of
            for section, of in self.stored.items()
            if section.startswith(OF_GUIDE)
        }

    @property
    def towers(self) -> dict[str, dict[str, Any]]:
        """The towers' checksums of weights, which are part of a run's id, sizes of vectors, and
        local files, if there are any, by section.
        """
        return {
            section: {"weights": of.weights, "dimensions": of.dimensions}
            | ({"files": dict(of.files)} if of.files else {})
            for section, of in self.stored.items()
        }


NOTHING_FROZEN = Frozen()


def vector_names(settings: RunSettings) -> dict[str, str]:
    """Return the names of the stored vectors of a run's frozen towers, by section."""
    return {section: features_key(made) for section, made in frozen_towers(settings).items()}


def read_frozen(
    names: Mapping[str, str],
    source: Source,
    vectors: Sequence[str | Path],
    mined: str | Path | None = None,
) -> Frozen:
    """Read the vectors of a run's frozen towers.

    Args:
        names: names of the vectors by section: those of the settings (:func:`vector_names`), or as
            listed in a run's manifest, because a finished run may have been trained where files had
            other paths.
        source: the run's source.
        vectors: files written by :func:`compute_features`, for these and perhaps other towers.
        mined: file of mined hard negatives; None: the run mines none.

    Raises:
        UserError: if vectors are damaged or belong to another source.
    """
    paths = {Path(path).stem: path for path in vectors}
    stored = {
        section: read_features(paths[name], source.checksum) for section, name in names.items()
    }
    texts: list[str] = []
    if any(map(is_of_texts, stored)) and not isinstance(source, ImageSource):
        texts = distinct_texts(source)
    rows = {text: row for row, text in enumerate(texts)}
    return Frozen(stored, rows, read_mined(mined, source.checksum) if mined is not None else {})


def with_vectors_apart(
    subset: Subset, source: Source, settings: RunSettings, values: Mapping[str, np.ndarray]
) -> Subset:
    """Return a subset no two splits of which share a vector of the user's, unless it is allowed
    (:func:`trueneg.data.leakage.without_equal_vectors`).

    Args:
        subset: the run's subset.
        source: its source.
        settings: its settings.
        values: stored vectors (n, V, D, R) by section, in the order of images or of distinct texts.
    """
    for section, of_section in values.items():
        if "path" not in settings[section]:
            continue
        numbers = numbered(of_section[:, 0])
        if is_of_texts(section):
            if not isinstance(source, TextSource):
                continue  # different images may share a text
            texts = source.sentences["sentence"].to_numpy(object)
            numbers = numbers[np.unique(texts, return_inverse=True)[1]][source.matching]
        leakage = settings["dataset"].get("leakage")
        subset = without_equal_vectors(subset, source.samples, numbers, leakage)
    return subset


def is_tower(settings: RunSettings, section: str) -> bool:
    """Return whether a run's encoder is a tower, or vectors in place of one."""
    model: Any = model_of(settings, section)
    return issubclass(model, TowerSettings)


def encoder_of(settings: RunSettings, section: str) -> Any:
    """Return the class that builds and restores the encoder of a section."""
    model: Any = model_of(settings, section)
    return pkgutil.resolve_name(model.IMPLEMENTATION)


def build_tower(settings: RunSettings, section: str) -> Tower:
    """Build the tower of the section ``encoder`` or ``text_encoder``, with the parts frozen that
    the run does not train.

    Weights that are not loaded are drawn from torch's RNG; those of a frozen tower are the same for
    all seeds, and their draws leave the RNG as it was, so that heads start alike whether the tower
    is computed in advance or not.

    Raises:
        UserError: if the library is not installed, or the network or its weights cannot be
            obtained.
    """
    frozen = is_frozen(settings[section])
    with torch.random.fork_rng(devices=[], enabled=frozen):
        if frozen:
            torch.manual_seed(seed_for(0, "frozen tower"))
        tower: Tower = encoder_of(settings, section).build(settings[section])
    train_only(tower, settings[section]["train"], section)
    return tower.eval()


def rebuild_tower(
    settings: RunSettings, section: str, weights: str, files: Mapping[str, str]
) -> Tower:
    """Build a frozen tower again, whose weights and files must have these checksums.

    Raises:
        UserError: if a checksum differs; also see :func:`build_tower`.
    """
    require_unchanged(files)
    tower = build_tower(settings, section)
    if (checksum := state_checksum(tower)) != weights:
        changed = (
            f"have changed since its vectors were computed (SHA-256 {checksum[:12]}…, expected"
            f" {weights[:12]}…)"
        )
        remedy = "Restore them, or run the same command again with --forcerun features."
        raise UserError(
            f"the weights of {section} {settings[section]['model']} {changed}. {remedy}"
        )
    return tower


def packed(tower: Tower, section: str) -> dict[str, Tensor]:
    """Return the files that rebuild a tower as entries of a finished run's file."""
    files = tower.files().items()
    return {
        f"{section}/files/{name}": torch.frombuffer(bytearray(content), dtype=torch.uint8)
        for name, content in files
    }


def restore_tower(settings: RunSettings, section: str, tensors: dict[str, Tensor]) -> Tower:
    """Rebuild the tower of a finished run, whose weights are loaded afterwards; its files are taken
    out of `tensors`.
    """
    prefix = f"{section}/files/"
    names = [name for name in tensors if name.startswith(prefix)]
    files = {name.removeprefix(prefix): tensors.pop(name).numpy().tobytes() for name in names}
    return encoder_of(settings, section).restore(settings[section], files)


def usable_tower(made_of: Mapping[str, Any], texts: Sequence[str]) -> Tower:
    """Build a tower, and check it against what it is needed for.

    Args:
        made_of: what :func:`trueneg.config.runs.all_towers` returns for the tower.
        texts: the texts that a text tower is needed for; not used for images.

    Raises:
        UserError: if the tower cannot be built or lacks regions that the study needs, or a text is
            too long.
    """
    section = made_of["section"]
    settings = made_of["tower"]
    described: Any = {"training": {"kind": made_of["kind"]}, section: settings}
    tower = build_tower(described, section)
    if made_of.get("regions") == "needed" and tower.grid is None:
        raise UserError(NO_REGIONS.format(section=section, model=settings["model"]))
    if is_of_texts(section):
        refuse_long_texts(tower, described, texts, section)
    return tower


def compute_features(
    made_of: Mapping[str, Any],
    *,
    source: str | Path,
    features: str | Path,
    cache: str | Path,
    device: str,
    threads: int,
    files: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Compute the vectors of a frozen tower for all images or distinct texts of a source, and write
    them.

    Args:
        made_of: what :func:`trueneg.config.runs.frozen_towers` returns for the tower.
        source: the source of its data.
        features: .npz file to write.
        cache: folder of unfinished vectors, from which a killed job resumes.
        device: device to lease.
        threads: number of CPU threads.
        files: checksums of the local files that the tower is built from, by path.

    Raises:
        UserError: if the tower cannot be built or lacks regions that the study needs, a text is too
            long, or a file of vectors does not fit the source.
    """
    torch.set_num_threads(threads)
    section = made_of["section"]
    made_of = {**made_of, **({"files": dict(files)} if files else {})}
    data: Any = pkgutil.resolve_name(KINDS[made_of["kind"]].READER)(source)
    samples = data.images if section == "encoder" else distinct_texts(data)
    write = functools.partial(
        write_features,
        features,
        cache,
        count=len(samples),
        restricted=getattr(data, "restricted", False),
    )
    if "path" in made_of["tower"]:
        values = vectors_of_file(made_of, data)
        made = {**made_of, "weights": content_hash(values).hexdigest(), "data": data.checksum}
        write(made_of=made, compute=values.__getitem__, grid=None, at_once=len(values))
        return
    tower = usable_tower(made_of, samples)
    made = {**made_of, "weights": state_checksum(tower), "data": data.checksum}
    regions = bool(made_of.get("regions")) and tower.grid is not None
    with leased_device(device) as leased, torch.inference_mode():
        tower.to(leased)
        kind = made_of["samples"]
        log.info("%s: computing the vectors of %d %s on %s", features, len(samples), kind, leased)
        views = _views_of(made_of, data, leased) if section == "encoder" else None

        def compute(chosen: slice) -> np.ndarray:
            if views is not None:
                return image_vectors(tower, data.images, views, regions, chosen)
            return text_vectors(tower, samples[chosen], leased)

        write(made_of=made, compute=compute, grid=tower.grid if regions else None, at_once=AT_ONCE)


def _views_of(
    made_of: Mapping[str, Any], source: ImageSource | PairSource, device: torch.device
) -> Callable[[Tensor, slice], list[Tensor]]:
    """Return a function of uint8 images and their slice: the images themselves and their augmented
    versions, in [0, 1].
    """
    count = made_of["tower"]["views"] or 0
    channels = source.images.shape[1]
    if not count:
        return lambda pixels, chosen: [pixels / 255]
    unchanged = [0.0] * channels, [1.0] * channels
    build = pkgutil.resolve_name(KINDS[made_of["kind"]].AUGMENTATION)
    augmentation = build(made_of["augmentation"], *unchanged)
    generators = (generator_of(seed_for(0, f"stored views/{number}")) for number in range(count))
    drawn = [
        augmentation.draw(len(source.images), source.images.shape[2:], each).to(device)
        for each in generators
    ]
    augmentation.to(device)
    return lambda pixels, chosen: [
        pixels / 255,
        *(augmentation(pixels, each[chosen]) for each in drawn),
    ]


def image_vectors(
    tower: Tower, images: np.ndarray, views: Any, regions: bool, chosen: slice
) -> np.ndarray:
    """Return the vectors (n, V, D, R) of a slice of uint8 images (n, channels, H, W).

    Args:
        tower: the tower, whose device is used.
        images: all images.
        views: returns the versions of a batch of images.
        regions: whether the vectors of regions are returned, too.
        chosen: the slice.
    """
    pixels = torch.from_numpy(np.array(images[chosen])).to(next(tower.parameters()).device)
    versions = []
    for view in views(pixels, chosen):
        embedded = tower(view.contiguous(memory_format=torch.channels_last))
        cells = [embedded.pooled.unsqueeze(2), *([embedded.regions.flatten(2)] if regions else [])]
        versions.append(torch.cat(cells, 2))
    return torch.stack(versions, 1).float().cpu().numpy()


def text_vectors(tower: Tower, texts: Sequence[str], device: torch.device) -> np.ndarray:
    """Return the vectors (n, 1, D, 1) of texts; those that are too long are truncated."""
    blocks = [list(texts[start : start + AT_ONCE]) for start in range(0, len(texts), AT_ONCE)]
    pooled = [
        tower(on_device(tower.prepare(block), device)).pooled.float().cpu() for block in blocks
    ]
    return torch.cat(pooled).numpy()[:, None, :, None]


def on_device(batch: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """Return a prepared batch with its tensors on a device."""
    return {
        name: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
        for name, value in batch.items()
    }


def refuse_long_texts(
    tower: Tower, settings: RunSettings, texts: Sequence[str], section: str = "text_encoder"
) -> None:
    """Raise an error if a text is longer than the tower's limit and may not be truncated.

    Raises:
        UserError: names the number of such texts and the length of the longest one.
    """
    if not len(texts) or settings[section]["truncate"] or tower.maximum_tokens is None:
        return
    lengths = np.array(tower.lengths(texts))
    if count := int((lengths > tower.maximum_tokens).sum()):
        raise LongTextsError(
            f"{count} of {len(texts)} texts are too long for {section}"
            f" {settings[section]['model']}: up to {lengths.max()} tokens; expected at most"
            f" {tower.maximum_tokens}. Set {section}.truncate to true to truncate them.",
            [texts[row] for row in lengths.argsort()[::-1][:count]],
        )


def vectors_of_file(made_of: Mapping[str, Any], source: Any) -> np.ndarray:
    """Return the vectors of a file as in stored features: the rows of images, or those of the first
    sentence with each text.

    Args:
        made_of: what :func:`trueneg.config.runs.frozen_towers` returns for the file.
        source: the source of its data.

    Raises:
        UserError: if the file does not fit the source, or the study needs regions.
    """
    section = made_of["section"]
    path = made_of["tower"]["path"]
    column = made_of["tower"]["column"]
    if made_of.get("regions") == "needed":
        raise UserError(NO_REGIONS.format(section=section, model=path))
    if section == "encoder":
        values = read_vectors(path, column, len(source.images), "images")
        values = values if values.ndim == 3 else values[:, None]
        return values[..., None]
    values = read_vectors(path, column, len(source.sentences), "sentences")
    if values.ndim == 3:
        raise UserError(
            f"{section}.path, {path}: sentences have several vectors each; expected one."
        )
    # in the order of distinct_texts
    _, first = np.unique(source.sentences["sentence"].to_numpy(object), return_index=True)
    return values[first][:, None, :, None]
