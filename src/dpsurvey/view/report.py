"""The report: one self-contained HTML page that opens offline. Sees a Release and nothing else."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment

from ..privacy.guarantee import KNOWN
from ..survey.estimates import shown_columns
from ..survey.quality import RULE
from ..survey.release import Release
from ..survey.response import response_text
from ..text.formats import FORMATS
from ..text.layout import ceiling_text, floor_text, given_text, number_text, title_text
from .plots import curve_plot, forest_plot, forest_rows, rate_plots, to_svg


def report_html(release: Release) -> str:
    """The page for a release: sentence, table, plots, assumptions, ledger.

    Everything on it comes from the published document, so a report can be made again at any time, at no cost.
    """
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        (files(__package__) / "page.html.j2").read_text(encoding="utf-8")
    )
    document = release.to_dict()
    guarantee, forest, rates = release.guarantee, forest_rows(release), rate_plots(release)
    return template.render(
        mark=FORMATS[".html"].mark,
        document=document,
        guarantee=document["guarantee"],
        who=guarantee.who.lower(),
        known=KNOWN,
        design=_words(document["survey"]["design"]),
        tables=_tables(release),
        columns=(*shown_columns(release.estimates), "quality"),
        rule=RULE,
        number=number_text,
        loss=ceiling_text,
        left=floor_text,
        given=given_text,
        forest=to_svg(forest_plot(forest)) if forest else "",
        rates=to_svg(rates) if rates is not None else "",
        curve=to_svg(curve_plot(guarantee.curves())) if release.amplified else "",
        notes=sorted({note for row in release.estimates for note in row["notes"]}),
        response=response_text(document["response"]) if "response" in document else "",
        hash=release.hash,
    )


def _tables(release: Release) -> list[dict[str, Any]]:
    """Estimates grouped by statistic, with one column per grouping."""
    tables: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in release.estimates:
        key = (row["statistic"], row["label"], tuple(row["by"]))
        by = list(row["by"])
        name = title_text(row)
        tables.setdefault(key, {"name": name, "by": by, "titled": row["statistic"] == "table", "rows": []})["rows"].append(row)
    return list(tables.values())


def _words(design: dict[str, Any]) -> str:
    """A design in words."""
    kind = design["kind"]
    if kind == "stratified":
        within = design["within"]
        inside = (
            _words(within)
            if isinstance(within.get("kind"), str)
            else "; ".join(f"{label}: {_words(each)}" for label, each in within.items())
        )
        return f"stratified by {design['by']}, inside each stratum {inside}"
    amount = f"{design['n']:,} units" if isinstance(design.get("n"), int) else f"{design.get('rate', 0)} of the units"
    words = {
        "poisson": f"Poisson sampling, each unit with probability {design.get('rate')}",
        "srs": f"simple random sampling of {amount}",
        "with-replacement": f"{design.get('n')} draws with replacement",
        "poisson-by": f"Poisson sampling, each unit with its own probability in {design.get('rate')}",
        "proportional": f"a simple random share of {design.get('rate')}",
        "systematic": f"systematic sampling of {amount}",
        "pps": f"{design.get('n')} units with chances in proportion to {design.get('size')}, {design.get('method')}",
        "collected": "a file that was collected already",
    }
    if kind == "cluster":
        return f"clusters of {design['cluster']}, drawn by {_words(design['how'])}".replace("units", "clusters")
    if kind == "stages":
        return "; inside each drawn cluster ".join(_words(each) for each in design["stages"])
    return words.get(kind, str(kind))
