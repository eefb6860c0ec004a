"""A small corpus of the phantom's reports on disk, and settings of a language model that trains in
seconds.
"""

from trueneg.data.phantom.corpus import prepare_phantom
from trueneg.text.language_models import train_language_models
from trueneg.text.sentences import split_reports

MODEL = {
    "model": None,
    "revision": None,
    "trust_remote_code": False,
    "train": True,
    "folds": 2,
    "validation": 0.2,
    "vocabulary": 400,
    "hidden": 16,
    "layers": 1,
    "heads": 2,
    "longest": 64,
    "epochs": 2,
    "patience": 2,
    "batch_size": 32,
    "learning_rate": 5e-3,
    "weight_decay": 0.01,
    "warmup": 0.1,
    "mask_share": 0.2,
    "validation_sentences": 30,
    "device": "cpu",
    "threads": 1,
    "checkpoint_minutes": 5.0,
}
SCORING = {
    "variant": "original",
    "tokens_per_batch": None,
    "device": "cpu",
    "threads": 1,
    "trust_remote_code": False,
}


def write_sentences(folder, reports=60):
    """Write reports, assigned, classes, sentences and unique.parquet to a folder, and return the
    path of the sentences.
    """
    paths = {
        name: folder / f"{name}.parquet"
        for name in ("reports", "assigned", "classes", "sentences", "unique")
    }
    prepare_phantom({"reports": reports, "exponent": 1.0, "correlation": 0.0}, 0, paths)
    split_reports(
        paths["reports"],
        sentences=paths["sentences"],
        unique=paths["unique"],
        cache=folder / "split",
    )
    return paths["sentences"]


def train(folder, **changes):
    """Train language models on the sentences in a folder, and return their manifest."""
    sentences, manifest = folder / "sentences.parquet", folder / "models.json"
    train_language_models(
        sentences, settings=MODEL | changes, seed=0, store=folder / "store", manifest=manifest
    )
    return manifest
