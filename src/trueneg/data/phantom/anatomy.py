"""The phantom's anatomy: attenuation in a frontal chest radiograph of a healthy patient, without
any finding.

Lengths are in units of the image width, so the patient is the same at any resolution. As on every
film, the patient faces the
reader: the patient's LEFT side, with the apex of the heart, is on the image's RIGHT. ``across``
increases towards the patient's left and ``down`` towards the feet, both from the middle of the
patient; ``lateral`` increases from the spine towards the chest wall on either side.
"""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from trueneg.data.phantom.patients import Patient
from trueneg.data.phantom.shapes import bell, joined, length, rotated, smooth_noise, soft_step

SIDES = {"right": -1, "left": 1}  # the direction of ``across`` towards that side
MOTTLE = 36  # noise cells across the image: fine mottle of the lungs
SHADE = 7  # and gradual shading of soft tissue
HIDDEN = 0.92  # share of the lung's air that the heart's shadow hides
TALLEST = 2.5  # exponent of the lung's outline: 2 is an ellipse, larger values approach a rectangle
MIDDLE = 0.10  # vertical position at which the lungs are widest
SLOPE = 4.6  # steepness of the film's characteristic curve
HALF = 0.53  # attenuation of mid-grey


class Lung:
    """One lung of one patient; maps of shape (H, W).

    Attributes:
        lateral: distance from the spine towards this side.
        down: coordinate that increases towards the feet.
        depth: distance inward from the chest wall; negative outside the chest.
        above: distance above the diaphragm.
        inside: mask of the lung, from 0 to 1.
        top: vertical position of the top of the lung.
        floor: vertical position of the top of the diaphragm.
        base: vertical position of the costophrenic angle.
        hilum: lateral and vertical position of the hilum.
    """

    def __init__(self, patient: Patient, side: str, lateral: ndarray, down: ndarray, edge: float):
        up = np.maximum(MIDDLE - down, 0) / patient.apex
        out = lateral - _middle(up)
        reach = np.where(out > 0, np.float32(0.18), np.float32(0.14))
        aside = np.abs(out) / reach
        radius = (aside**2 * np.sqrt(aside) + up**2 * np.sqrt(up)) ** np.float32(1 / TALLEST)
        bend = (lateral - 0.17) / 0.2
        self.lateral = lateral
        self.down = down
        self.top = MIDDLE - patient.apex
        # Distance to the outline along the ray from the middle.
        self.depth = np.maximum(length(out, up * patient.apex) / np.maximum(radius, 1e-3), 0.14) * (
            1 - radius
        )
        self.floor = patient.dome + (patient.dome_difference if side == "left" else 0.0)
        self.above = (
            self.floor + np.where(bend > 0, patient.angle * bend**2, 0.05 * bend**2) - down
        ) / 1.2
        self.inside = soft_step(np.minimum(self.depth, self.above) / edge)
        self.base = self.floor + 0.8 * patient.angle
        self.hilum = (0.075, -0.02 if side == "left" else 0.0)

    def place(self, height: float, breadth: float) -> tuple[float, float]:
        """Return (lateral, down) for `height` from 0 (apex) to 1 (diaphragm) and `breadth` from −1
        (spine) to 1 (chest wall).
        """
        down = self.top + height * (self.floor - self.top)
        up = np.clip((MIDDLE - down) / (MIDDLE - self.top), 0, 1)
        reach = 0.18 if breadth > 0 else 0.14
        return float(_middle(up) + breadth * reach * (1 - up**TALLEST) ** (1 / TALLEST)), float(
            down
        )


class Chest:
    """A random healthy patient on one film: float32 maps of shape (H, W), in units of attenuation
    unless stated otherwise.

    The same generator yields the same patient at any resolution. Without findings, the film
    (:func:`film`) shows ``tissue + bones + texture − air``.

    Args:
        generator: random generator used only for the patient.
        resolution: side of the square film, in pixels.

    Attributes:
        patient: the patient.
        across: coordinate that increases towards the patient's left.
        down: coordinate that increases towards the feet.
        edge: width of all edges.
        lungs: the two lungs, keyed by the patient's side (``right``, ``left``).
        tissue: soft tissue.
        bones: spine, ribs, clavicles, shoulders.
        texture: vessels and mottle of the lungs.
        air: attenuation subtracted for the air in the lungs.
        shadow: mask of the heart and the great vessels, from 0 to 1.
        thorax: mask of the region that can contain ribs, from 0 to 1.
        mottle: fine, smooth noise with a standard deviation of about 1.
    """

    def __init__(self, generator: np.random.Generator, resolution: int):
        self.patient = patient = Patient(generator)
        self.mottle = smooth_noise(generator, MOTTLE, resolution)
        shade = smooth_noise(generator, SHADE, resolution)
        phases = generator.uniform(0, 2 * np.pi, (2, 6)).astype(np.float32)
        self.across, self.down = across, down = _posed(patient, resolution)
        self.edge = max(patient.sharpness, 0.4 / resolution)
        self.lungs = {
            side: Lung(patient, side, sign * across, down, self.edge)
            for side, sign in SIDES.items()
        }
        lungs = self.lungs.values()
        self.shadow = self.heart_shadow(self.heart_depth(1.0))
        vessels = sum(map(_vessels, lungs, phases))
        inside = sum(lung.inside for lung in lungs)
        aired: Any = 0.0
        for lung in lungs:
            inward = np.maximum(np.minimum(lung.depth, lung.above), 0)
            aired = aired + lung.inside * (0.55 + 0.45 * np.tanh(inward / 0.08))
        aired = aired * (1 - HIDDEN * self.shadow)
        for lung in lungs:
            aside = (lung.lateral - lung.hilum[0] - 0.03) / 0.15
            below = (down - lung.hilum[1]) / 0.2
            aired = aired * (1 - patient.crowding * np.exp(-(aside**2 + below**2)))
            aired = aired * (1 - patient.dependent * np.exp(-np.abs(lung.above) / 0.06))
        self.thorax = soft_step((np.maximum(*(lung.depth for lung in lungs)) + 0.012) / self.edge)
        self.tissue = (
            self._soft_tissue()
            + patient.shade * shade
            + patient.uneven_across * across
            + patient.uneven_down * down
        )
        covered = patient.rib_density * (0.3 + 0.7 * inside * (1 - 0.6 * self.shadow)) * self.thorax
        self.bones = self._spine_and_shoulders() + covered * self.ribs(down)
        self.texture = patient.vessels * vessels + patient.mottle * inside * self.mottle
        self.air = patient.aeration * aired

    def ribs(self, down: ndarray) -> ndarray:
        """Return a map (0 to 1) of posterior ribs that slope down outwards and of fainter anterior
        ribs that slope down inwards.

        Args:
            down: (H, W) vertical coordinates: those of the chest, or those displaced by a fracture.
        """
        lateral = np.abs(self.across)
        behind = (
            (1.2 * lateral - 0.12)
            * lateral
            * self.patient.rib_slope
            * (0.8 + 1.2 * np.maximum(down + 0.3, 0))
        )
        before = 0.09 + 0.85 * (0.37 - lateral) - 0.9 * (0.37 - lateral) ** 2
        shown = soft_step((lateral - 0.15) / 0.02)
        return np.maximum(
            self._rib_band(down - behind), 0.55 * shown * self._rib_band(down - before)
        )

    def _rib_band(self, level: ndarray) -> ndarray:
        patient = self.patient
        number = (level - patient.rib_start) / patient.rib_spacing
        distance = np.abs(number - np.rint(number)) * patient.rib_spacing
        band = soft_step((patient.rib_width - distance) / (0.6 * self.edge))
        # The cortex: both margins are denser than the interior.
        margin = bell((distance - 0.75 * patient.rib_width) / (0.3 * patient.rib_width))
        return (0.7 * band + 0.3 * margin) * ((number > -0.5) & (number < patient.ribs))

    def heart_depth(self, enlargement: float) -> ndarray:
        """Return the distance inward from the heart's outline, in image widths; `enlargement` 1 is
        the healthy heart.
        """
        size = self.patient.heart * enlargement
        across = self.across
        down = self.down
        # The heart rests on the diaphragm, so it enlarges sideways and upwards, mostly to the left.
        centre = 0.048 + 0.06 * (enlargement - 1)
        level = 0.145 - 0.06 * (enlargement - 1)
        along, beside = rotated(across - centre, down - level, self.patient.heart_lean)
        ventricle = 1 - length(along / (0.165 * size), beside / (0.112 * size))
        atrium = 1 - length(
            (across + 0.022 * enlargement) / (0.076 * size), (down - 0.12) / (0.120 * size)
        )
        return 0.11 * joined(ventricle, atrium, 0.06)

    def heart_shadow(self, heart: ndarray) -> ndarray:
        """Return the mask (0 to 1) of the central shadow: the heart, given its depth, and the great
        vessels above it.
        """
        across = self.across
        down = self.down
        half = (
            self.patient.mediastinum
            + 0.05 * np.maximum(-0.25 - down, 0)
            + 0.02 * np.maximum(down + 0.15, 0)
        )
        band = half - np.abs(across - 0.005)
        knob = self.patient.knob - length(across - 0.055, 0.8 * (down + 0.135))
        trunk = 0.044 - length(across - 0.055, 0.6 * (down + 0.035))
        return soft_step(
            joined(joined(joined(band, knob, 0.007), trunk, 0.010), heart, 0.010) / self.edge
        )

    def _soft_tissue(self) -> ndarray:
        patient = self.patient
        across = self.across
        down = self.down
        lateral = np.abs(self.across)
        shoulder = soft_step((-0.16 - down) / 0.025)
        wall = 0.43 + 0.02 * np.cos(4 * down) + 0.3 * shoulder - lateral
        neck = soft_step((0.125 - lateral) / 0.012)
        top = down + 0.56 - 0.42 * lateral + 0.6 * neck
        body = soft_step(np.minimum(wall, top) / (1.5 * self.edge))
        thickness = (
            0.66
            + 0.10 * (1 - (lateral / 0.45) ** 2)
            + 0.06 * down
            - 0.10 * shoulder * (lateral / 0.45) ** 2
        )
        below = 1 - soft_step(np.maximum(*(lung.above for lung in self.lungs.values())) / 0.012)
        thickness = thickness + 0.06 * below + 0.10 * bell(lateral / 0.06)
        stomach = soft_step(
            (1 - length((across - 0.16) / 0.075, (down - self.lungs["left"].floor - 0.085) / 0.045))
            / 0.2
        )
        trachea = soft_step((0.016 - np.abs(across - 0.004)) / self.edge) * soft_step(
            (-0.10 - down) / 0.02
        )
        breast = soft_step((1 - length((lateral - 0.22) / 0.15, (down - 0.15) / 0.13)) / 0.12)
        thickness = (
            thickness
            - max(patient.gas, 0) * stomach
            - 0.11 * trachea
            + max(patient.breasts, 0) * breast
        )
        return body * thickness

    def _spine_and_shoulders(self) -> ndarray:
        patient = self.patient
        down = self.down
        lateral = np.abs(self.across)
        edge = self.edge
        vertebra = soft_step((0.032 - lateral) / edge) * (
            0.7 + 0.3 * np.cos(2 * np.pi * down / 0.062)
        )
        line = (
            patient.clavicle
            + patient.clavicle_slope * (lateral - 0.03)
            - 0.012 * np.sin(18 * lateral)
        )
        clavicle = soft_step((0.013 - np.abs(down - line)) / edge) * soft_step(
            (lateral - 0.035) / 0.006
        )
        clavicle = clavicle * soft_step((0.40 - lateral) / 0.01)
        humerus = soft_step((0.055 - length(lateral - 0.455, down + 0.27)) / edge)
        blade = soft_step((lateral - 0.335 - 0.15 * (down + 0.2)) / edge) * soft_step(
            (0.02 - down) / 0.02
        )
        blade = blade * soft_step((down + 0.3) / 0.02) * soft_step((0.41 - lateral) / 0.02)
        return patient.spine * vertebra + 0.10 * clavicle + 0.12 * humerus + 0.03 * blade


def film(patient: Patient, attenuation: ndarray) -> ndarray:
    """Map attenuation to grey levels (0 to 255) with a film's S-shaped characteristic curve, which
    never fully saturates.
    """
    return 255 * soft_step(SLOPE * patient.gain * (attenuation + patient.exposure - HALF))


def _posed(patient: Patient, resolution: int) -> tuple[ndarray, ndarray]:
    places = ((np.arange(resolution) + 0.5) / resolution - 0.5).astype(np.float32)
    right = places[None] - patient.shift_across
    down = places[:, None] - patient.shift_down
    cos = math.cos(patient.rotation) / patient.size
    sin = math.sin(patient.rotation) / patient.size
    across = (cos * right + sin * down) / patient.breadth
    return across.astype(np.float32), (cos * down - sin * right).astype(np.float32)


def _middle(up: ndarray | float) -> ndarray | float:
    return 0.19 - 0.065 * up**2


def _vessels(lung: Lung, phases: ndarray) -> ndarray:
    """Draw vessels that leave the hilum, branch and taper."""
    lateral = lung.lateral - lung.hilum[0]
    below = lung.down - lung.hilum[1]
    distance = length(lateral, below)
    angle = np.arctan2(below, lateral)
    total = 0.8 * np.exp(-((lateral / 0.035) ** 2) - (below / 0.08) ** 2)
    begins = 0.01
    for branches, fade, phase in zip(
        (5, 9, 17), (0.10, 0.13, 0.20), phases.reshape(3, 2), strict=True
    ):
        bend = 0.35 * np.sin(17 * distance + phase[1]) + 0.12 * np.sin(53 * distance + 2 * phase[0])
        ridge = np.cos(0.5 * branches * (angle + bend) + phase[0]) ** 2
        for _ in range(3):  # 8th power: repeated squaring is a hundred times faster than a power
            ridge = ridge * ridge
        total = total + 0.6 * ridge * np.exp(-distance / fade) * np.tanh((distance / begins) ** 2)
        begins = 2.5 * begins
    return lung.inside * total
