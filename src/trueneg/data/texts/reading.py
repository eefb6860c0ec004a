"""Read a text source, join it with class probabilities, and store it.

A module ``trueneg.data.texts.<name>`` of a source defines

- ``read_source(settings)``, which returns a :class:`~trueneg.data.texts.text_source.TextSource`
  without class probabilities;
- ``read_texts(settings)``, as modules of :mod:`trueneg.data.pairs.registry` do, with the settings
  of a likelihood study's texts: only those that training may look at;
- ``user_files(settings)`` and ``missing_files(settings)``, as there; and ``check_table(settings)``,
  which returns a sentence about skipped rows. :class:`~trueneg.data.texts.text_files.TextFiles` has
  all but the first.
"""

import dataclasses
import importlib
import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from trueneg.data.texts.text_source import TextSource, write_texts
from trueneg.io import privacy
from trueneg.specs.sections import Section

log = logging.getLogger(__name__)
PLACE = ["report", "index"]


def prepare_texts(settings: Section, text: Mapping[str, str | Path], texts: str | Path) -> None:
    """Read a source and write it with the class probabilities of a likelihood study, which are
    joined by text.

    Args:
        settings: the data set's settings that affect reading.
        text: files of the likelihood study by name: ``sentences``, ``eta`` and ``language_models``;
            empty: there is none.
        texts: .npz file to write; the texts themselves are written next to it.

    Raises:
        UserError: if a file is missing or damaged.
    """
    source = _read_source(settings)
    if text:
        # imports torch, which takes longer than reading
        from trueneg.text.loading import first_model

        listed, eta = (privacy.read_table(text[name])[0] for name in ("sentences", "eta"))
        scores = (
            listed[[*PLACE, "sentence"]]
            .merge(eta, on=PLACE)
            .drop(columns=PLACE)
            .drop_duplicates("sentence")
        )
        scored = source.sentences.merge(scores, on="sentence", how="left")
        model = first_model(text["language_models"]) if "language_models" in text else None
        source = dataclasses.replace(source, sentences=scored, language_model=model)
    Path(texts).parent.mkdir(parents=True, exist_ok=True)
    write_texts(source, texts)
    samples = len(source.anchors)
    different = len(np.unique(source.text_numbers[:, 0]))
    log.info(
        f"{source.name}: {source.summary}; {samples:,} samples, {samples - different:,} of them"
        f" equal to an earlier text. {source.skipped}"
    )


def first_look(settings: Section, cache: Path, decoded: float) -> tuple[TextSource, None]:
    """Read a source as :func:`prepare_texts` does, without class probabilities."""
    return _read_source(settings), None


def _read_source(settings: Section) -> TextSource:
    source: TextSource = importlib.import_module(
        f"trueneg.data.texts.{settings['source']}"
    ).read_source(settings)
    return source
