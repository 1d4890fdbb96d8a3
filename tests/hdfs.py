"""HDFS on loopback: a NameNode and a DataNode of Hadoop 2.7, and what PyArrow needs to talk to
them, from packages of PyPI.

The jars of the servers are in the source distribution of PySpark 2.4, those of the client in the
PySpark that is installed. The C library is compiled from the sources that Pydoop has. All of it
takes 300 MB and a compiler, so only slow tests use it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dcpinspect-tools" / "hdfs"
PATIENCE_S = 60
_NODES = "org.apache.hadoop.hdfs.server"
_LOGGING = (
    "log4j.rootLogger=WARN, "
    "A\nlog4j.appender.A=org.apache.log4j.ConsoleAppender\nlog4j.appender.A.layout=org.apache.log4j.SimpleLayout\n"
)
_SETTINGS = {
    "dfs.replication": "1",
    "dfs.permissions.enabled": "false",
    "dfs.webhdfs.enabled": "false",
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    **dict.fromkeys(
        ("dfs.namenode.http-address", "dfs.namenode.secondary.http-address"), "127.0.0.1:0"
    ),
    **dict.fromkeys(
        ("dfs.datanode.address", "dfs.datanode.ipc.address", "dfs.datanode.http.address"),
        "127.0.0.1:0",
    ),
}


@dataclass(frozen=True, slots=True)
class Hdfs:
    """Servers that run, with an empty file system."""

    root: str
    """URI of its root."""
    environment: Mapping[str, str]
    """Variables that a process needs to reach them."""


@contextmanager
def serving(folder: Path) -> Iterator[Hdfs]:
    """Servers that keep their data below an empty folder."""
    jars, library = _jars(), _library()
    with socket.create_server(("127.0.0.1", 0)) as free:
        root = f"hdfs://127.0.0.1:{free.getsockname()[1]}"
    conf = folder / "conf"
    for web in ("hdfs", "datanode"):
        (conf / "webapps" / web).mkdir(parents=True)
    names = {
        "dfs.namenode.name.dir": f"file://{folder}/name",
        "dfs.datanode.data.dir": f"file://{folder}/data",
    }
    (conf / "log4j.properties").write_text(_LOGGING)
    _write(conf / "core-site.xml", {"fs.defaultFS": root})
    _write(conf / "hdfs-site.xml", {**_SETTINGS, **names})
    java = [
        "java",
        "-Xmx256m",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "-cp",
        f"{conf}:{jars}/*",
    ]
    with (folder / "servers.log").open("wb") as log:
        subprocess.run(
            [*java, f"{_NODES}.namenode.NameNode", "-format"],
            stdout=log,
            stderr=log,
            check=True,
            timeout=PATIENCE_S,
        )
        commands = [
            [*java, f"{_NODES}.{kind}"] for kind in ("namenode.NameNode", "datanode.DataNode")
        ]
        servers = [subprocess.Popen(command, stdout=log, stderr=log) for command in commands]
    client = [str(conf), *(str(path) for path in Path(pyspark.__file__).parent.glob("jars/*.jar"))]
    home = Path(shutil.which("java") or "").resolve().parents[1]
    found = Hdfs(
        root,
        {"CLASSPATH": ":".join(client), "ARROW_LIBHDFS_DIR": str(library), "JAVA_HOME": str(home)},
    )
    try:
        _await(found)
        yield found
    finally:
        for server in servers:
            server.kill()
            server.wait()


def _write(path: Path, settings: Mapping[str, str]) -> None:
    lines = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    path.write_text(f"<configuration>{''.join(lines)}</configuration>\n")


def _await(servers: Hdfs) -> None:
    """Waits until a file can be written. Another process tries: PyArrow looks at the variables once
    in a process.
    """
    program = (
        "import sys; from pyarrow import fs; store = fs.FileSystem.from_uri(sys.argv[1])[0]; "
        "stream = store.open_output_stream('/ready', compression=None); stream.write(b'x'); "
        "stream.close()"
    )
    until = time.monotonic() + PATIENCE_S
    while True:
        tried = subprocess.run(
            [sys.executable, "-c", program, servers.root],
            env={**os.environ, **servers.environment},
            capture_output=True,
            check=False,
        )
        if tried.returncode == 0:
            return
        assert time.monotonic() < until, tried.stderr.decode()[-2000:]
        time.sleep(1)


def _jars() -> Path:
    found = CACHE / "jars"
    if not found.exists():
        _unpacked("pyspark==2.4.8", "/deps/jars/", found)
    return found


def _library() -> Path:
    """The folder of the C library."""
    sources, found = CACHE / "libhdfs-sources", CACHE / "libhdfs"
    if not sources.exists():
        _unpacked("pydoop==2.0.0", "/src/libhdfs/", sources)
    if not found.exists():
        java = Path(shutil.which("java") or "").resolve().parents[1]
        files = [
            str(sources / name)
            for name in ("exception.c", "hdfs.c", "jni_helper.c", "common/htable.c")
        ]
        files += [str(path) for path in sorted((sources / "os" / "posix").glob("*.c"))]
        includes = [
            sources,
            sources / "include",
            sources / "os" / "posix",
            java / "include",
            java / "include" / "linux",
        ]
        made = CACHE / f"libhdfs.{os.getpid()}"
        made.mkdir()
        options = [
            "-shared",
            "-fPIC",
            "-O1",
            "-w",
            "-D_GNU_SOURCE",
            *(f"-I{path}" for path in includes),
        ]
        jvm = java / "lib" / "server"
        command = [
            "gcc",
            *options,
            "-o",
            str(made / "libhdfs.so"),
            *files,
            f"-L{jvm}",
            f"-Wl,-rpath,{jvm}",
            "-ljvm",
            "-lpthread",
            "-ldl",
        ]
        subprocess.run(command, check=True)
        _moved(made, found)
    return found


def _unpacked(package: str, inside: str, folder: Path) -> None:
    """The files of a source distribution that are below a path, in a folder."""
    CACHE.mkdir(parents=True, exist_ok=True)
    made = CACHE / f"{folder.name}.{os.getpid()}"
    tools = (
        made / "tools"
    )  # pip asks even what it only downloads for its metadata, which takes tools of its time
    venv.create(tools, with_pip=True)
    pip = [str(tools / "bin" / "python"), "-m", "pip", "-q"]
    subprocess.run([*pip, "install", "setuptools<66", "wheel"], check=True)
    options = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
    subprocess.run([*pip, "download", *options, "-d", str(made / "download"), package], check=True)
    (archive,) = (made / "download").glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        for member in sources:
            _, _, name = member.name.partition(inside)
            if name and member.isfile():
                member.name = name
                sources.extract(member, made / "content", filter="data")
    _moved(made / "content", folder)
    shutil.rmtree(made)


def _moved(made: Path, folder: Path) -> None:
    """What is complete gets its name, unless another process was first."""
    with suppress(OSError):
        made.rename(folder)
