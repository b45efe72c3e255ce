"""Roles on PostgreSQL: who may open a survey, who may spend, who may only read. The database enforces them, not the client."""

from __future__ import annotations

from sqlalchemy import Connection, text

from ..errors import BadValue, NotFound, did_you_mean
from .store import Store

ROLES = ("reader", "spender", "opener")
# What each role may add to the chain. Carrying, merging and upgrading are left to the owner of the schema.
KINDS = {
    "spender": ("sample", "reserved", "committed", "checked", "signed"),
    "opener": ("opened", "closed", "budget", "panel", "sample", "checked", "anchored", "signed"),
}

CHAIN = """
CREATE FUNCTION continues_the_chain() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    said json := NEW.text::json;
    last_seq bigint;
    last_hash text;
BEGIN
    SELECT seq, hash INTO last_seq, last_hash FROM {schema}.entries ORDER BY seq DESC LIMIT 1;
    IF NEW.seq IS DISTINCT FROM coalesce(last_seq, 0) + 1
        OR (said->>'seq')::bigint IS DISTINCT FROM NEW.seq
        OR said->>'previous' IS DISTINCT FROM coalesce(last_hash, repeat('0', 64))
        OR NEW.hash IS DISTINCT FROM encode(sha256(convert_to(NEW.text, 'UTF8')), 'hex') THEN
        RAISE EXCEPTION 'entries are added at the end of the chain';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER continues BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION continues_the_chain();
CREATE FUNCTION never_changes() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION 'entries are added, never changed';
END $$;
CREATE TRIGGER never_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON entries FOR EACH STATEMENT EXECUTE FUNCTION never_changes();
"""


def guard_chain(connection: Connection, schema: str) -> None:
    """Make the server itself refuse whatever does not continue the chain, from anybody."""
    connection.exec_driver_sql(CHAIN.replace("{schema}", f'"{schema}"'))


def set_up_roles(store: Store) -> list[str]:
    """Make the three roles of a ledger, with what each may do; can be done again."""
    schema = _server(store)
    names = {role: f'"{schema}_{role}"' for role in ROLES}
    with store.writing() as connection:
        known = set(connection.execute(text("SELECT rolname FROM pg_roles")).scalars())
        for role, quoted in names.items():
            if f"{schema}_{role}" not in known:
                connection.exec_driver_sql(f"CREATE ROLE {quoted} NOLOGIN")
            connection.exec_driver_sql(f'GRANT USAGE ON SCHEMA "{schema}" TO {quoted}')
            connection.exec_driver_sql(f"GRANT SELECT ON about, entries TO {quoted}")
            if role != "reader":
                connection.exec_driver_sql(f"GRANT INSERT ON entries TO {quoted}")
                connection.exec_driver_sql(f"GRANT SELECT, INSERT ON files TO {quoted}")
        connection.exec_driver_sql("ALTER TABLE entries ENABLE ROW LEVEL SECURITY")
        _policy(connection, "reads", f"FOR SELECT TO {', '.join(names.values())} USING (true)")
        for role, kinds in KINDS.items():
            listed = ", ".join(f"'{kind}'" for kind in kinds)
            # Nobody writes in the name of somebody else.
            check = f"text::json->>'kind' IN ({listed}) AND text::json->>'by' = session_user::text"
            _policy(connection, f"{role}_adds", f"FOR INSERT TO {names[role]} WITH CHECK ({check})")
    return [f"{schema}_{role}" for role in ROLES]


def _policy(connection: Connection, name: str, rule: str) -> None:
    connection.exec_driver_sql(f"DROP POLICY IF EXISTS {name} ON entries")
    connection.exec_driver_sql(f"CREATE POLICY {name} ON entries {rule}")


def give_role(store: Store, user: str, role: str, *, take: bool = False) -> None:
    """Give a login of the server a role, or take it away."""
    schema = _server(store)
    if role not in ROLES:
        raise BadValue(f"unknown role {role!r}", hint=did_you_mean(role, ROLES))
    with store.writing() as connection:
        known = set(connection.execute(text("SELECT rolname FROM pg_roles")).scalars())
        if user not in known:
            raise NotFound(f"the server has no login {user!r}", hint=f"CREATE ROLE {user} LOGIN, by whoever runs the server")
        if f"{schema}_{role}" not in known:
            raise NotFound(f"the ledger has no roles yet: {role}", hint="dpsurvey ledger roles makes them, for its owner")
        quoted = '"' + user.replace('"', '""') + '"'
        verb, to = ("REVOKE", "FROM") if take else ("GRANT", "TO")
        connection.exec_driver_sql(f'{verb} "{schema}_{role}" {to} {quoted}'.replace("%", "%%"))


def members(store: Store) -> dict[str, list[str]]:
    """Who has which role."""
    schema = _server(store)
    query = text(
        "SELECT r.rolname, m.rolname FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid"
        " JOIN pg_roles m ON m.oid = a.member ORDER BY 1, 2"
    )
    with store.reading() as connection:
        rows = connection.execute(query).all()
    return {role: sorted({member for name, member in rows if name == f"{schema}_{role}"}) for role in ROLES}


def _server(store: Store) -> str:
    if not store.address.is_server:
        raise BadValue(
            "roles are for ledgers on PostgreSQL",
            given=str(store.address),
            hint="a file is protected by its permissions; dpsurvey ledger carry moves it to a server",
        )
    return store.address.schema
