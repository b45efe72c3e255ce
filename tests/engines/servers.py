"""Servers for tests: a PostgreSQL of the test's own on the loopback, one Spark session on two cores, a Spark Connect server, and
the master of a Spark cluster that has no workers.

Each function says in words why it cannot run here, and the tests skip with these words.
"""

import contextlib
import gc
import glob
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

USER = "survey"


def no_postgres():
    """Why no PostgreSQL can be started here; empty if one can."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    if not binaries():
        return "no PostgreSQL server is installed (initdb and pg_ctl)"
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        return "PostgreSQL does not run as root, and there is no setpriv to leave it"
    return ""


def no_spark():
    """Why no Spark session can be started here; empty if one can."""
    home = os.environ.get("JAVA_HOME", "")
    if not shutil.which("java") and not os.path.exists(os.path.join(home, "bin", "java")):
        return "no Java is installed"
    return "" if importlib.util.find_spec("pyspark") else "pyspark is not installed"


def binaries():
    """The folder of initdb and pg_ctl, the newest; they are often not on the path."""
    places = [os.path.dirname(shutil.which("initdb") or "")]
    places += sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: float(path.split("/")[-2]), reverse=True)
    return next((place for place in places if place and os.path.exists(os.path.join(place, "pg_ctl"))), "")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def postgres_server():
    """The address of a server that lives as long as the block: loopback only, sorting text as a dictionary does.

    The order of a dictionary is what servers in most countries are set up with; files are sorted by bytes.
    """
    folder = Path(tempfile.mkdtemp(prefix="dpsurvey-postgres-"))
    data, port, as_other = folder / "data", free_port(), []
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        as_other = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]

    def run(program, *arguments):
        command = [*as_other, os.path.join(binaries(), program), *arguments]
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{program} failed: {done.stderr or done.stdout}"

    try:
        words = ["--locale-provider=icu", "--icu-locale=en-US", "--locale=C", "--encoding=UTF8", "--no-sync", "--auth=trust"]
        run("initdb", f"--pgdata={data}", f"--username={USER}", *words)
        settings = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories='' -c fsync=off -c jit=off"
        run("pg_ctl", "start", f"--pgdata={data}", "--wait", f"--log={folder / 'log'}", f"--options={settings}")
        try:
            yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "stop", f"--pgdata={data}", "--wait", "--mode=immediate")
    finally:
        shutil.rmtree(folder)


KINDS = {"int64": "bigint", "double": "double precision", "string": "text", "bool": "boolean"}


def put(address, name, table):
    """An Arrow table on the server; gives the address of it."""
    import psycopg

    columns = ", ".join(f'"{field.name}" {KINDS[str(field.type)]}' for field in table.schema)
    with psycopg.connect(address) as server, server.cursor() as cursor:
        cursor.execute(f'create table "{name}" ({columns})')
        with cursor.copy(f'copy "{name}" from stdin') as copy:
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))
    return f"{address}#{name}"


@contextlib.contextmanager
def spark_session():
    """One Spark session on two cores of this machine, for all tests of a run."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.app.name": "dpsurvey tests",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        # The rows are few: planning again halfway, and compiling for speed, take longer than the work.
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        # Spark leaves sockets to the garbage collector.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            session.stop()
            gc.collect()


def no_connect():
    """Why Spark Connect cannot be used here; empty if it can."""
    lacking = [name for name in ("grpc", "grpc_status", "google.rpc") if not _importable(name)]
    return no_spark() or (f"Spark Connect needs {', '.join(lacking)}" if lacking else "")


def _importable(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@contextlib.contextmanager
def _java(script, *arguments, port, folder):
    """A Java program of Spark's own distribution, until it listens on the port; ended with the block."""
    import pyspark

    home = Path(pyspark.__file__).parent
    on_loopback = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    with open(folder / f"{script}.log", "w") as log:
        server = subprocess.Popen(
            [str(home / "bin" / script), *arguments],
            cwd=folder,
            env={name: value for name, value in on_loopback.items() if name != "SPARK_REMOTE"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + 120.0
        while not _listens(port):
            assert server.poll() is None, (folder / f"{script}.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.2)
        yield
    finally:
        server.terminate()
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _listens(port):
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def connect_server(folder):
    """The address of a Spark Connect server with two cores, on the loopback."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    program = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]", *words]
    with _java("spark-submit", *program, "spark-internal", port=port, folder=folder):
        yield f"sc://127.0.0.1:{port}"


@contextlib.contextmanager
def master_without_workers(folder):
    """The address of the master of a standalone cluster that nobody works for."""
    port = free_port()
    program = [
        "org.apache.spark.deploy.master.Master",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--webui-port",
        str(free_port()),
    ]
    with _java("spark-class", *program, port=port, folder=folder):
        yield f"spark://127.0.0.1:{port}"
