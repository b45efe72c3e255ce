"""The password in the address of a ledger is used, and shown nowhere: in no error, view, entry or release."""

import json
import socket
import traceback
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, LedgerUnavailable

PASSWORD = "s3cret-w0rd"


def told(error):
    return "".join(traceback.format_exception(error)) + repr(error) + json.dumps(error.to_dict())


def test_a_password_is_used_and_never_shown(postgres, tmp_path):
    income = np.random.default_rng(5).uniform(0, 100, 200)
    pa.parquet.write_table(pa.table({"id": range(200), "income": income}), tmp_path / "register.parquet")
    place = postgres.replace("survey@", f"survey:{PASSWORD}@") + f"#passwords_{uuid.uuid4().hex[:12]}"
    frame, setting = ds.Frame(tmp_path / "register.parquet", unit="id", size=200), ds.Setting("frame", neighbours="add-remove")
    survey = ds.Survey(frame, ds.poisson(0.1), setting, budget=ds.Budget(1.0), ledger=place)
    release = survey.plan(ds.mean("income", bounds=(0, 100))).release()
    with ds.Ledger(place) as ledger:
        shown = [repr(ledger), ledger.address, json.dumps(ledger.tree()), str(ds.verify_ledger(place))]
        with pytest.raises(BadValue, match="password") as caught:
            ledger.anchor(place)
        ledger.carry(tmp_path / "new.ledger")
        shown += [told(caught.value), json.dumps(ledger.entries()), json.dumps(release.to_dict())]
    with ds.Ledger(tmp_path / "new.ledger") as moved:
        shown.append(json.dumps(moved.entries()))
    assert not [text for text in shown if PASSWORD in text]
    assert "***" in shown[0]


def test_no_error_about_an_address_shows_its_password():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        closed = f"127.0.0.1:{port}/books"
        addresses = {
            f"postgresql://ann:{PASSWORD}@{closed}#lfs": LedgerUnavailable,
            f"postgresql://ann@{closed}?password={PASSWORD}": LedgerUnavailable,
            f"postgresql://ann:{PASSWORD}@127.0.0.1:port/books#lfs": BadValue,
            f"postgresql://ann:x#{PASSWORD}@{closed}": BadValue,
            f"postgresql://ann:{PASSWORD}@{closed}#No Schema": BadValue,
        }
        for address, kind in addresses.items():
            for ask in (ds.Ledger, ds.verify_ledger):
                with pytest.raises(kind) as caught:
                    ask(address)
                assert PASSWORD not in told(caught.value), address
        with pytest.raises(BadValue, match="password"):
            ds.Ledger("lfs.ledger", anchor=f"postgresql://ann@{closed}?password={PASSWORD}")
