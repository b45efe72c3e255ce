"""Check a survey file, its columns and every row against what is declared. Spends nothing."""

from __future__ import annotations

from ..privacy.running import Running
from ..survey.survey_file import SurveyFile
from .options import Engine, File, Json, new_app
from .output import emit, progress_bars

PLACE_IN_HELP = 20

app = new_app()


@app.command()
def check(file: File, engine: Engine = "duckdb", as_json: Json = False) -> None:
    """Check a survey file, its columns and every row against what is declared. Spends nothing.

    Example: `dpsurvey check survey.toml`
    """
    survey_file = SurveyFile.read(file)
    with progress_bars() as bars:
        survey = survey_file.survey(bars, engine=engine)
        plan = survey_file.plan(survey) if survey_file.statistics() else None
        survey.check(plan)
    terms = survey.terms
    guarantee = str(terms.guarantee(Running().plus(terms.most_of_all(terms.budget.measure))))
    amplified = str(terms.amplification)
    lines = ["ok", *(f"Note: {what}." for what in terms.not_compared), amplified[0].upper() + amplified[1:], guarantee]
    answer = {
        "ok": True,
        "survey": terms.to_dict(),
        "guarantee": guarantee,
        "amplification": amplified,
        "not_compared": list(terms.not_compared),
    }
    emit(answer, "\n".join(lines), as_json)
