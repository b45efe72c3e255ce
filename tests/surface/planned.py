"""A survey to plan with: a small and a large stratum of a frame that nobody reads."""

import dpsurvey as ds

N, REGIONS = 10_000, {"k": 500, "l": 9_500}
FRAME = ds.Frame("not there.parquet", unit="id", size=N, categories={"g": REGIONS, "h": ["a", "b"]})
TO_FRAME = ds.Setting("frame", neighbours="replace-one")
BY_GROUP = {"k": (40.0, 9.0), "l": (60.0, 20.0)}


def a_survey(design=None, setting=TO_FRAME, epsilon=1.0):
    """The survey, by five percent of each stratum if nothing else is said."""
    made = design or ds.stratified("g", within=ds.srs(rate=0.05))
    return ds.Survey(FRAME, made, setting, budget=ds.Budget(epsilon), ledger="not there.ledger")
