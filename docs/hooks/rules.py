"""The page of the rules, read from rules/*.smk as snakefmt lays them out: what each needs and
makes, in its own words.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HEADER = """# Rules

Every step of the pipeline, one file of rules per stage, in the order in which data flow.
Functions without a module are those of `rules/common.smk`; `setting` and `growing` are methods of
[JobSettings](library/planning/job_settings.md), and `trainings`, `corpora` and `data_inputs` are
[TrainingJobs](library/planning/training_jobs.md), [Corpora](library/planning/corpora.md) and
[DataInputs](library/planning/data_inputs.md). The
wildcards in file names are `{study}`, `{dataset}`, `{objective}` and `{block}` (of seeds). A
job's log and resource use are named after its rule and its wildcards, such as
`results/{study}/logs/train/{dataset}/{objective}/{block}.log` and, under `timings`, the same as
`.jsonl`.
"""
ORDER = ("text", "data", "train", "evaluate", "theory", "report")
SHOWN = ("input", "output", "threads", "resources")
RULE = r"^(?:# (.+)\n)?(?:use )?rule (\w+)(?: as (\w+) with)?:\n((?:    .*\n|\n)+)"


class Rule(NamedTuple):
    """A rule as it is written.

    Attributes:
        name: the rule's.
        docstring: its sentence.
        parts: the text below each of its directives.
        script: the script that it runs, relative to the project; empty if none.
    """

    name: str
    docstring: str
    parts: dict[str, str]
    script: str


def rules_page(root: Path) -> str:
    """Markdown: a section for every file of rules, a part for every rule, and the targets of the
    Snakefile.

    Args:
        root: the project's folder.

    Raises:
        ValueError: if a rule has no docstring, or there is a file of rules that the page does not
            know.
    """
    present = {path.stem for path in (root / "rules").glob("*.smk")} - {"common"}
    if present != set(ORDER):
        raise ValueError(
            f"rules/ holds {', '.join(sorted(present))}; docs/hooks/rules.py lists"
            f" {', '.join(ORDER)}."
        )
    everything = "everything that the configuration asks for, and the page"
    parts = [HEADER, f"## Targets\n\n| name | makes |\n|---|---|\n| *(none)* | {everything} |"]
    parts += [
        "\n".join(
            f"| `{name}` | {made} |" for name, made in read_targets(root / "Snakefile").items()
        )
    ]
    for stage in ORDER:
        path = root / "rules" / f"{stage}.smk"
        parts += [
            f"\n## {stage.replace('_', ' and ').capitalize()}\n\n`rules/{stage}.smk`."
            f" {heading(path)}\n"
        ]
        parts += [_section(rule) for rule in read_rules(path)]
    return "\n".join(parts) + "\n"


def heading(path: Path) -> str:
    """What a file of rules says of itself: its first comment."""
    lines = [
        line.removeprefix("#").strip()
        for line in _leading_comment(path.read_text(encoding="utf-8"))
    ]
    return " ".join(line for line in lines if line)


def read_rules(path: Path) -> list[Rule]:
    """The rules of a file, in its order; a rule that derives from another has a comment instead of
    a docstring.
    """
    found: dict[str, Rule] = {}
    text = path.read_text(encoding="utf-8")
    for comment, name, derived, body in re.findall(RULE, text, re.M):
        parts = dict(re.findall(r"^    (\w+):(.*(?:\n        .*|\n(?=\n?        ))*)", body, re.M))
        if derived:
            found[derived] = Rule(derived, comment, found[name].parts | parts, found[name].script)
            continue
        docstring = re.match(r'    """(.+?)"""\n', body, re.S)
        script = re.search(
            r'^        "\.\./(workflow/scripts/\w+\.py)"', parts.get("script", ""), re.M
        )
        found[name] = Rule(
            name,
            " ".join(docstring[1].split()) if docstring else "",
            parts,
            script[1] if script else "",
        )
    return list(found.values())


def read_targets(path: Path) -> dict[str, str]:
    """The named targets of the Snakefile, with what each makes: the comment above a target and
    those that follow it.
    """
    _, _, table = path.read_text(encoding="utf-8").partition("for target, wanted in {\n")
    targets, comment = {}, ""
    for line in re.findall(r'^    (# .+|"\w+":)', table.partition("\n}")[0], re.M):
        if line.startswith("# "):
            comment = line.removeprefix("# ")
        else:
            targets[line.strip('":')] = comment
    return targets


def _section(rule: Rule) -> str:
    if not rule.docstring:
        raise ValueError(f"The rule {rule.name} has no docstring.")
    body = "\n".join(f"{name}:{rule.parts[name].rstrip()}" for name in SHOWN if name in rule.parts)
    body = re.sub(r"^        ", "    ", body, flags=re.M)
    script = f"\n\nScript: `{rule.script}`" if rule.script else ""
    return f"### `{rule.name}`\n\n{rule.docstring}{script}\n\n```python\n{body}\n```\n"


def _leading_comment(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        yield line
