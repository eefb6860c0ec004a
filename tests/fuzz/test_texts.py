"""What stands in reports, names and notes reaches tables, figures, page and logs as text: nothing of it is obeyed."""

import csv
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from types import SimpleNamespace

import pandas as pd
import pytest
from PIL import Image

from tests.fuzz.configurations import CONTROL
from tests.fuzz.guarded import unprintable
from tests.report import synthetic
from trueneg.legible import legible
from trueneg.report.drawing import finish as finish_figure
from trueneg.report.drawing import panels, save
from trueneg.report.figures.embedding import embedding
from trueneg.report.formats import Cell, Group, Table
from trueneg.report.formats import save as save_table
from trueneg.report.page import StudyPage, render_page

HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "</style></script><!-- ]]>",
    r"\input{/etc/passwd} \write18{ls} ^^41 % # & _ ~ {",
    r"$\frac{1}{$ and $5 \notacommand$",
    "a | b ` * _ [x](javascript:alert(1)) &lt;",
    "{0} %s %(asctime)s {{ 7 * 7 }} {% raw %}",
    CONTROL,
    "first\r\n2026-01-01 00:00:00  a line that nobody logged\u2028third",
    "word" * 5000,
    "\u202egnirts desrever\u202c \u0000 \ufeff",
    "=HYPERLINK(\"http://nowhere.invalid\")",
    "نص عربي 猫 🫁 e\u0301\u0301\u0301",
]  # fmt: skip


@pytest.fixture(params=range(len(HOSTILE)), ids=lambda number: f"text {number}")
def text(request):
    return HOSTILE[request.param]


def columns_of(line):
    return len(re.findall(r"(?<!\\)\|", line.replace("\\\\", "")))


def test_a_table_stays_a_table(text, tmp_path):
    values = pd.DataFrame({"name": [text, "b"], text: [1.5, 2.5]})
    lines = [(text, [Cell(text, bold=True), Cell("1")]), ("b", [Cell("2"), Cell(text)])]
    table = Table(values, [(text, "x"), ("", text)], [Group(text, lines)], notes=[text], corner=text)
    save_table(table, tmp_path / "table", text)
    written, markdown, latex = (tmp_path / f"table.{ending}" for ending in ("csv", "md", "tex"))
    with written.open(newline="", encoding="utf-8") as stream:
        assert list(csv.reader(stream))[1][0].replace("\r\n", "\n") == text.replace("\r\n", "\n")
    body = markdown.read_text(encoding="utf-8")
    rows = [line for line in body.split("\n") if line.startswith("| ")]
    assert len(rows) == 5
    assert {columns_of(row) for row in rows} == {4}
    assert not re.search(r"(?<!\\)[<>`]", body.replace("\\\\", ""))
    source = latex.read_text(encoding="utf-8")
    commands = set(re.findall(r"\\[A-Za-z]+", source))
    ours = {"begin", "centering", "small", "toprule", "midrule", "bottomrule", "multicolumn", "cmidrule", "emph", "textbf"}
    ours |= {
        "caption",
        "end",
        "bottomrule",
        "textbackslash",
        "textasciitilde",
        "textasciicircum",
        "textless",
        "textgreater",
        "pm",
        "eta",
    }
    assert commands <= {f"\\{name}" for name in ours}
    without = re.sub(r"\\[&%$#_{}\\]", "", source)
    assert without.count("{") == without.count("}")
    assert "%" not in without
    assert "#" not in without
    for made in (body, source):
        assert not unprintable(made)


def test_a_figure_shows_it_and_reads_no_formula(text, tmp_path):
    figure, axes = panels()
    axes[0, 0].plot([1, 10, 100], [1, 2, 3], label=text)
    axes[0, 0].set_xscale("log")
    axes[0, 0].set_title(text[:200])
    axes[0, 0].legend()
    png, _, svg = save(finish_figure(figure, [text], text), tmp_path / "figure", text)
    with Image.open(png) as image:
        image.load()
    ElementTree.parse(svg)
    assert all(label.get_parse_math() for label in axes[0, 0].get_xticklabels())  # the axis keeps its powers of ten


def test_a_study_of_hostile_names_is_drawn(text, tmp_path):
    coordinates = synthetic.coordinates(images=60)
    coordinates["label"] = coordinates["label"].astype(str) + text
    drawn = embedding(SimpleNamespace(read=lambda *files: coordinates, study_note=text), [])
    assert all(path.stat().st_size for path in save(drawn, tmp_path / "embedding", text))


class Reader(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, page):
        super().__init__()
        self.seen = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, sorted(name for name, _ in attrs if not name.startswith("data-"))))


def page_of(folder, text):
    table = Table(pd.DataFrame({"a": [text]}), [("", text)], [Group(text, [(text, [Cell(text)])])], notes=[text])
    study = StudyPage(
        "study",
        text,
        question=text,
        finding=text,
        answer=text,
        headroom=[text],
        warnings=[text],
        config=text,
        tables=[(text, text, table)],
        figures=[],
    )
    return render_page([study], folder / "index.html").read_text(encoding="utf-8")


def test_the_page_has_no_other_elements_than_with_harmless_words(text, tmp_path):
    assert Reader(page_of(tmp_path, text)).seen == Reader(page_of(tmp_path, "word")).seen


JOB = """
import logging, sys
from trueneg.errors import UserError
from trueneg.runtime.jobs import job

path, ending = sys.argv[1:]
text = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
with job(path):
    logging.getLogger("trueneg.text").info("report %s is empty", text)
    raise {"user's": UserError, "library's": ValueError}[ending](f"{text}: is not there; expected something else.")
"""


@pytest.mark.parametrize("ending", ["user's", "library's"])
def test_a_log_has_a_line_an_entry_and_nothing_that_steers(text, ending, tmp_path):
    path, given = tmp_path / "job.log", text.encode("utf-8", "surrogatepass")
    done = subprocess.run([sys.executable, "-c", JOB, path, ending], input=given, capture_output=True)
    assert done.returncode == 1
    logged = path.read_text(encoding="utf-8")
    assert not unprintable(logged)
    assert len(re.findall(r"^\d{4}-", logged, flags=re.MULTILINE)) == 2
    assert not unprintable(done.stderr.decode())


def test_what_is_legible_stays_as_it_is():
    for harmless in ("No acute disease.", "η → 猫 – “x”", "95\u00a0% t intervals", "1\u2009mm\n2\tmm", ""):
        assert legible(harmless) == harmless
