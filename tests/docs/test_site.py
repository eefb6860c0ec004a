"""The site: equations are rendered, pages come from the code, nothing from other hosts, and the
build has no warnings.
"""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.docs.pages import PAGES, ROOT, blocks

MISSING = "the site's packages are not installed: make .venv/docs"
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object)[^>]+?(?:src|data)="""
    r"""["']?(?:https?:)?//[^\s"'>]+"""
    r"""|<link[^>]+rel=["']?(?:stylesheet|preload|preconnect|icon|modulepreload)[^>]+href="""
    r"""["']?(?:https?:)?//[^\s"'>]+"""
)
FETCHED = re.compile(r"""(?:@import\s+|url\()\s*["']?(?:https?:)?//""")


def hook(name, *needed):
    """A module of docs/hooks, where the packages that it needs are installed."""
    for package in needed:
        pytest.importorskip(package, reason=MISSING)
    spec = importlib.util.spec_from_file_location(f"hooks_{name}", ROOT / f"docs/hooks/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def equations():
    """Every equation of the docstrings and the pages."""
    docstrings = hook("docstrings", "griffe")
    found = [block.text for page in PAGES for block in blocks(page) if block.language == "math"]
    for path in (ROOT / "src/trueneg").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found += [f"{each['first']} {each['rest']}" for each in docstrings.EQUATION.finditer(text)]
        found += [
            each["target"] for each in docstrings.ROLE.finditer(text) if each["role"] == "math"
        ]
    return found


def test_every_equation_can_be_drawn():
    mathml = hook("equations", "latex2mathml", "pymdownx").mathml
    found = equations()
    assert any(r"\logsumexp" in equation or r"\sum" in equation for equation in found)
    for equation in found:
        text = equation.replace("\\\\", "\\")  # some docstrings are not raw
        assert mathml(text, block=True).count("<math") == 1


def test_an_equation_with_an_unknown_command_is_refused():
    mathml = hook("equations", "latex2mathml", "pymdownx").mathml
    with pytest.raises(ValueError, match="cannot be drawn"):
        mathml(r"\nosuchcommand{x}", block=True)


def test_the_rules_page_tells_every_rule_with_what_it_needs_and_makes():
    page = hook("rules").rules_page(ROOT)
    for path in (ROOT / "rules").glob("*.smk"):
        for name in re.findall(
            r"^(?:use rule \w+ as|rule) (\w+)(?: with)?:", path.read_text(encoding="utf-8"), re.M
        ):
            part = page.partition(f"### `{name}`\n\n")[2].partition("\n### ")[0]
            assert re.match(r"[^\n]{10,}\.\n", part), name
            assert "\noutput:\n" in part
            assert re.search(r"Script: `(workflow/scripts/\w+\.py)`", part), name
    targets = re.findall(r'^    "(\w+)":', (ROOT / "Snakefile").read_text(encoding="utf-8"), re.M)
    assert targets
    assert all(re.search(rf"\| `{target}` \| \w.+\. \|", page) for target in targets)


def test_every_module_has_a_page_that_the_navigation_leads_to():
    library, source = hook("library"), ROOT / "src/trueneg"
    pages = library.library_pages(source)
    assert len(pages) == len([path for path in source.rglob("*.py") if path.name != "__main__.py"])
    assert set(pages) == set(places(library.library_navigation(source)))
    assert "::: trueneg.losses.base" in pages["reference/library/losses/base.md"]


def places(navigation):
    """The pages that a navigation names."""
    for entry in navigation:
        below = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from [below] if isinstance(below, str) else places(below)


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_other_hosts(tmp_path):
    pytest.importorskip("mkdocs", reason=MISSING)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    pages = {
        path.relative_to(tmp_path).as_posix(): path.read_text(encoding="utf-8")
        for path in tmp_path.rglob("*.html")
    }
    assert {
        "index.html",
        "losses.html",
        "reference/library/losses/base.html",
        "reference/rules.html",
    } <= set(pages)
    assert not {name: LOADED.findall(text) for name, text in pages.items() if LOADED.search(text)}
    assert not [
        path for path in tmp_path.rglob("*.css") if FETCHED.search(path.read_text(encoding="utf-8"))
    ]
    assert "<math" in pages["estimators.html"]
    assert "mermaid" not in "".join(
        re.findall(r'<(?:pre|div) class="[^"]*"', "".join(pages.values()))
    )
    prose = {name: re.sub(r"<pre>.*?</pre>", "", text, flags=re.S) for name, text in pages.items()}
    left = {
        name: re.findall(r":(?:class|func|meth|mod|attr|data|math):<code>|\.\. math::", text)
        for name, text in prose.items()
    }
    assert not {name: found for name, found in left.items() if found}
