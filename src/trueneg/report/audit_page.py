"""The pages of an audit: what was found, and pairs to be rated."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pandas import DataFrame, Series

from trueneg.io.files import write_text
from trueneg.report.drawing import alternative_text, finish, in_style, panels, save
from trueneg.report.page.examples import data_uri
from trueneg.report.page.render import HERE, digests, embedded, joined, templates

FOLDER = HERE.parent / "audit"
DRAWN = ("by rank", "by similarity")  # tables with the share of false ones


def write_page(
    folder: Path,
    title: str,
    lead: str,
    lines: Sequence[str],
    tables: Mapping[str, DataFrame],
    pictures: Mapping[str, bytes] = {},
) -> Path:
    """Write what was found as ``index.html``, each table as a csv, and a figure.

    Args:
        folder: folder to write.
        title: what was looked at.
        lead: what it was read from.
        lines: sentences.
        tables: by name; empty ones are left out, and those with several shares of false ones are
            drawn, with their intervals if they have them.
        pictures: WebP images, by the cells of tables beside which they are shown.

    Returns:
        The path of the page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = {name: table for name, table in tables.items() if len(table)}
    for name, table in tables.items():
        table.to_csv(folder / f"{name.replace(' ', '_')}.csv", index=False)
    figure, description = None, ""
    if drawn := {
        name: tables[name] for name in DRAWN if name in tables and tables[name]["false"].count() > 1
    }:
        figure, description = _figure(folder, title, drawn)
    shown = {
        name: table.dropna(axis=1, how="all").apply(_shown).to_dict("split", index=False)
        for name, table in tables.items()
    }
    style = _style()
    content = (
        templates(FOLDER)
        .get_template("audit.html")
        .render(
            title=title,
            lead=lead,
            lines=lines,
            tables=shown,
            pictures=_embedded(pictures),
            figure=figure,
            description=description,
            style=style,
            digests=digests(style),
        )
    )
    path = folder / "index.html"
    write_text(path, content)
    return path


def write_rating_page(
    path: Path, title: str, sample: DataFrame, pictures: Mapping[str, bytes] = {}
) -> None:
    """Write a page on which pairs can be rated by keyboard.

    Args:
        path: file to write.
        title: what the pairs are from.
        sample: of :func:`trueneg.audit.ratings.write_sample`.
        pictures: WebP images of the anchors, by their names; empty: the anchors are texts.
    """
    style, script = _style(), joined(FOLDER, "*.js")
    page = templates(FOLDER).get_template("rating.html")
    content = page.render(
        title=title,
        sample=sample["sample"].iloc[0],
        pairs=sample.to_dict("records"),
        pictures=_embedded(pictures),
        style=style,
        script=script,
        digests=digests(style, script),
    )
    write_text(path, content)


def _embedded(pictures: Mapping[str, bytes]) -> dict[str, str]:
    return {name: data_uri(picture) for name, picture in pictures.items()}


def _style() -> str:
    return joined(HERE, "styles/base.css") + joined(FOLDER, "*.css")


@in_style()
def _figure(folder: Path, title: str, drawn: Mapping[str, DataFrame]) -> tuple[object, str]:
    figure, [plots] = panels(columns=len(drawn), width=1.0 + 3.5 * len(drawn), height=3.2)
    for plot, (name, table) in zip(plots, drawn.items(), strict=True):
        share = 100 * table["false"]
        ends = None
        if "low" in table:
            ends = [share - 100 * table["low"], 100 * table["high"] - share]
        plot.errorbar(table.iloc[:, 0].map(str), share, ends, marker="o", capsize=3)
        plot.set_ylim(0)
        plot.set_xlabel(name.removeprefix("by ").capitalize())
        plot.set_ylabel("False negatives (%)")
    finish(figure, "Share of false ones among the hard negatives of each band; 1 is the nearest.")
    png = save(figure, folder / "shares", title)[0]
    return embedded(png), alternative_text(figure)


def _shown(column: Series) -> Series:
    """Return a column as text; shares in per cent."""
    if column.name in ("similarity", "relative margin", "threshold"):
        return column.map("{:.4g}".format)
    if column.dtype.kind != "f":
        return column.map(str)
    return column.map(lambda share: "" if share != share else f"{100 * share:.3g} %")
