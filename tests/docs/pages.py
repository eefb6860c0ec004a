"""The project's Markdown: pages, headings, links, blocks of code and commands."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.projects import ROOT

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        ROOT / "results/README.md",
    ]
)
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)(?P<options>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.M | re.S,
)
PROGRAMS = ("snakemake", "trueneg", "make", "pip", "python", "mkdocs")


class Block(NamedTuple):
    """A fenced block of a page.

    Attributes:
        page: its page, relative to the project.
        line: of its fence.
        language: the word after the fence.
        options: the rest of the line.
        text: its content.
    """

    page: str
    line: int
    language: str
    options: str
    text: str

    @property
    def title(self) -> str:
        """The file that it is to be written to; empty if none."""
        found = re.search(r'title="([^"]+)"', self.options)
        return found[1] if found else ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def name_of(page: Path) -> str:
    """A page's path in the project."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, section: str = "") -> Iterator[Block]:
    """The fenced blocks of a page, or of the section under this second-level heading, in order."""
    text = page.read_text(encoding="utf-8")
    start = text.index(f"\n## {section}\n") if section else 0
    end = text.find("\n## ", start + 1) if section else -1
    for found in FENCE.finditer(text, start, len(text) if end < 0 else end):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(name_of(page), line, found["language"], found["options"].strip(), found["text"])


def indented(page: Path) -> list[str]:
    """The lines of a page's indented blocks, without their comments."""
    lines = re.findall(r"^(?: {4}|\t)(.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return [re.sub(r"\s+#.*$", "", line).strip() for line in lines]


def prose(page: Path) -> str:
    """A page without its fenced blocks, its indented ones and its code in backticks."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"(?:(?<=\n\n)|\A)(?:(?: {4,}|\t)[^\n]*\n|\n(?= {4}))+", "", text)
    return re.sub(r"(`+)(?:(?!\1).)+\1", "", text)


def links(page: Path) -> list[str]:
    """Targets of a page's links and images."""
    return re.findall(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)", prose(page))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(
        r"^#{1,6} +(.+?) *#*$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M
    ):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        names.add(f"{slug}-{count}" if count else slug)
    return names


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """The command lines that a page names, each with the place where it stands: in blocks,
    indented, and in backticks.
    """
    text = page.read_text(encoding="utf-8")
    shells = [
        block.text for block in blocks(page) if block.language in ("bash", "sh", "console", "shell")
    ]
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCE.sub("", text))
    lines = [line for shell in shells for line in re.sub(r"\\\n\s*", " ", shell).splitlines()]
    for line in [*lines, *indented(page), *spans]:
        command = re.sub(r"\s+#.*$", "", line).strip()
        command = re.sub(r"^(?:\w+=\S+ +)+", "", command).removeprefix(".venv/bin/")
        if command.split(" ")[0] in PROGRAMS and command != command.split(" ")[0]:
            yield name_of(page), command
