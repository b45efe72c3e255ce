"""An allocation computed from the confidential frame: possible, marked as such, and never used for a release."""

from __future__ import annotations

import math
from typing import Any

from ..design import Allocation, allocate
from ..design.frame import Frame
from ..errors import BadData, BadValue


def allocate_from_frame(frame: Frame, *, by: str, of: str, rule: str = "neyman", **more: Any) -> Allocation:
    """The allocation that a rule gives with the frame's own standard deviations of a column, by stratum.

    The sizes depend on everybody's record, so the allocation is marked as confidential: it is for planning inside the
    office, and no survey can be made with it. `more` is what the rule takes: n, minimum, costs, budget, se.

    >>> import pyarrow as pa
    >>> rows = pa.table({"id": [1, 2, 3, 4, 5, 6], "region": list("aaabbb"), "y": [1.0, 2.0, 3.0, 10.0, 20.0, 30.0]})
    >>> frame = Frame(rows, unit="id", size=6, categories={"region": {"a": 3, "b": 3}})
    >>> made = allocate_from_frame(frame, by="region", of="y", n=4, minimum=1)
    >>> made.takes, made.public
    ({'a': 1, 'b': 3}, False)
    """
    from ..engine import Engine, Expectations

    if by not in frame.category_sizes:
        raise BadValue(
            f"the sizes of {by!r} are not declared", hint=f'declare Frame(..., categories={{"{by}": {{label: size}}}})'
        )
    engine = Engine(frame.table)
    expected = Expectations(unit=frame.unit, numeric=(of,), categories={by: frame.labels(by)}, strata=by)
    engine.check_columns(expected)
    engine.check_rows(expected)
    deviations = engine.deviations(by, of, frame.labels(by))
    source = f"the confidential frame, column {of!r}"
    if "public" in more or not all(math.isfinite(each) for each in deviations.values()) or not any(deviations.values()):
        raise BadData(
            f"the spread of {of!r} in the strata cannot be used for an allocation",
            because="it must be finite, not zero everywhere, and stays confidential",
        )
    return allocate(rule, sizes=frame.category_sizes[by], deviations=deviations, source=source, public=False, **more)
