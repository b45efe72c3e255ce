"""Roles on PostgreSQL: who may open a survey, who may spend, who may only read. The database enforces them, not the client."""

from __future__ import annotations

from sqlalchemy import Connection, text

from ..errors import BadValue, NotFound, did_you_mean
from .entry import FIELDS
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
    IF (SELECT string_agg(key, ',' ORDER BY key COLLATE "C") FROM json_object_keys(said) AS keys(key)) IS DISTINCT FROM '{fields}'
        OR NEW.seq IS DISTINCT FROM coalesce(last_seq, 0) + 1
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
    connection.exec_driver_sql(CHAIN.replace("{schema}", f'"{schema}"').replace("{fields}", ",".join(FIELDS)))


def _names(connection: Connection, schema: str) -> dict[str, str]:
    """The names of the roles: logins and roles belong to all databases of a server, a ledger to one of them."""
    number = connection.execute(text("SELECT oid FROM pg_database WHERE datname = current_database()")).scalar()
    return {role: f"{schema}_{role}_{number}" for role in ROLES}


def set_up_roles(store: Store) -> list[str]:
    """Make the three roles of a ledger, with what each may do; can be done again."""
    schema = _server(store)
    with store.writing() as connection:
        store.keep_documents(connection)
        known = set(connection.execute(text("SELECT rolname FROM pg_roles")).scalars())
        made = _names(connection, schema)
        names = {role: f'"{name}"' for role, name in made.items()}
        for role, quoted in names.items():
            if made[role] not in known:
                connection.exec_driver_sql(f"CREATE ROLE {quoted} NOLOGIN")
            connection.exec_driver_sql(f'GRANT USAGE ON SCHEMA "{schema}" TO {quoted}')
            connection.exec_driver_sql(f"GRANT SELECT ON about, entries, documents TO {quoted}")
            if role != "reader":
                connection.exec_driver_sql(f"GRANT INSERT ON entries, documents TO {quoted}")
                connection.exec_driver_sql(f"GRANT SELECT, INSERT ON files TO {quoted}")
        connection.exec_driver_sql("ALTER TABLE entries ENABLE ROW LEVEL SECURITY")
        _policy(connection, "reads", f"FOR SELECT TO {', '.join(names.values())} USING (true)")
        for role, kinds in KINDS.items():
            listed = ", ".join(f"'{kind}'" for kind in kinds)
            # Nobody writes in the name of somebody else.
            check = f"text::json->>'kind' IN ({listed}) AND text::json->>'by' = session_user::text"
            _policy(connection, f"{role}_adds", f"FOR INSERT TO {names[role]} WITH CHECK ({check})")
    return list(made.values())


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
        name = _names(connection, schema)[role]
        if name not in known:
            raise NotFound(f"the ledger has no roles yet: {role}", hint="dpsurvey ledger roles makes them, for its owner")
        quoted = '"' + user.replace('"', '""') + '"'
        verb, to = ("REVOKE", "FROM") if take else ("GRANT", "TO")
        connection.exec_driver_sql(f'{verb} "{name}" {to} {quoted}'.replace("%", "%%"))


def members(store: Store) -> dict[str, list[str]]:
    """Who has which role."""
    schema = _server(store)
    query = text(
        "SELECT r.rolname, m.rolname FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid"
        " JOIN pg_roles m ON m.oid = a.member ORDER BY 1, 2"
    )
    with store.reading() as connection:
        rows, names = connection.execute(query).all(), _names(connection, schema)
    return {role: sorted({member for name, member in rows if name == names[role]}) for role in ROLES}


def _server(store: Store) -> str:
    if not store.address.is_server:
        raise BadValue(
            "roles are for ledgers on PostgreSQL",
            given=str(store.address),
            hint="a file is protected by its permissions; dpsurvey ledger carry moves it to a server",
        )
    return store.address.schema
