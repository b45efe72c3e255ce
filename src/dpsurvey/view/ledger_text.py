"""The ledger in words: a tree from the agency down to each charge."""

from __future__ import annotations

from typing import Any

from ..errors import BadValue
from ..privacy.measure import Measure
from ..privacy.setting import Setting
from ..statistic import statistic_from_dict
from ..text.layout import ceiling_text, floor_text, given_text

View = dict[str, Any]


def tree_text(view: View, *, charges: bool = True) -> str:
    """The whole ledger."""
    ledger = view["ledger"]
    lines = [f"ledger {ledger['id'][:12]}: {ledger['count']} entries, head {ledger['head'][:12]}"]
    if view["warning"]:
        lines.append(f"WARNING: {view['warning']}")
    if view["carried_to"]:
        lines.append(f"closed: it was carried to, or merged into, {view['carried_to']}")
    lines += [f"anchored in {place}" for place in view["anchors"]]
    for account in view["accounts"]:
        lines += ["", *_account(account)]
    for panel in view["panels"]:
        lines += ["", *_panel(panel)]
    for survey in view["surveys"]:
        lines += ["", *survey_lines(survey, charges=charges)]
    return "\n".join(lines if view["surveys"] or view["panels"] or view["anchors"] else [*lines, "nothing on record"])


def _loss(value: float | None) -> str:
    return "no bound" if value is None else ceiling_text(value, 6)


def _left(value: float | None) -> str:
    # What rounding leaves of a budget that is spent is nothing that could be asked for.
    return "no bound" if value is None else "0" if abs(value) < 1e-9 else floor_text(value, 6)


def _delta(delta: float) -> str:
    return f" (delta {ceiling_text(delta)})" if delta else ""


def _account(account: View) -> list[str]:
    setting = Setting(**account["setting"])
    name = f", {account['relation_name']}" if account["relation_name"] else ""
    loss = f"epsilon {_loss(account['epsilon'])}{_delta(account['delta'])}"
    held = f", the {setting.given} held fixed" if setting.given else ""
    held += ", their answers alone" if setting.answers_alone else ""
    of = f" ({account['population']})" if account.get("population") else ""
    lines = [f"{setting.who}{of}, {setting.neighbours}{held}{name}: {loss} in all"]
    lines.append(f"  someone known to be in the samples of one line below: epsilon {_loss(account['epsilon_in_sample'])}")
    for budget in account["budgets"]:
        nothing = {"this year": {"epsilon": 0.0, "left": budget["epsilon"]}}
        for period, spent in (budget["spent"] or nothing).items():
            whose = "budget of the agency" + ("" if budget["per"] == "ever" else f" for {period}")
            figures = f"spent {_loss(spent['epsilon'])}, left {_left(spent['left'])}"
            lines.append(f"  {whose}: {given_text(budget['epsilon'])}{_delta(budget['delta'])}, {figures}")
        named = ", ".join(budget["without"])
        lines += [f"  that budget was set without counting: {named}"] if named else []
    lines += [f"  not seen: {each['survey']}: {each['reason']}" for each in account["unseen"]]
    if len(account["years"]) > 1:
        lines.append("  by year, each alone: " + ", ".join(f"{year} {_loss(loss)}" for year, loss in account["years"].items()))
    lines += [f"  holds when: {condition}" for condition in account["holds_when"]]
    for line in account["lines"]:
        lines.append(f"  - {line['name']}: epsilon {_loss(line['epsilon'])}{_delta(line['delta'])}")
        lines.append(f"      {line['how']}")
    return lines


def _panel(panel: View) -> list[str]:
    measure, loss = Measure(panel["measure"]), f"epsilon {_loss(panel['loss'])}{_delta(panel['delta'])}"
    spent = f"spent {_loss(panel['spent'])}, left {_left(panel['left'])}"
    lines = [f"panel {panel['name']}: {len(panel['windows'])} waves by key {panel['key'][:8]}, {loss} over all of them, {spent}"]
    if measure.needs_delta:
        lines[0] += " (it counts as a whole from the first charge on)"
    # Numbered as `dpsurvey key start --wave` does, with all digits: a wave is drawn by its exact start.
    for number, wave in enumerate(panel["waves"]):
        limit = f" of {_left(wave['level'])}" if wave["level"] is not None else ""
        charged = f"{_loss(wave['charged'])}{limit} in {measure.unit} on the sample"
        who = f": {wave['survey']}" if wave["survey"] else ", not drawn yet"
        lines.append(f"  wave {number} from {wave['start']!r}{who}, charged {charged}")
    return lines


def survey_lines(survey: View, *, charges: bool = True) -> list[str]:
    """One survey, its samples and their charges."""
    budget = f"budget epsilon {given_text(survey['budget']['epsilon'])}{_delta(survey['budget']['delta'])}"
    state = f", closed: {survey['closed']}" if survey["closed"] else ""
    lines = [f"{survey['survey']}: {budget}, spent {_loss(survey['spent'])}, left {_left(survey['left'])}{state}"]
    by_sample: dict[str, list[View]] = {}
    for charge in survey["charges"] if charges else ():
        by_sample.setdefault(charge["sample"], []).append(charge)
    for sample in survey["samples"]:
        known = f"; someone known to be in it {_loss(sample['epsilon_in_sample'])}" if sample["charges"] else ", nothing charged"
        by_key = f", by key {sample['key_commitment'][:8]} from {sample['start']!r}" if sample["key_commitment"] else ""
        lines.append(f"  sample {sample['id'][:12]}{by_key}: epsilon {_loss(sample['epsilon'])}{known}")
        if "if_fixed_beforehand" in sample:
            figure = _loss(sample["if_fixed_beforehand"])
            lines.append(f"    {figure} if all of it was fixed before the first release (privacy loss distributions)")
        lines += [f"    {charge_text(each)}" for each in by_sample.get(sample["id"], ())]
    return lines


def charge_text(charge: View) -> str:
    """What one charge asked, when, and by whom."""
    asked = "; ".join(_name(each) for each in charge["asked"]) or charge.get("what", "")
    return f"{charge['reserved_at'][:19]}  {charge['state']:<9}  {asked}  ({charge['by']})"


def _name(fields: View) -> str:
    """A statistic on record in words; what an earlier version allowed stays readable."""
    try:
        return statistic_from_dict(fields).name
    except BadValue:
        return f"{fields['kind']} of {fields['of']}" if fields.get("of") else str(fields["kind"])


def quote_text(quote: View) -> str:
    """What a release would cost, level by level, or why it would be refused."""
    lines = [f"REFUSED: {quote['refused']}"] if quote["refused"] else []
    for level in quote["levels"]:
        unit = "" if level["unit"] == "epsilon" else f" {level['unit']}"
        verdict = "fits" if level["fits"] else f"DOES NOT FIT, short by {_loss(level['short_by'])}"
        whose = level["whose"]
        lines.append(
            f"{whose}: requested {_loss(level['requested'])}{unit}, left now {_left(level['left'])}, "
            f"left after {_left(level['left_after'])}: {verdict}"
        )
    return "\n".join(lines)


def entry_text(entry: View) -> str:
    """One entry of the chain in a line."""
    what = _what(entry["kind"], entry["body"])
    return f"{entry['seq']:>6}  {entry['at'][:19]}  {entry['kind']:<9}  {entry['by']:<12}  {what}".rstrip()


def _what(kind: str, body: View) -> str:
    if kind == "opened":
        return str(body["terms"]["name"])
    if kind == "budget":
        setting = f"{body['setting']['protect']}, {body['setting']['neighbours']}"
        whose = f"{body['population']}, " if body.get("population") else ""
        named = f", without {', '.join(body['without'])}" if body.get("without") else ""
        return f"{whose}{setting}: epsilon {given_text(body['epsilon'])} ({body['per']}){named}"
    if kind in ("reserved", "sample"):
        return f"{body['survey']}, sample {body['sample'][:8]}" + (
            f", release {body['release'][:8]}" if "release" in body else ""
        )
    if kind == "brought":
        return f"{body['entry']['kind']}: {_what(body['entry']['kind'], body['entry']['body'])}"
    named = next((str(body[name]) for name in ("survey", "name", "where", "to", "from", "why") if name in body), "")
    return named or next((str(body[name])[:16] for name in ("release", "ledger", "key", "fingerprint") if name in body), "")
