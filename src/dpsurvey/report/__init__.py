"""The report: one self-contained HTML page that opens offline. Sees a Release and nothing else."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment

from ..layout import number_text
from ..plot import curve_plot, curve_rows, forest_plot, forest_rows, is_amplified, rate_plots, to_svg
from ..privacy.guarantee import loss_text
from ..release import Release

COLUMNS = ("estimate", "se", "se_sampling", "se_noise", "cv", "ci_low", "ci_high")


def report_html(release: Release) -> str:
    """The page for a release: sentence, table, plots, assumptions, ledger.

    Everything on it comes from the published document, so a report can be made again at any time, at no cost.
    """
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        (files(__package__) / "page.html.j2").read_text(encoding="utf-8")
    )
    document = release.to_dict()
    forest, amplified = forest_rows(release), is_amplified(release)
    rates = rate_plots(release)
    return template.render(
        document=document,
        guarantee=document["guarantee"],
        design=_words(document["survey"]["design"]),
        tables=_tables(release),
        columns=COLUMNS,
        number=number_text,
        loss=loss_text,
        forest=to_svg(forest_plot(forest)) if forest else "",
        rates=to_svg(rates) if rates is not None else "",
        curve=to_svg(curve_plot(curve_rows(release))) if amplified else "",
        notes=sorted({note for row in release.estimates for note in row["notes"]}),
        hash=release.hash,
    )


def _tables(release: Release) -> list[dict[str, Any]]:
    """Estimates grouped by statistic, with one column per grouping."""
    tables: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in release.estimates:
        key = (row["statistic"], row["of"], row["value"], tuple(row["by"]))
        what = row["label"]
        name = f"{row['statistic']} of {what}" if what else row["statistic"]
        tables.setdefault(key, {"name": name, "by": list(row["by"]), "rows": []})["rows"].append(row)
    return list(tables.values())


def _words(design: dict[str, Any]) -> str:
    """A design in words."""
    if design["kind"] == "poisson":
        return f"Poisson sampling, each unit with probability {design['rate']:g}"
    if design["kind"] == "srs":
        return "simple random sampling of " + (f"{design['n']:,} units" if "n" in design else f"{design['rate']:g} of the units")
    within = design["within"]
    inside = (
        _words(within)
        if isinstance(within.get("kind"), str)
        else "; ".join(f"{label}: {_words(each)}" for label, each in within.items())
    )
    return f"stratified by {design['by']}, inside each stratum {inside}"
