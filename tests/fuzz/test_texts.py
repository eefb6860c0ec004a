"""Text of reports, names and notes has no effect in tables, figures and logs (pages:
tests/report/test_page.py).
"""

import csv
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest
from PIL import Image

from tests.fuzz.attempts import unprintable
from tests.fuzz.changes import CONTROL
from trueneg.legible import legible
from trueneg.report.drawing import finish as finish_figure
from trueneg.report.drawing import panels, save
from trueneg.report.formats import Cell, Table
from trueneg.report.formats import save as save_table

TEXTS = {
    "HTML": "<script>alert(1)</script></style><img src=x onerror=alert(1)><!-- ]]> &lt;",
    "LaTeX": r"\input{/etc/passwd} \write18{ls} ^^41 % # & _ ~ { $\frac{1}{$ and $5 \notacommand$",
    "Markdown": "a | b ` * _ [x](javascript:alert(1)) {0} %s {{ 7 * 7 }}",
    "control characters": CONTROL + "\u202egnirts desrever\u202c \u0000 \ufeff",
    "lines": "first\r\n2026-01-01 00:00:00  an entry that was not logged\u2028third",
    "other scripts": "word" * 2000 + "نص عربي 猫 🫁 e\u0301\u0301\u0301",
}
OWN_COMMANDS = [
    "begin",
    "end",
    "centering",
    "small",
    "toprule",
    "midrule",
    "bottomrule",
    "multicolumn",
    "cmidrule",
    "emph",
    "caption",
    "pm",
    "eta",
]
ESCAPES = ["textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater"]


@pytest.fixture(params=TEXTS.values(), ids=TEXTS)
def text(request):
    return request.param


def test_a_table_keeps_its_structure(text, tmp_path):
    values = pd.DataFrame({"name": [text, "b"], text: [1.5, 2.5]})
    lines = [(text, text, [Cell(text), Cell("1")]), (text, "b", [Cell("2"), Cell(text)])]
    table = Table(values, [(text, "x"), ("", text)], lines, notes=[text], corner=text)
    save_table(table, tmp_path / "table", text)
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as stream:
        assert list(csv.reader(stream))[1][0].replace("\r\n", "\n") == text.replace("\r\n", "\n")
    latex = (tmp_path / "table.tex").read_text(encoding="utf-8")
    assert set(re.findall(r"\\([A-Za-z]+)", latex)) <= {*OWN_COMMANDS, *ESCAPES}
    unescaped = re.sub(r"\\[&%$#_{}\\]", "", latex)
    assert unescaped.count("{") == unescaped.count("}")
    assert not re.search(r"[%#]", unescaped)
    assert not unprintable(latex)


def test_a_figure_shows_the_text_instead_of_formulas(text, tmp_path):
    figure, axes = panels()
    axes[0, 0].plot([1, 10, 100], [1, 2, 3], label=text)
    axes[0, 0].set_xscale("log")
    axes[0, 0].set_title(text[:200])
    axes[0, 0].legend()
    png, _, svg = save(finish_figure(figure, text), tmp_path / "figure", text)
    with Image.open(png) as image:
        image.load()
    ElementTree.parse(svg)
    # the axis keeps its powers of ten
    assert all(label.get_parse_math() for label in axes[0, 0].get_xticklabels())


JOB = """
import logging, sys
from trueneg.errors import UserError
from trueneg.runtime.jobs import job

path, ending = sys.argv[1:]
text = sys.stdin.buffer.read().decode()
with job(path):
    logging.getLogger("trueneg.text").info("report %s is empty", text)
    error = {"user's": UserError, "library's": ValueError}[ending]
    raise error(f"{text}: is not there; expected something else.")
"""


@pytest.mark.parametrize("ending", ["user's", "library's"])
def test_a_log_has_one_line_per_entry_and_no_control_characters(ending, tmp_path):
    path, text = tmp_path / "job.log", " ".join(TEXTS.values())
    done = subprocess.run(
        [sys.executable, "-c", JOB, path, ending], input=text.encode(), capture_output=True
    )
    assert done.returncode == 1
    logged = path.read_text(encoding="utf-8")
    assert not unprintable(logged)
    assert len(re.findall(r"^\d{4}-", logged, flags=re.MULTILINE)) == 2
    assert not unprintable(done.stderr.decode())


def test_harmless_text_is_not_escaped():
    for harmless in (
        "No acute disease.",
        "η → 猫 – “x”",
        "95\u00a0% t intervals",
        "1\u2009mm\n2\tmm",
        "",
    ):
        assert legible(harmless) == harmless
