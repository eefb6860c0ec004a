"""The effect of each finding on the phantom's chest: air displaced or gained, texture hidden or
lost, density added.

All sizes and positions are drawn from the finding's own generator, so a patient looks the same with
and without the finding, and a finding looks the same with and without other findings.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from trueneg.data.phantom.anatomy import HIDDEN, Chest, Lung
from trueneg.data.phantom.classes import PhantomClass
from trueneg.data.phantom.shapes import bell, rotated, soft_step

MOST = 0.97  # maximum share of air that an opacity can hide
Uniform = Callable[[float, float], float]  # draws a number between two bounds
# heights in the lung, from apex to diaphragm
ZONES = {"upper": (0.20, 0.38), "middle": (0.44, 0.62), "lower": (0.68, 0.86)}


class Effect(NamedTuple):
    """The effect of a finding on a chest; the film shows ``tissue + bones + texture · Π texture + Σ
    added − air · Π air``.

    Attributes:
        air: (H, W) factor applied to the air in the lungs: below 1 where air is displaced, above 1
            where there is more air.
        texture: (H, W) factor applied to vessels and mottle.
        added: (H, W) additional attenuation.
        region: (H, W) bool: region that a reader would enclose in the box even where no pixel
            changes; None: only pixels that change.
    """

    air: ndarray | float = 1.0
    texture: ndarray | float = 1.0
    added: ndarray | float = 0.0
    region: ndarray | None = None


def _affected(chest: Chest, finding: PhantomClass) -> list[Lung]:
    return [chest.lungs[side] for side in finding.sides]


def _opaque(opacity: ndarray, contrast: float) -> Effect:
    shown = 1 - np.clip(contrast * opacity, 0, MOST)
    return Effect(air=shown, texture=shown)


def _spot(
    lung: Lung, place: tuple[float, float], radii: tuple[float, float], angle: float = 0.0
) -> ndarray:
    """Return the squared distance from a position, in units of the radii."""
    along, across = rotated(lung.lateral - place[0], lung.down - place[1], angle)
    return (along / radii[0]) ** 2 + (across / radii[1]) ** 2


def _cardiomegaly(chest: Chest, finding: PhantomClass, uniform: Uniform, contrast: float) -> Effect:
    enlargement = 1 + contrast * finding.extent * uniform(0.85, 1.15)
    heart = chest.heart_depth(enlargement)
    shown = (1 - HIDDEN * chest.heart_shadow(heart)) / (1 - HIDDEN * chest.shadow)
    floor = max(lung.floor for lung in chest.lungs.values())
    return Effect(
        air=shown, texture=np.minimum(shown + 0.3, 1), region=(heart > 0) & (chest.down < floor)
    )


def _edema(chest: Chest, finding: PhantomClass, uniform: Uniform, contrast: float) -> Effect:
    """Draw haze around both hila and Kerley B lines: short horizontal lines at the chest wall in
    the lower zones.
    """
    reach = uniform(0.12, 0.17)
    spacing = uniform(0.016, 0.022)
    start = uniform(0, math.pi)
    haze = np.zeros_like(chest.down)
    lines = np.zeros_like(chest.down)
    for lung in _affected(chest, finding):
        strength = uniform(0.85, 1.15)
        place = lung.place(uniform(0.52, 0.62), uniform(-0.5, -0.2))
        spot = _spot(lung, place, (reach, 1.35 * reach))
        haze = haze + strength * lung.inside * np.exp(-spot)
        wall = lung.inside * bell((lung.depth - 0.02) / 0.018)
        wall = wall * soft_step((chest.down - lung.place(0.6, 0)[1]) / 0.02)
        lines = lines + wall * np.cos(math.pi * chest.down / spacing + start) ** 2
    haze = haze * (1 + 0.10 * chest.mottle)
    density = finding.extent
    shown = 1 - np.clip(contrast * density * haze, 0, MOST)
    # Vessels remain visible in the haze and are congested.
    return Effect(
        air=shown,
        texture=1 + 0.2 * contrast * haze * density,
        added=0.15 * contrast * density * lines,
    )


def _effusion(chest: Chest, finding: PhantomClass, uniform: Uniform, contrast: float) -> Effect:
    """Draw fluid above the diaphragm; its surface, the meniscus, rises towards the chest wall."""
    opacity = np.zeros_like(chest.down)
    for lung in _affected(chest, finding):
        height = finding.extent * uniform(0.9, 1.1)
        rise = np.clip((lung.lateral - 0.04) / 0.33, 0, 1) ** 2.5
        surface = lung.base - height * (0.45 + 0.55 * rise)
        fluid = soft_step((chest.down - surface) / (1.5 * chest.edge + 0.012)) * soft_step(
            (lung.depth + 0.02) / chest.edge
        )
        opacity = opacity + fluid * soft_step(lung.lateral / chest.edge)
    return _opaque(0.65 * opacity, contrast)


def _pneumonia(chest: Chest, finding: PhantomClass, uniform: Uniform, contrast: float) -> Effect:
    """Draw a soft, patchy consolidation: several overlapping clouds around a position in the
    zone.
    """
    [lung] = _affected(chest, finding)
    place = lung.place(uniform(*ZONES[finding.zone]), uniform(-0.1, 0.5))
    size = uniform(0.045, 0.060) * (1.25 if finding.severity == "severe" else 1.0)
    clear = np.ones_like(chest.down)
    for _ in range(5):
        away = size * uniform(0, 1.1)
        turn = uniform(0, 2 * math.pi)
        share = uniform(0.5, 1)
        cloud = (place[0] + away * math.cos(turn), place[1] + away * math.sin(turn))
        clear = clear * (1 - 0.6 * share * np.exp(-_spot(lung, cloud, (size * share, size))))
    patchy = (1 - clear) * np.clip(1 + 0.15 * chest.mottle, 0, None)
    return _opaque(finding.extent * lung.inside * patchy, contrast)


def _pneumothorax(chest: Chest, finding: PhantomClass, uniform: Uniform, contrast: float) -> Effect:
    """Draw a dark crescent without lung texture between the chest wall and the pleural line, widest
    at the apex.
    """
    [lung] = _affected(chest, finding)
    width = finding.extent * uniform(0.85, 1.15)
    reach = (0.35, 0.5) if finding.severity == "small" else (0.75, 0.95)
    lowest = lung.place(uniform(*reach), 0)[1]
    height = np.clip((lowest - chest.down) / (lowest - lung.top), 0, 1)
    side = soft_step((lung.lateral - 0.08) / 0.01)  # the crescent does not follow the mediastinum
    line = width * height**0.6 * side
    left = np.sign(height) * (lung.depth - line)
    crescent = lung.inside * side * soft_step(-left / chest.edge) * (height > 0)
    thickness = max(0.0040, 0.5 * chest.edge)
    pleura = lung.inside * side * (height > 0.02) * bell(left / thickness)
    # the smaller the lung, the higher its density
    fallen = lung.inside * soft_step(left / chest.edge) * width
    air = 1 + contrast * (0.40 * crescent - 1.1 * fallen)
    return Effect(
        air=np.maximum(air, 1 - MOST),
        texture=1 - min(contrast, 1.0) * crescent,
        added=0.11 * contrast * pleura,
    )


def _atelectasis(chest: Chest, finding: PhantomClass, uniform: Uniform, contrast: float) -> Effect:
    """Draw plate-like lines above the diaphragm and, if moderate, a wedge from the hilum to the
    diaphragm.
    """
    opacity = np.zeros_like(chest.down)
    for lung in _affected(chest, finding):
        for _ in range(2):
            place = lung.place(uniform(0.80, 0.95), uniform(0.0, 0.5))
            angle = uniform(-0.35, 0.35)
            length = uniform(0.06, 0.10)
            plate = bell(_spot(lung, place, (length, max(0.007, chest.edge)), angle))
            opacity = np.maximum(opacity, plate * lung.inside)
        lean = uniform(0.10, 0.20)
        breadth = uniform(0.28, 0.40)
        if finding.severity == "moderate":
            lateral = lung.lateral - lung.hilum[0] - 0.02
            below = chest.down - lung.hilum[1] - 0.05
            wedge = breadth * below / 2 - np.abs(lateral - (lean + breadth / 2) * below)
            opacity = np.maximum(
                opacity, 0.85 * lung.inside * soft_step(wedge / 0.006) * soft_step(below / 0.01)
            )
    return _opaque(finding.extent * opacity, contrast)


def _nodule(chest: Chest, finding: PhantomClass, uniform: Uniform, contrast: float) -> Effect:
    """Draw a round, soft density."""
    [lung] = _affected(chest, finding)
    place = lung.place(uniform(*ZONES[finding.zone]), uniform(0.15, 0.75))
    radius = uniform(0.018, 0.028)
    distance = np.sqrt(_spot(lung, place, (radius, radius)))
    return Effect(added=finding.extent * contrast * soft_step((1 - distance) * radius / chest.edge))


def _granuloma(chest: Chest, finding: PhantomClass, uniform: Uniform, contrast: float) -> Effect:
    """Draw a small, calcified density."""
    [lung] = _affected(chest, finding)
    place = lung.place(uniform(*ZONES[finding.zone]), uniform(0.15, 0.75))
    radius = max(uniform(0.008, 0.012), chest.edge)
    return Effect(added=finding.extent * contrast * np.exp(-_spot(lung, place, (radius, radius))))


def _rib_fracture(chest: Chest, finding: PhantomClass, uniform: Uniform, contrast: float) -> Effect:
    """Draw a break in the ribs along a short section of the chest wall: a gap beyond which the ribs
    continue lower.
    """
    [lung] = _affected(chest, finding)
    place = lung.place(uniform(*ZONES[finding.zone]), uniform(0.55, 0.8))
    near = bell(_spot(lung, place, (0.055, 0.055)))
    beyond = soft_step((lung.lateral - place[0]) / (0.5 * chest.edge))
    gap = bell((lung.lateral - place[0]) / max(0.005, chest.edge))
    whole = chest.ribs(chest.down)
    broken = chest.ribs(chest.down - finding.extent * chest.patient.rib_width)
    change = beyond * (broken - whole) - gap * np.maximum(whole, broken)
    return Effect(added=1.3 * contrast * chest.patient.rib_density * chest.thorax * near * change)


# Each function takes the healthy chest, the class, a function that draws a number between two
# bounds, and the contrast: a factor that multiplies all densities and the heart's enlargement.
EFFECTS: dict[str, Callable[[Chest, PhantomClass, Uniform, float], Effect]] = {
    "cardiomegaly": _cardiomegaly,
    "edema": _edema,
    "effusion": _effusion,
    "pneumonia": _pneumonia,
    "pneumothorax": _pneumothorax,
    "atelectasis": _atelectasis,
    "nodule": _nodule,
    "granuloma": _granuloma,
    "rib fracture": _rib_fracture,
}
