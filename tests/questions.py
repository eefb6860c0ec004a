"""Made-up questions for tests of text training: labels of different sizes, repeated and respelled
texts, pairs, and vectors.
"""

import copy
import functools
from typing import Any

import numpy as np
import pandas as pd
import torch

from trueneg.data.pairs.pair_source import distinct_texts
from trueneg.data.samples import Subset
from trueneg.data.stored_features import StoredFeatures
from trueneg.data.texts.text_files import source_of
from trueneg.data.texts.text_source import TextSource
from trueneg.data.texts.text_splits import text_subset
from trueneg.specs.objectives import OF_PAIRS
from trueneg.specs.settings import tag_of
from trueneg.training.frozen import Frozen
from trueneg.training.text_pairs import TextPairs

# texts of each label
LABELS = {"card": 32, "cash": 20, "fee": 14, "limit": 10, "refund": 8, "transfer": 6, "wallet": 6}
VERBS, PLACES = (
    ("block", "change", "find", "get", "lose", "see", "stop", "want"),
    ("abroad", "at home", "here", "now", "today"),
)
SPELLINGS = ("{}", "{} .", "{}!", "{}  ?")
# Every setting of a run, small: what a test changes it says.
SETTINGS: dict[str, dict[str, Any]] = {
    "dataset": {
        "source": "text_table",
        "positives": "same_label",
        "labels": None,
        "validation": 0.1,
        "test": 0.1,
        "text": None,
        "rated": None,
    },
    "text_encoder": {
        "name": "sentence_transformers",
        "model": "made up",
        "revision": None,
        "offline": True,
        "truncate": True,
    }
    | {"maximum_tokens": None, "train": "none"},
    "projection": {"name": "linear", "dimensions": 6, "hidden": None, "dropout": 0.0},
    "similarity": {"logit_scale": 8.0, "learned_logit_scale": True, "maximum_logit_scale": 100.0},
    "training": {
        "kind": "text",
        "epochs": None,
        "updates": 3,
        "batch_size": 12,
        "optimizer": "adamw",
        "learning_rate": 0.03,
        "weight_decay": 0.01,
        "warmup_updates": 0,
        "schedule": "cosine",
        "device": "cpu",
        "threads": 1,
        "devices": 1,
        "runs_per_device": 1,
        "checkpoint_minutes": 5.0,
    },
    "objective": {"name": "cl", "directions": "text", "same_text": "exclude"},
}


def settings_of(
    objective: dict[str, Any] | None = None, **sections: Any
) -> dict[str, dict[str, Any]]:
    """The settings with another objective, which leaves out equal texts like text studies, and with
    changes to other sections.
    """
    changed = copy.deepcopy(SETTINGS)
    for name, values in sections.items():
        changed[name] = changed.get(name, {}) | values
    if objective is None:
        return changed
    model = next(model for model in OF_PAIRS if objective["name"] in tag_of(model)[1])
    defaults = {"same_text": "exclude"} if objective.get("same_text") is None else {}
    return changed | {"objective": model.model_validate(objective | defaults).model_dump()}


def question_source(
    given: bool = False, hard: int = 0, *, language_model: Any = None, **changes: Any
) -> TextSource:
    """Questions, a quarter of which occur twice, spelled differently; equal texts have the same
    label.

    Args:
        given: whether each has an answer, of which a label has only a few.
        hard: hard negatives of each pair; some are the pair's own answer, and some another label's
            question.
        language_model: embeds the sentences.
        changes: columns of the sentences to replace.
    """
    generator, rows = np.random.default_rng(0), []
    for label, size in LABELS.items():
        for number in generator.permutation(len(VERBS) * len(PLACES))[:size]:
            text = f"{VERBS[number % len(VERBS)]} my {label} {PLACES[number // len(VERBS)]}"
            rows += [(label, text)] * (1 + (generator.random() < 0.25))
    spelled = [
        SPELLINGS[number % 4].format(text.upper() if number % 3 else text)
        for number, (_, text) in enumerate(rows)
    ]
    table = pd.DataFrame({"split": "", "label": [label for label, _ in rows], "text": spelled})
    if given:
        table["split"] = generator.choice(
            ["train", "validation", "test"], len(rows), p=[0.8, 0.1, 0.1]
        )
        drawn = zip(
            table["label"], table["split"], generator.integers(5, size=len(rows)), strict=True
        )
        answers = [f"Answer {number} of {label} in {split}" for label, split, number in drawn]
        table["answer"] = answers
        for number in range(hard):
            others = [f"Wrong answer {generator.integers(40)}" for _ in rows]
            kinds = generator.choice(3, len(rows), p=[0.7, 0.15, 0.15])
            another = generator.permutation(spelled)
            options = zip(others, (f"{answer}!" for answer in answers), another, strict=True)
            table[f"hard {number}"] = [
                texts[kind] for kind, texts in zip(kinds, options, strict=True)
            ]
    source = source_of({"source": "questions"}, table, "")
    texts = source.sentences["sentence"]
    values = dict(
        zip(pd.unique(texts), 0.01 + 0.2 * generator.random(texts.nunique()), strict=True)
    )
    eta = texts.map(values)
    columns = {
        "eta": eta,
        "eta permuted": generator.permutation(eta),
        "eta constant": eta.mean(),
        "eta by length": eta / 2,
    }
    sentences = source.sentences.assign(**columns | changes)
    return TextSource(
        source.name, sentences, source.pairs, source.label_names, language_model=language_model
    )


def subset_of(source: TextSource, dataset: dict[str, Any] | None = None, seed: int = 0) -> Subset:
    """Draw the subset of a seed."""
    return text_subset(source, with_pairs_of(source, dataset or SETTINGS["dataset"]), seed)


def with_pairs_of(source: TextSource, dataset: dict[str, Any]) -> dict[str, Any]:
    """The settings of a data set with the source's pairs, if there are any."""
    return dataset | ({"positives": "given"} if source.has_positives else {})


@functools.lru_cache(maxsize=32)
def vectors_of(
    source: TextSource, dimensions: int = 6, seed: int = 0, dtype: Any = np.float32
) -> StoredFeatures:
    """Random vectors of the distinct texts: close for equal labels, as the frozen tower's. A text
    alone decides its vector.
    """
    texts = distinct_texts(source)
    topics = {
        label: np.random.default_rng([seed, place]).standard_normal(dimensions)
        for place, label in enumerate(LABELS)
    }
    rows = []
    for text in texts:
        noise = np.random.default_rng([seed, *text.encode()]).standard_normal(dimensions)
        rows.append(
            noise + sum(vector for label, vector in topics.items() if label in text.lower())
        )
    return StoredFeatures(np.array(rows, dtype)[:, None, :, None], None, "weights", source.checksum)


def frozen_of(source: TextSource, dtype: Any = np.float32, **others: StoredFeatures) -> Frozen:
    """The vectors in place of the tower, and those of other sections."""
    rows = {text: row for row, text in enumerate(distinct_texts(source))}
    return Frozen({"text_encoder": vectors_of(source, dtype=dtype), **others}, rows)


def started(
    source: TextSource, settings: dict[str, Any], frozen: Frozen | None = None, **others: Any
) -> TextPairs:
    """A new run of seed 0."""
    settings = settings | {"dataset": with_pairs_of(source, settings["dataset"])}
    subset = subset_of(source, settings["dataset"])
    return TextPairs(
        settings,
        0,
        source,
        subset,
        torch.device("cpu"),
        frozen=frozen or frozen_of(source),
        **others,
    )
