"""Figures use installed fonts for characters that DejaVu Sans lacks, and the log lists characters
that no font has.
"""

import logging
import warnings
from pathlib import Path

import pytest
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

from trueneg.report import drawing


@pytest.fixture(autouse=True)
def no_installed_fonts(monkeypatch):
    """Use only matplotlib's own font, so that the result does not depend on the machine."""
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    monkeypatch.setattr(drawing, "REPORTED", set())


def figure_of(title, names=("a", "b"), note="Note."):
    with drawing.in_style():
        figure, axes = drawing.panels()
        axes[0, 0].bar(names, range(len(names)))
        axes[0, 0].set_title(title)
        return drawing.finish(figure, note), axes[0, 0]


def test_characters_without_a_font_are_named_once(tmp_path, caplog):
    with warnings.catch_warnings(record=True) as shown, caplog.at_level(logging.WARNING, "trueneg"):
        warnings.simplefilter("always")
        for number in range(2):
            figure, _ = figure_of("心脏 η", names=("हृदय", "b"), note="정상 中")
            drawing.save(figure, tmp_path / str(number), "title")
    (record,) = caplog.records
    for part in ("心", "脏", "中", "정", "ह", "CJK", "HANGUL", "DEVANAGARI", "font"):
        assert part in record.getMessage()
    assert "η" not in record.getMessage()
    assert not [warning for warning in shown if "Glyph" in str(warning.message)]


def test_another_font_draws_what_the_first_one_lacks(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(
        font_manager, "findSystemFonts", lambda: [font_manager.findfont("STIXGeneral")]
    )
    lacking = "ℊ⎯"  # in STIXGeneral
    fonts = [
        set(map(chr, FT2Font(font_manager.findfont(name)).get_charmap()))
        for name in (drawing.FONT, "STIXGeneral")
    ]
    assert set(lacking) & fonts[0] == set()
    assert set(lacking) <= fonts[1]
    with caplog.at_level(logging.WARNING, "trueneg"):
        figure, axes = figure_of(lacking, names=(lacking, "b"))
        drawing.save(figure, tmp_path / "figure", "title")
    assert not caplog.records
    families = [text.get_fontfamily() for text in (axes.title, *axes.get_xticklabels())]
    assert families == [[drawing.FONT, "STIXGeneral"]] * 3


def test_figures_with_latin_and_greek_names_keep_their_font(tmp_path, monkeypatch):
    def written(name):
        return [
            path.read_bytes()
            for path in drawing.save(
                figure_of("N·η ≥ 3 é Ж", ("x$y", "Ö"))[0], tmp_path / name, "title"
            )
        ]

    with_choice = written("with")
    monkeypatch.setattr(Text, "set_fontfamily", lambda part, families: None)
    assert written("without") == with_choice


def test_a_font_that_cannot_be_read_is_passed_over(tmp_path, monkeypatch, caplog):
    (tmp_path / "BrokenSans-Regular.ttf").write_bytes(b"no font")
    monkeypatch.setattr(
        font_manager, "findSystemFonts", lambda: [str(Path(tmp_path, "BrokenSans-Regular.ttf"))]
    )
    with caplog.at_level(logging.WARNING, "trueneg"):
        figure_of("心")
    assert "心" in caplog.text
