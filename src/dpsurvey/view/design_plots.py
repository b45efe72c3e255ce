"""The comparison of designs as a picture."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import altair as alt

from ..errors import BadValue
from ..text.layout import ceiling_text, drawn_up, given_text
from ..text.writing import carries, check_place, write_file
from .plots import ACCENT, INK, SAMPLING, to_svg

# By what sampling does to a loss.
COLOURS = {"smaller": SAMPLING, "no gain": "#8a8d93", "worse": ACCENT}
# What a picture of ours says of itself; only such a picture is replaced.
MADE_BY = "picture by dpsurvey"
# Signature and first chunk of a PNG, in bytes.
PNG_HEAD = 33


def compare_plot(rows: list[dict[str, Any]], rate: float, epsilon: float) -> Any:
    """Losses as points on a log scale, the mechanism's own loss as a line: right of it sampling makes things worse."""
    shown = [
        {
            "design": f"{row['design']}  ({row['base']} → {row['neighbours']})",
            "epsilon": drawn_up(row["epsilon"]),
            "text": ceiling_text(row["epsilon"]) + ("" if row["exact"] else " (bound)"),
            "effect": row["effect"],
        }
        for row in rows
        if row["epsilon"] is not None
    ]
    losses = [row["epsilon"] for row in rows if row["epsilon"] is not None]
    low, high = min(losses) / 1.5, max(losses) * 3.0
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    base = alt.Chart(alt.Data(values=shown)).encode(
        y=alt.Y(
            "design:N", sort=[row["design"] for row in shown], title=None, axis=alt.Axis(labelLimit=430, minExtent=390, grid=True)
        ),
        x=alt.X("epsilon:Q", title="ε for the protected population, log scale", scale=scale, axis=alt.Axis(tickCount=6)),
    )
    colour = alt.Color(
        "effect:N",
        title=None,
        legend=alt.Legend(orient="bottom"),
        scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
    )
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(color=colour)
    words = base.mark_text(align="left", dx=9, color=INK).encode(text="text:N")
    line = alt.Chart(alt.Data(values=[{"own": drawn_up(epsilon, 12)}])).mark_rule(strokeDash=[4, 3], color=INK).encode(x="own:Q")
    title = alt.TitleParams(
        f"Same sampling rate ({rate:g}), same ε = {given_text(epsilon)} on the sample: what the population gets",
        subtitle="clusters and systematic samples of 10 units; in brackets: what the noise covers → what the guarantee covers",
        anchor="start",
    )
    return (line + dots + words).properties(width=560, title=title)


def save_plot(chart: Any, file: Path) -> None:
    """Write the picture as SVG or PNG, by the ending of the file's name; an earlier picture of ours is replaced."""
    ending = file.suffix.lower()
    if ending not in (".svg", ".png"):
        raise BadValue("a plot is a file that ends in .svg or .png", given=file.name)
    check_place(file, replaces=carries(MADE_BY))
    drawing = to_svg(chart)
    if ending == ".png":
        import vl_convert

        write_file(file, _marked(vl_convert.svg_to_png(drawing, scale=2)), replaces=carries(MADE_BY))
    else:
        write_file(file, f"{drawing}\n<!-- {MADE_BY} -->\n", replaces=carries(MADE_BY))


def _marked(picture: bytes) -> bytes:
    """A PNG that says which software made it, in the chunk of text that the format has for that."""
    chunk = b"tEXt" + f"Software\0{MADE_BY}".encode("latin-1")
    return b"".join(
        [picture[:PNG_HEAD], struct.pack(">I", len(chunk) - 4), chunk, struct.pack(">I", zlib.crc32(chunk)), picture[PNG_HEAD:]]
    )
