"""What MkDocs calls while it builds the site: pages made of the code, results that were added,
links into the project.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

import equations
from library import library_navigation, library_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from rules import rules_page

RULES = "reference/rules.md"
NEEDS = re.compile(r"^(```python) requires=\w+$", re.M)  # a word for the test that runs the block
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Draw equations, and let the navigation hold what is found: measurements and modules."""
    root = project(config)
    config.mdx_configs["pymdownx.superfences"] = {
        "custom_fences": [{"name": "math", "class": "equation", "format": equations.fenced}]
    }
    config.mdx_configs["pymdownx.inlinehilite"] = {
        "custom_inline": [{"name": "math", "class": "equation", "format": equations.inline}]
    }
    found: dict[str, list[Any]] = {
        "results": [
            f"results/{path.name}" for path in sorted((root / "docs/results").glob("*.md"))
        ],
        "benchmarks": [
            f"benchmarks/{path.name}" for path in sorted((root / "benchmarks").glob("*.md"))
        ],
        "library": library_navigation(root / "src/trueneg"),
    }
    config.nav = _filled(config.nav, found)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file under docs/ holds."""
    root = project(config)
    for place, text in generated(root).items():
        files.append(File.generated(config, place, content=text))
    for path, place in included(root).items():
        files.append(File.generated(config, place, abs_src_path=str(root / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to files of the project to their pages; where the site has none, name the file."""
    places = included(project(config))
    sources = {place: path for path, place in places.items()}
    source = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def followed(link: re.Match[str]) -> str:
        image, text, target, anchor = link.groups(default="")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if source.startswith("docs/") and path.startswith("docs/"):
            return link[0]
        place = places.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if place is None:
            return f"{text} (`{path}`)" if text.strip("`") != path else text
        relative = posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")
        return f"{image}[{text}]({relative}{anchor})"

    return LINK.sub(followed, NEEDS.sub(r"\1", markdown))


def project(config: MkDocsConfig) -> Path:
    """The project's folder."""
    return Path(config.config_file_path).parent


def generated(root: Path) -> dict[str, str]:
    """Markdown of the pages that are made of the code, by their place in the site."""
    return {RULES: rules_page(root), **library_pages(root / "src/trueneg")}


def included(root: Path) -> dict[str, str]:
    """Files of the project that are pages too: their path in the project, and their place in the
    site.
    """
    benchmarks = [f"benchmarks/{path.name}" for path in sorted((root / "benchmarks").glob("*.md"))]
    return {
        **{path: path for path in benchmarks},
        "CHANGELOG.md": "project/changelog.md",
        "CONTRIBUTING.md": "project/contributing.md",
        "results/README.md": "reference/results.md",
    }


def _filled(navigation: Any, found: dict[str, list[Any]]) -> Any:
    """The navigation with every entry written ``<name>`` replaced by what was found under that
    name.
    """
    if isinstance(navigation, dict):
        return {title: _filled(below, found) for title, below in navigation.items()}
    if not isinstance(navigation, list):
        return navigation
    filled = []
    for entry in navigation:
        name = entry[1:-1] if isinstance(entry, str) and entry.startswith("<") else None
        filled += found[name] if name is not None else [_filled(entry, found)]
    return filled
