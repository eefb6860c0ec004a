"""Synthetic frontal chest radiographs with known classes and boxes: the images of the phantom.

Each report has its own chest (:mod:`trueneg.data.phantom.anatomy`), into which the report's
positive classes (:mod:`trueneg.data.phantom.reports`) are drawn
(:mod:`trueneg.data.phantom.findings`). As on every film, the patient faces the reader: the
patient's LEFT is on the image's RIGHT. Each image depends only on the settings, the report's id and
its findings, not on the other images, their order or the number of processes.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy import ndarray
from tqdm import tqdm

from trueneg.data.phantom.anatomy import Chest, film
from trueneg.data.phantom.classes import CLASSES, PhantomClass
from trueneg.data.phantom.findings import EFFECTS, Effect
from trueneg.randomness import rng_for
from trueneg.runtime.processes import map_in_processes

# the CheXpert labels predicted in the papers
CHEX5 = ("cardiomegaly", "edema", "effusion", "pneumonia", "pneumothorax")
BOX_COLUMNS = ["report", "class", "name", "finding", "side", "x0", "y0", "x1", "y1"]
# a pixel belongs to a box if the finding changes it by more than this share of the finding's
# largest change
CHANGED = 0.2
FAINTEST = 0.5  # grey levels; smaller changes of a pixel are ignored
IMAGES_PER_TASK = 64  # number of images sent between processes at once


class PhantomImages(NamedTuple):
    """Radiographs with the boxes of their findings.

    Attributes:
        images: uint8, shape (n, 1, R, R), in the order of the reports.
        boxes: one row per box: ``report``, ``class`` (number), ``name``, ``finding``, ``side`` (of
            the patient; ``""`` for the heart), and ``x0``, ``y0``, ``x1``, ``y1`` in pixels:
            columns x0 to x1 − 1 from the left, rows y0 to y1 − 1 from the top. A finding in both
            lungs has one box per lung; a finding outside the film or hidden by other structures has
            no box.
    """

    images: ndarray
    boxes: pd.DataFrame


def phantom_images(
    findings: Mapping[str, Sequence[int]],
    resolution: int,
    seed: int,
    contrast: float = 1.0,
    processes: int = 1,
) -> PhantomImages:
    """Draw the radiograph of every report.

    Args:
        findings: for each report id, the indices of its positive classes in
            :data:`trueneg.data.phantom.classes.CLASSES`; empty for a healthy chest.
        resolution: side in pixels, at least 32; at lower resolutions granulomas disappear.
        seed: together with the report's id, determines the patient, the noise, and the size and
            position of every finding, regardless of what else is drawn.
        contrast: factor applied to the findings' densities and the heart's enlargement; controls
            how difficult the phantom is.
        processes: number of processes; does not affect the result.

    Example:
        >>> drawn = phantom_images({"P000000": [], "P000001": [27]}, resolution=64, seed=0)
        >>> drawn.images.shape, drawn.boxes["name"].tolist()
        ((2, 1, 64, 64), ['small left upper pneumothorax'])
        >>> bool(drawn.boxes["x0"][0] > 32)  # the patient's left is at the image's right
        True
    """
    images = np.empty((len(findings), 1, resolution, resolution), np.uint8)
    rows: list[tuple] = []
    draw = functools.partial(_draw, resolution=resolution, seed=seed, contrast=contrast)
    drawn = map_in_processes(
        draw, findings.keys(), findings.values(), processes=processes, chunksize=IMAGES_PER_TASK
    )
    for image, (pixels, boxes) in zip(
        images, tqdm(drawn, "radiographs", len(findings), False, disable=None), strict=True
    ):
        image[0] = pixels
        rows += boxes
    return PhantomImages(images, pd.DataFrame(rows, columns=BOX_COLUMNS))


def positive_classes(reports: Sequence[str], assigned: pd.DataFrame) -> dict[str, list[int]]:
    """Return the findings of every report in the format expected by :func:`phantom_images`.

    Args:
        reports: ids of the reports, in order.
        assigned: ``report`` and ``class`` of every sentence; classes that deny or do not mention a
            finding are ignored.

    Raises:
        KeyError: if a finding belongs to a report not in `reports`.

    Example:
        >>> positive_classes(["a", "b"], pd.DataFrame({"report": ["b", "b"], "class": [3, 60]}))
        {'a': [], 'b': [3]}
    """
    classes_of: dict[str, list[int]] = {report: [] for report in reports}
    for report, number in assigned[["report", "class"]].itertuples(index=False):
        if number < len(CLASSES):
            classes_of[report].append(number)
    return classes_of


def chexpert_labels(findings: Mapping[str, Sequence[int]]) -> ndarray:
    """Return float32 (n, 5): for each finding of :data:`CHEX5`, 1 if the report has a class of that
    finding, else 0.
    """
    labels = np.zeros((len(findings), len(CHEX5)), np.float32)
    for row, numbers in zip(labels, findings.values(), strict=True):
        row[:] = np.isin(CHEX5, [CLASSES[number].finding for number in numbers])
    return labels


def _draw(
    report: str, numbers: Sequence[int], resolution: int, seed: int, contrast: float
) -> tuple[ndarray, list[tuple]]:
    chest = Chest(_generator(seed, "patient", report), resolution)
    present = [CLASSES[number] for number in sorted(set(numbers))]
    effects = []
    for finding in present:
        uniform = _generator(seed, f"finding {finding.number}", report).uniform
        effects.append(EFFECTS[finding.finding](chest, finding, uniform, contrast))
    grey = _exposed(chest, effects)
    boxes = []
    for place, (finding, effect) in enumerate(zip(present, effects, strict=True)):
        change = np.abs(grey - _exposed(chest, effects[:place] + effects[place + 1 :]))
        boxes += [
            (report, finding.number, finding.name, finding.finding, *box)
            for box in _boxes(chest, finding, effect, change)
        ]
    noise = _generator(seed, "noise", report).standard_normal(grey.shape, dtype=np.float32)
    return np.clip(np.rint(grey + chest.patient.grain * noise), 0, 255).astype(np.uint8), boxes


def _generator(seed: int, purpose: str, report: str) -> np.random.Generator:
    return rng_for(seed, f"phantom {purpose} of {report}")


def _exposed(chest: Chest, effects: Sequence[Effect]) -> ndarray:
    attenuation = chest.tissue + chest.bones
    texture = chest.texture
    air = chest.air
    for effect in effects:
        attenuation = attenuation + effect.added
        texture = texture * effect.texture
        air = air * effect.air
    return film(chest.patient, attenuation + texture - air)


def _boxes(
    chest: Chest, finding: PhantomClass, effect: Effect, change: ndarray
) -> list[tuple[str, int, int, int, int]]:
    """Return one box per side affected by the finding; each encloses every pixel on its side that
    changed visibly.
    """
    boxes = []
    for side in finding.sides:
        here = change * (chest.lungs[side].lateral > 0) if finding.side == "bilateral" else change
        shown = here > max(CHANGED * here.max(), FAINTEST)
        if effect.region is not None:
            shown = shown | effect.region
        if not shown.any():  # outside the film, or hidden by another structure
            continue
        rows, columns = np.nonzero(shown)
        first = int(columns.min()), int(rows.min())
        boxes.append((side, *first, int(columns.max()) + 1, int(rows.max()) + 1))
    return boxes
