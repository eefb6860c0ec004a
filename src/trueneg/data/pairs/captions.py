"""Texts that belong to images by name, as the sentences of a likelihood study."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueneg.data.pairs.flickr8k import write_flickr_sentences
from trueneg.data.pairs.flickr30k import write_flickr30k_sentences
from trueneg.data.pairs.image_table import write_table_sentences


def write_captions(
    settings: Mapping[str, Any], *, sentences: str | Path, unique: str | Path, cache: str | Path, processes: int
) -> None:
    """Write the sentences of a source whose texts are captions, or texts in a table of images.

    Args:
        settings: ``source`` (flickr8k, flickr30k, image_table), and what the source's own function asks for.
        sentences, unique: parquet files to write, as :func:`trueneg.text.sentences.split_reports` does.
        cache: folder of texts that were split before.
        processes: that split.

    Raises:
        UserError: if something of the source is missing or damaged.
    """
    if settings["source"] == "image_table":
        write_table_sentences(settings, sentences=sentences, unique=unique, cache=cache, processes=processes)
    elif settings["source"] == "flickr30k":
        write_flickr30k_sentences(settings, sentences=sentences, unique=unique)
    else:
        write_flickr_sentences(settings, sentences=sentences, unique=unique)
