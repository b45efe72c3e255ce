"""`dpsurvey local leakage, choose, guarantee`: what is leaked, what it costs, and what can be guaranteed."""

from __future__ import annotations

from typing import Annotated

from ..errors import BadValue
from .local import Option, Plot, QuestionFile, app
from .talk import Json, emit, say


@app.command()
def leakage(
    file: QuestionFile,
    respondents: Annotated[
        int | None, Option(help="Respondents behind the published counts; by default as many up to 8 as can be enumerated.")
    ] = None,
    epsilon: Annotated[float, Option(help="Show delta at this epsilon.")] = 1.0,
    audit: Annotated[int, Option(help="Also simulate this many releases and bound epsilon from below.")] = 0,
    confidence: Annotated[float, Option(help="With --audit: the confidence of the bound.")] = 0.95,
    yes: Annotated[int, Option(help="Sampling Privacy: the count whose error is compared.")] = 100,
    among: Annotated[int, Option(help="Sampling Privacy: among this many respondents.")] = 10_000,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Show exactly what a mechanism leaks, for every view, enumerated from the client's own code.

    Example: `dpsurvey local leakage question.toml --respondents 6 --plot leakage.svg`

    Example: `dpsurvey local leakage paper.toml --audit 10000` (`question paper.toml --example sampling-privacy` writes it)
    """
    from ..local.audit import audit as audited
    from ..local.guarded_difference import GuardedDifference
    from ..local.leak_report import error_rows, leakage_rows, leakage_text, leakages
    from ..local.local_hashing import LocalHashing
    from ..local.question import Question
    from ..local.sampling_privacy import SamplingPrivacy

    mechanism = Question.read(file).mechanism
    if isinstance(mechanism, LocalHashing) and mechanism.k:
        mechanism = mechanism.small()
        say(f"the hash family is too large to go through: this is the same client with the prime {mechanism.prime}")
    if not 0 <= yes <= among:
        raise BadValue("--yes is at most --among", given=f"yes={yes}, among={among}")
    guarded = isinstance(mechanism, GuardedDifference)
    printed = mechanism.printed_epsilon if isinstance(mechanism, SamplingPrivacy) and not guarded else None
    found = leakages(mechanism, respondents)
    rows = leakage_rows(found, epsilon, printed)
    errors = error_rows(mechanism, yes, among) if isinstance(mechanism, SamplingPrivacy) else None
    others = (99, *([0] * (mechanism.k - 1)))
    made = audited(mechanism, others=others, runs=audit, confidence=confidence) if audit else None
    if plot is not None:
        from ..view.design_plots import save_plot
        from ..view.local_plots import leakage_plot

        save_plot(leakage_plot(found, printed, f"What {mechanism.title} leaks"), plot)
    told = {"mechanism": mechanism.to_dict(), "printed_epsilon": printed, "views": rows, "errors": errors}
    told |= {"audit": made.to_dict() if made else None}
    emit(told, leakage_text(mechanism, rows, errors, made, yes, among), as_json)


@app.command()
def choose(
    k: Annotated[int, Option("--k", help="How many categories.")],
    epsilon: Annotated[float, Option(help="The loss of one respondent.")],
    n: Annotated[int | None, Option("--n", help="How many respondents.")] = None,
    moe: Annotated[float | None, Option(help="A wanted margin of error of a share: how many respondents it needs.")] = None,
    share: Annotated[float | None, Option(help="With --moe: the share; by default the one that needs most.")] = None,
    population: Annotated[int | None, Option(help="With --moe: size of the population of a simple random sample.")] = None,
    deff: Annotated[float, Option(help="With --moe: the design effect of another design.")] = 1.0,
    response: Annotated[float, Option(help="With --moe: the expected response rate.")] = 1.0,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Choose the mechanism with the least error, and plan the number of respondents.

    Example: `dpsurvey local choose --k 100 --epsilon 1 --n 20000 --plot choice.svg`

    Example: `dpsurvey local choose --k 2 --epsilon 1 --moe 0.03 --response 0.6`
    """
    from ..local.choice import choose as chosen
    from ..local.choice import sample_size

    made = chosen(k=k, epsilon=epsilon, n=n)
    told, text = made.to_dict(), str(made)
    if moe is not None:
        options = {"share": share, "population": population, "deff": deff, "response": response}
        told["sample_sizes"], lines = [], []
        for place, each in enumerate(made.options):
            try:
                size = sample_size(each.mechanism, moe, **options)  # type: ignore[arg-type]
            except BadValue as far:
                # Only the recommended mechanism has to be within reach.
                if place == 0 or "out of reach" not in far.what:
                    raise
                lines.append(f"{each.mechanism.kind}: out of reach ({far.given})")
                continue
            told["sample_sizes"].append(size.to_dict())
            lines.append(str(size))
        text += "\n\n" + "\n".join(lines)
        text += "" if share is not None else "\nat the share that needs most of each; --share 0.3 compares at one share"
    elif share is not None or population is not None or deff != 1.0 or response != 1.0:
        raise BadValue("--share, --population, --deff and --response go with --moe", hint="--moe 0.03 is three points")
    if plot is not None:
        from ..view.design_plots import save_plot
        from ..view.local_plots import choice_plot

        save_plot(choice_plot(k, n or 1000, epsilon), plot)
    emit(told, text, as_json)


@app.command()
def guarantee(
    file: QuestionFile,
    reports: Annotated[int | None, Option(help="How many honest respondents, for those who see reports without names.")] = None,
    delta: Annotated[float, Option(help="The delta of that guarantee.")] = 0.0,
    population: Annotated[int | None, Option(help="Respondents are a secret simple random sample of so many.")] = None,
    as_json: Json = False,
) -> None:
    """Say what is guaranteed, and against whom: one report, reports without names, or participation that is secret too.

    Example: `dpsurvey local guarantee question.toml`

    Example: `dpsurvey local guarantee question.toml --reports 5000 --delta 1e-8 --population 52000`
    """
    from ..design import srs
    from ..local.guarantee import guarantee as guaranteed
    from ..local.question import Question

    asked = Question.read(file)
    if population is not None and reports is None:
        raise BadValue("--population needs the number of respondents", hint="--reports 5000 --delta 1e-8")
    design = None if population is None or reports is None else srs(n=reports, size=population)
    made = guaranteed(asked.mechanism, reports=reports, delta=delta, design=design)
    emit({"question": asked.fingerprint} | made.to_dict(), str(made), as_json)


__all__ = ["Option", "QuestionFile", "app"]
