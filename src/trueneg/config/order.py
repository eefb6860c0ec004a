"""Training order: the longest run goes first, so that no device waits for it at the end (longest
processing time first).

Only the order matters, so costs are counted in network operations and derived from the settings
alone: the plan is the same on every machine, regardless of earlier runs.
"""

from trueneg.config.runs import is_of_texts
from trueneg.specs.encoders import is_frozen
from trueneg.specs.kinds import kind_of
from trueneg.specs.objectives.released import NOT_TRAINED
from trueneg.specs.sections import RunSettings, Section

# towers of other libraries are taken for a ViT-B/16 or a BERT base
TOWER = 17.6 / 224**2
TOWER_SIDE = 224
FROZEN = 0.003  # head of a frozen tower, per sample
BERT_BASE = {"hidden": 768, "layers": 12}
TOKENS = 32  # per sentence
# Number of training images and image side in pixels, for sources whose settings do not state them;
# other sources: ASSUMED_….
SIZES = {
    "digits": 1_800,
    "cifar10": 50_000,
    "stl10": 5_000,
    "phantom": 3_000,
    "open_i": 3_700,
    "flickr30k": 29_000,
}
SIZES |= {"mimic_cxr": 234_000}
SIDES = {"digits": 8, "cifar10": 32, "stl10": 96}
ASSUMED_SIZE = 10_000
ASSUMED_SIDE = 32


def relative_cost(settings: RunSettings) -> float:
    """Estimate the relative cost of a training run in GFLOP of forward passes; 0 if nothing is
    trained.

    Args:
        settings: resolved settings of a run, by section.

    Example:
        >>> training = {"kind": "images", "epochs": None, "updates": 100, "batch_size": 64}
        >>> run = {
        ...     "training": training,
        ...     "dataset": {"source": "cifar10", "resolution": None},
        ...     "objective": {"name": "cl"},
        ... }
        >>> small, large = ({**run, "encoder": {"name": name}} for name in ("resnet18", "resnet50"))
        >>> round(relative_cost(large) / relative_cost(small), 2)
        2.34
    """
    if settings["objective"]["name"] in NOT_TRAINED:
        return 0.0
    training = settings["training"]
    if training["updates"]:
        samples = training["updates"] * training["batch_size"]
    else:
        samples = training["epochs"] * image_count(settings["dataset"])
    return samples * sum(_pass_cost(settings, section) for section in kind_of(settings).PASSES)


def _pass_cost(settings: RunSettings, section: str) -> float:
    """Estimate the GFLOP of a forward pass of one sample through an encoder."""
    if is_of_texts(section):
        # positives without a tower of their own share that of the anchors
        return text_cost(settings.get(section, settings["text_encoder"]))
    return image_cost(settings)


def text_cost(text: Section) -> float:
    """Estimate the GFLOP of a forward pass of one text."""
    text = {**BERT_BASE, **text}
    return FROZEN if is_frozen(text) else 24 * text["layers"] * text["hidden"] ** 2 * TOKENS / 1e9


def image_cost(settings: RunSettings) -> float:
    """Estimate the GFLOP of a forward pass of one augmented image."""
    dataset = settings["dataset"]
    encoder = settings["encoder"]
    if is_frozen(encoder):
        return FROZEN
    if "train" in encoder:  # a tower, which resizes images
        return TOWER * (encoder.get("resolution") or TOWER_SIDE) ** 2
    stated = settings.get("augmentation", {}).get("size") or dataset["resolution"]
    side = stated or SIDES.get(dataset["source"], ASSUMED_SIDE)
    per_pixel = kind_of(settings).PER_PIXEL[encoder["name"]]
    return per_pixel * side**2 * encoder.get("width", 1) ** 2


def image_count(dataset: Section) -> float:
    """Estimate the number of images per epoch, assuming that half of the classes are rare and
    reduced to `fraction`.
    """
    # MIMIC-CXR has 377,000 images, 1.6 times as many as its frontal images.
    most = dataset.get("images") or (1.6 if dataset.get("views") == "all" else 1) * SIZES.get(
        dataset["source"], ASSUMED_SIZE
    )
    if dataset.get("images_per_class"):
        most = min(most, 10 * dataset["images_per_class"])
    return most * (1 + dataset.get("fraction", 1.0)) / 2 + (dataset.get("unlabelled") or 0)
