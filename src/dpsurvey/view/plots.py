"""Plots of a Release: each is a table and a picture of it. Offline, through Altair and vl-convert."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from ..design import Amplified, Poisson, SimpleRandom, Stratified
from ..errors import SurveyError
from ..ledger.terms import Terms
from ..mechanism import MECHANISMS
from ..privacy.profile import PrivacyProfile
from ..survey.plan import Plan
from ..survey.release import Release
from ..text.layout import drawn_up, group_text, title_text

SAMPLING, NOISE, INK, ACCENT = "#2f6690", "#e07a3f", "#2b2d33", "#b23a48"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
Rows = list[dict[str, Any]]


def forest_rows(release: Release) -> Rows:
    """The two-tone forest plot as a table: the interval, and the part of it that sampling alone would need.

    The inner part is the interval shrunk by the share of the standard error that sampling makes up.
    """
    rows = []
    for row in release.estimates:
        if row["ci_low"] is None or row["ci_high"] is None or row["estimate"] is None or not row["se"]:
            continue
        part = row["se_sampling"] / row["se"]
        rows.append(
            {
                "panel": title_text(row),
                "by": "" if row["statistic"] == "table" else ", ".join(row["by"]),
                "group": group_text(row["by"]),
                "estimate": row["estimate"],
                "ci_low": row["ci_low"],
                "ci_high": row["ci_high"],
                "sampling_low": row["estimate"] - part * (row["estimate"] - row["ci_low"]),
                "sampling_high": row["estimate"] + part * (row["ci_high"] - row["estimate"]),
            }
        )
    return rows


# Longer lists cannot be read as a picture, and a renderer of Vega gives up on them.
PANEL_ROWS, PANELS = 120, 40


def forest_plot(rows: Rows) -> alt.Chart | alt.VConcatChart:
    """Estimates with 95 % intervals: sampling error in blue, what privacy adds in orange. One panel per statistic.

    Of a long list the first `PANEL_ROWS` groups are drawn, and of many statistics the first `PANELS`: more is for the table.
    """
    by_panel: dict[tuple[str, str], Rows] = {}
    for row in rows:
        by_panel.setdefault((row["panel"], row["by"]), []).append(row)
    panels = []
    for title, every in list(by_panel.items())[:PANELS]:
        own = every[:PANEL_ROWS]
        base = alt.Chart(alt.Data(values=own)).encode(
            y=alt.Y("group:N", sort=[row["group"] for row in own], title=None, axis=alt.Axis(labelLimit=180, minExtent=130)),
        )
        scale = alt.Scale(zero=False, nice=True)
        outer = base.mark_rule(strokeWidth=6, color=NOISE).encode(x=alt.X("ci_low:Q", title=None, scale=scale), x2="ci_high:Q")
        inner = base.mark_rule(strokeWidth=6, color=SAMPLING).encode(x="sampling_low:Q", x2="sampling_high:Q")
        dot = base.mark_point(filled=True, size=34, color="white", stroke=INK, strokeWidth=1.4, opacity=1).encode(x="estimate:Q")
        name = title[0] + (f", by {title[1]}" if title[1] else "")
        name += f" (the first {len(own)} of {len(every):,})" if len(own) < len(every) else ""
        panels.append(
            (outer + inner + dot).properties(width=640, title=alt.TitleParams(name, anchor="start", frame="group", fontSize=13))
        )
    return alt.vconcat(*panels, spacing=14)


def rate_rows(release: Release, statistic: int = 0, points: int = 41) -> Rows:
    """Error by sampling rate at the same guarantee: standard errors of one number, as a table.

    The spread comes from the published estimates, so this is post-processing and costs nothing. Sampling error
    scales as sqrt((1-f)/f) from the published one; the noise is recalibrated at each rate by the design's own rule.
    """
    plan, row = release.plan(), release.estimates[statistic]
    own = plan.terms.design.largest_probability
    if row["se_sampling"] is None:
        return []
    rows: Rows = []
    for step in range(points):
        rate = (own / 10.0) ** (1.0 - step / (points - 1))
        noise = _noise_at(plan, row, own, min(rate, 1.0))
        if noise is None:
            continue
        sampling = row["se_sampling"] * math.sqrt(max(0.0, (1.0 - rate) / rate) * own / max(1.0 - own, 1e-12))
        rows.append({"rate": rate, "sampling": sampling, "noise": noise, "total": math.hypot(sampling, noise)})
    return rows


def _noise_at(plan: Plan, row: dict[str, Any], own: float, rate: float) -> float | None:
    """The published noise error, rescaled to another rate: scale by in-sample budget, denominator by the rate."""
    try:
        terms = replace(plan.terms, design=_with_rate(plan.terms, rate))
        ratio = _noise_scale(terms, plan.kind_of_noise) / _noise_scale(plan.terms, plan.kind_of_noise)
    except SurveyError:
        return None
    return float(row["se_noise"]) * ratio * own / rate


def _noise_scale(terms: Terms, noise: str) -> float:
    """Noise per unit of sensitivity when the whole in-sample budget is spent on one sum."""
    return MECHANISMS[noise].calibrate(terms.in_sample(noise), 1.0).scale


def _with_rate(terms: Terms, rate: float) -> Any:
    design = terms.design
    inside = design.within if isinstance(design, Stratified) and not isinstance(design.within, dict) else design
    other: SimpleRandom | Poisson = SimpleRandom(rate=rate) if isinstance(inside, SimpleRandom) else Poisson(rate)
    return (Stratified(design.by, other) if isinstance(design, Stratified) else other).resolve(terms.frame)


def rate_plot(rows: Rows, own_rate: float, title: str) -> alt.LayerChart:
    """Squared errors stacked over the rate; the least total and this survey's rate are marked."""
    best = min(rows, key=lambda row: float(row["total"]))
    names = {"sampling": "sampling error", "noise": "privacy noise"}
    long = [
        {"rate": row["rate"], "part": names[part], "share": float(row[part]) ** 2 / float(row["total"])}
        for row in rows
        for part in names
    ]
    colour = alt.Color(
        "part:N",
        title=None,
        scale=alt.Scale(domain=list(names.values()), range=[SAMPLING, NOISE]),
        legend=None,
    )
    x = alt.X("rate:Q", scale=alt.Scale(type="log", nice=False), title="sampling rate", axis=alt.Axis(format="~%"))
    area = (
        alt.Chart(alt.Data(values=long))
        .mark_area(opacity=0.9)
        .encode(x=x, y=alt.Y("share:Q", stack="zero", title="standard error, split by source"), color=colour)
    )
    here = alt.Chart(alt.Data(values=[{"rate": own_rate, "word": "this survey"}]))
    least = alt.Chart(alt.Data(values=[{"rate": best["rate"], "share": best["total"], "word": "least error"}]))
    marks = here.mark_rule(color=INK, strokeDash=[4, 3]).encode(x="rate:Q") + here.mark_text(
        align="left", dx=5, y=12, color=INK
    ).encode(x="rate:Q", text="word:N")
    dot = least.mark_point(filled=True, size=70, color=ACCENT).encode(x="rate:Q", y="share:Q") + least.mark_text(
        dy=-12, align="right", color=ACCENT
    ).encode(x="rate:Q", y="share:Q", text="word:N")
    return (area + marks + dot).properties(width=340, height=190, title=alt.TitleParams(title, anchor="start", fontSize=12))


def curve_rows(release: Release, points: int = 81) -> Rows:
    """delta by epsilon, before and after amplification, as a table."""
    guarantee = release.document["guarantee"]
    profiles = {
        "someone known to be in the sample": guarantee["in_sample_profile"],
        guarantee["sentence"].split(":")[0].lower(): guarantee["profile"],
    }
    reach = 1.1 * max(guarantee["known_in_sample"]["epsilon"], guarantee["epsilon"])
    rows = []
    for name, fields in profiles.items():
        profile = PrivacyProfile.from_dict(fields)
        for step in range(points):
            epsilon = reach * step / (points - 1)
            rows.append({"epsilon": epsilon, "delta": profile.delta(epsilon), "who": name})
    return rows


def curve_plot(rows: Rows) -> alt.Chart:
    """The privacy curve before and after amplification."""
    names = list(dict.fromkeys(row["who"] for row in rows))
    drawn = [row | {"epsilon": drawn_up(row["epsilon"]), "delta": drawn_up(row["delta"])} for row in rows]
    colour = alt.Color(
        "who:N",
        title=None,
        sort=names,
        scale=alt.Scale(domain=names, range=[NOISE, SAMPLING]),
        legend=alt.Legend(orient="top-right", labelLimit=420),
    )
    chart = (
        alt.Chart(alt.Data(values=drawn))
        .mark_line(strokeWidth=2.5)
        .encode(x=alt.X("epsilon:Q", title="ε"), y=alt.Y("delta:Q", title="δ at ε"), color=colour)
    )
    return chart.properties(width=640, height=230)


def is_amplified(release: Release) -> bool:
    """Whether sampling amplified the guarantee of a release."""
    return isinstance(release.plan().terms.amplification, Amplified)


def to_svg(chart: Any) -> str:
    """A chart as SVG, without a browser or a network."""
    import vl_convert

    styled = (
        chart.configure(font=FONT)
        .configure_view(stroke=None)
        .configure_axis(
            labelFlush=False, labelOverlap=True, labelColor=INK, titleColor=INK, titleFontWeight="normal", gridColor="#e8e8ea"
        )
    )
    return str(vl_convert.vegalite_to_svg(styled.to_json()))


def rate_subjects(release: Release) -> list[int]:
    """The numbers that the rate plots are about: of each kind of statistic, the one with the most even errors.

    Only sums of units that are drawn one by one follow the rate as these plots suppose.
    """
    rows: Sequence[dict[str, Any]] = release.estimates
    if not isinstance(release.plan().terms.design, SimpleRandom | Poisson | Stratified):
        return []

    def evenness(index: int) -> float:
        row = rows[index]
        return min(row["se_noise"] or 0.0, row["se_sampling"] or 0.0) / (row["se"] or math.inf)

    kinds = dict.fromkeys(row["statistic"] for row in rows if row["statistic"] in ("mean", "total", "proportion", "count"))
    return [max((index for index, row in enumerate(rows) if row["statistic"] == kind), key=evenness) for kind in kinds]


def rate_plots(release: Release) -> alt.ConcatChart | None:
    """Error by sampling rate, one panel for each kind of statistic of the release."""
    own = release.plan().terms.design.largest_probability
    panels = []
    for index in rate_subjects(release):
        row, rows = release.estimates[index], rate_rows(release, index)
        if len(rows) > 2:
            panels.append(rate_plot(rows, own, f"{title_text(row)}, {group_text(row['by'])}"))
    return alt.concat(*panels, columns=2) if panels else None


__all__ = [
    "ACCENT",
    "INK",
    "NOISE",
    "SAMPLING",
    "curve_plot",
    "curve_rows",
    "forest_plot",
    "forest_rows",
    "is_amplified",
    "rate_plots",
    "rate_rows",
    "rate_subjects",
    "to_svg",
]
