"""The report: one self-contained HTML page that opens offline. Sees a Release and nothing else."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment

from ..privacy.guarantee import KNOWN
from ..survey.errors_by_rate import release_curves
from ..survey.estimates import shown_columns, statistics_of
from ..survey.quality import RULE
from ..survey.release import Release
from ..survey.response_rate import response_text
from ..text.formats import FORMATS
from ..text.layout import ceiling_text, floor_text, given_text, number_text
from .plots import curve_plot, forest_plot, forest_rows, rate_plots, to_svg


def report_html(release: Release) -> str:
    """The page for a release: sentence, table, plots, assumptions, ledger.

    Everything on it comes from the published document, so a report can be made again at any time, at no cost.
    """
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        (files(__package__) / "page.html.j2").read_text(encoding="utf-8")
    )
    document = release.to_dict()
    guarantee, forest, rates = release.guarantee, forest_rows(release), rate_plots(release_curves(release))
    return template.render(
        mark=FORMATS[".html"].mark,
        document=document,
        guarantee=document["guarantee"],
        who=guarantee.who.lower(),
        known=KNOWN,
        design=release.plan().terms.design.in_words(),
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
    for statistic, row in zip(statistics_of(release.plan()), release.estimates, strict=True):
        key = (row["statistic"], row["label"], tuple(row["by"]))
        table = {"name": statistic.title(row["label"]), "by": list(row["by"]), "titled": statistic.labelled_by_groups, "rows": []}
        tables.setdefault(key, table)["rows"].append(row)
    return list(tables.values())
