"""What an image–text study costs before its data is there: operations of its trainings, and disk; and which data is missing.

The numbers of images are those of the published sets. Operations are counted on the networks without computing anything; what a
GPU makes of them in an hour is an assumption (:data:`SUSTAINED`), which the text says.
"""

from pathlib import Path
from typing import NamedTuple

from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.runs import Run, all_runs
from trueneg.data.pairs import chexpert_8x200
from trueneg.data.pairs.mimic_cxr import missing_reports
from trueneg.data.pairs.registry import source_module

SUSTAINED = 1e14  # operations a second
TOKENS = 32  # of a sentence, with its start and end
SHAPE, BERT_BASE = ("hidden", "layers", "vocabulary"), (768, 12, 30_522)
TRAINING = 3  # operations of a training step, in forward passes


class SetSize(NamedTuple):
    """How large a published set is.

    Attributes:
        images: in all.
        training: of them, by what an epoch draws one pair of: image, study.
        channels: of an image.
    """

    images: int
    training: dict[str, int]
    channels: int


class Networks(NamedTuple):
    """Both encoders of a run.

    Attributes:
        operations: of one pair's forward pass, a multiplication and an addition being two.
        weights: how many.
    """

    operations: float
    weights: int


# MIMIC-CXR: frontal images as in the first paper, studies as in ReCo; Flickr30k: Karpathy's splits.
SIZES = {
    "mimic_cxr": SetSize(243_000, {"image": 234_073, "study": 217_000}, 1),
    "flickr30k": SetSize(31_783, {"image": 29_000, "study": 29_000}, 3),
}


def missing_data(study: ImageTextStudy | LikelihoodStudy) -> list[str]:
    """What is missing of the files that a study reads, a line each: what, and where to get it. Opens nothing large."""
    if isinstance(study, LikelihoodStudy):
        texts, settings = study.reports, study.reports.model_dump()
        if texts.captions:
            return source_module(texts.source).missing_files(settings)
        if texts.source == "mimic_cxr":
            return missing_reports(settings)
        absent = texts.source == "table" and not Path(settings["path"]).expanduser().exists()
        return [f"reports.path, {settings['path']}: your own"] if absent else []
    settings, chexpert = study.dataset.model_dump(), study.evaluation.chexpert_8x200
    # Images without a path of their own are where their captions are.
    found = source_module(study.dataset.source).missing_files(settings) if "path" in settings else []
    return found + (chexpert_8x200.missing_files(chexpert.model_dump()) if chexpert is not None else [])


def cost_text(name: str, study: ImageTextStudy) -> str | None:
    """GPU hours and disk of a study on a published set whose files are not there; None for other data."""
    size = SIZES.get(study.dataset.source)
    if size is None:
        return None
    runs = [run for run in all_runs(name, study) if run.settings["objective"]["name"] != "released"]
    networks: dict[str, Networks] = {}
    operations = weights = 0.0
    for run in runs:
        key = repr([run.settings[section] for section in ("dataset", "encoder", "text_encoder", "augmentation")])
        if key not in networks:
            networks[key] = _networks(run, size.channels)
        operations += TRAINING * networks[key].operations * _pairs(run, size)
        weights += networks[key].weights
    resolutions = {run.settings["dataset"]["resolution"] for run in runs}
    pixels = sum(size.images * size.channels * resolution**2 for resolution in resolutions)
    mean, hours = operations / max(len(runs), 1), operations / SUSTAINED / 3600
    return (
        f"{len(runs)} runs of {mean / 1e15:,.0f} PFLOP each on average: about {hours:,.0f} GPU hours in all, at "
        f"{SUSTAINED / 1e12:.0f} TFLOP/s sustained (assumed, not measured); {2 * pixels / 1e9:,.0f} GB of disk for decoded "
        f"images, half of it a cache that may go, and {4 * weights / 1e9:,.0f} GB for models."
    )


def _pairs(run: Run, size: SetSize) -> float:
    """Pairs that a run learns from."""
    training = run.settings["training"]
    if training["updates"] is not None:
        return training["updates"] * training["batch_size"]
    units = size.training[training["unit"]]
    if run.settings["dataset"]["images"] is not None:
        units = min(units, run.settings["dataset"]["images"])
    return training["epochs"] * (units // training["batch_size"]) * training["batch_size"]


def _networks(run: Run, channels: int) -> Networks:
    """Counted on tensors without content; a hub's text encoder as a BERT-base."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from trueneg.models.spatial_encoders import build_spatial_encoder

    encoder, text = run.settings["encoder"], run.settings["text_encoder"]
    side = round(run.settings["dataset"]["resolution"] * run.settings["augmentation"]["crop"])
    # CLIP's own ResNet-50 has three convolutions in its stem, and attention in place of pooling; the rest is ResNet-50's.
    name = "resnet50" if encoder["name"] == "clip" else encoder["name"]
    options = {"width": encoder["width"], "in_channels": channels} if name == "small" else {}
    with torch.device("meta"):
        network, images = build_spatial_encoder(name, **options), torch.zeros(1, channels, side, side)
        with FlopCounterMode(display=False) as counter:
            network(images)
    hidden, layers, vocabulary = (text.get(key, default) for key, default in zip(SHAPE, BERT_BASE, strict=True))
    of_tokens = 12 * layers * hidden**2
    weights = sum(value.numel() for value in network.parameters()) + of_tokens + vocabulary * hidden
    return Networks(float(counter.get_total_flops()) + 2 * of_tokens * TOKENS, weights)
