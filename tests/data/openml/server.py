"""Local server with the API of openml.org, and data sets written directly to a cache folder."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd

XML = 'xmlns:oml="http://openml.org/openml"'


def mixed_table(n: int = 40) -> pd.DataFrame:
    """Return two numbers, a text category, a numeric category, a row id, and the label."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "row": np.arange(n),
            "length": rng.normal(size=n),
            "width": np.where(np.arange(n) % 7 == 3, np.nan, rng.normal(size=n)),
            "colour": pd.Categorical(
                np.where(np.arange(n) % 3 == 0, "red", "blue"), categories=["red", "blue"]
            ),
            "month": np.arange(n) // 2 % 2 + 1,
            "class": pd.Categorical(
                np.where(np.arange(n) % 2, "yes", "no"), categories=["yes", "no"]
            ),
        }
    )


def numeric_table(n: int = 60) -> pd.DataFrame:
    """Return numeric features without missing values, for which a run needs no preprocessing."""
    rng = np.random.default_rng(1)
    y = np.arange(n) % 2
    return pd.DataFrame(
        {
            "a": rng.normal(size=n) + 2 * y,
            "b": rng.normal(size=n),
            "class": pd.Categorical(np.where(y, "yes", "no")),
        }
    )


def description(id: int, name: str, base: str = "http://127.0.0.1:1", **more: str) -> str:
    """Return the response to data/<id>; ``more`` adds elements or replaces the default ones."""
    fields = {
        "id": str(id),
        "name": name,
        "version": "2",
        "description": "Made up",
        "format": "ARFF",
        "url": f"{base}/download/{id}.arff",
        "parquet_url": f"{base}/bucket/dataset_{id}.pq",
        "default_target_attribute": "class",
        "row_id_attribute": "row",
    } | more
    inner = "".join(
        f"<oml:{tag}>{escape(text)}</oml:{tag}>" for tag, text in fields.items() if text
    )
    return f"<oml:data_set_description {XML}>{inner}</oml:data_set_description>"


def features(table: pd.DataFrame, nominal: tuple[str, ...] = ("colour", "month", "class")) -> str:
    """Return the response to data/features/<id>."""
    inner = ""
    for i, name in enumerate(table.columns):
        values = "".join(
            f"<oml:nominal_value>{value}</oml:nominal_value>"
            for value in table[name].dropna().unique()
        )
        kind = (
            f"<oml:data_type>nominal</oml:data_type>{values}"
            if name in nominal
            else "<oml:data_type>numeric</oml:data_type>"
        )
        missing = f"<oml:number_of_missing_values>{table[name].isna().sum()}</oml:number_of_missing_values>"
        inner += f"<oml:feature><oml:index>{i}</oml:index><oml:name>{name}</oml:name>{kind}{missing}</oml:feature>"
    return f"<oml:data_features {XML}>{inner}</oml:data_features>"


def qualities(rows: int) -> str:
    """Return the response to data/qualities/<id>."""
    quality = f"<oml:quality><oml:name>NumberOfInstances</oml:name><oml:value>{rows}.0</oml:value></oml:quality>"
    return f"<oml:data_qualities {XML}>{quality}</oml:data_qualities>"


def arff(table: pd.DataFrame, nominal: tuple[str, ...] = ("colour", "month", "class")) -> str:
    """Return the table as ARFF, with nominal values in order of their first row, not sorted."""
    kinds = {
        name: (
            "{" + ",".join(map(str, table[name].dropna().unique())) + "}"
            if name in nominal
            else "NUMERIC"
        )
        for name in table
    }
    header = "".join(f"@ATTRIBUTE {name} {kind}\n" for name, kind in kinds.items())
    return (
        f"@RELATION made_up\n{header}@DATA\n{table.to_csv(index=False, header=False, na_rep='?')}"
    )


def parquet(table: pd.DataFrame) -> bytes:
    """Return the table as a Parquet file."""
    file = BytesIO()
    table.to_parquet(file)
    return file.getvalue()


def splits(rows: int, folds: int) -> str:
    """Return the folds of a task as ARFF, with two repetitions; the second swaps the roles."""
    kinds = {"type": "{TRAIN,TEST}", "rowid": "INTEGER", "repeat": "INTEGER", "fold": "INTEGER"}
    header = "@RELATION splits\n" + "".join(
        f"@ATTRIBUTE {name} {kind}\n" for name, kind in kinds.items()
    )
    lines = [
        f"{'TEST' if (row % folds == fold) != bool(repeat) else 'TRAIN'},{row},{repeat},{fold}"
        for repeat in range(2)
        for fold in range(folds)
        for row in range(rows)
    ]
    return header + "@DATA\n" + "\n".join(lines) + "\n"


def task(id: int, dataset_id: int, base: str) -> str:
    """Return the response to task/<id>."""
    source = f"<oml:data_set><oml:data_set_id>{dataset_id}</oml:data_set_id><oml:target_feature>class</oml:target_feature></oml:data_set>"
    parameters = "".join(
        f'<oml:parameter name="{name}">2</oml:parameter>'
        for name in ("number_repeats", "number_folds")
    )
    procedure = f"<oml:estimation_procedure><oml:id>1</oml:id><oml:type>crossvalidation</oml:type><oml:data_splits_url>{base}/splits/{id}.arff</oml:data_splits_url>{parameters}</oml:estimation_procedure>"
    inputs = (
        f'<oml:input name="source_data">{source}</oml:input><oml:input'
        f' name="estimation_procedure">{procedure}</oml:input>'
    )
    kind = (
        "<oml:task_type_id>1</oml:task_type_id><oml:task_type>Supervised"
        " Classification</oml:task_type>"
    )
    return f"<oml:task {XML}><oml:task_id>{id}</oml:task_id>{kind}{inputs}</oml:task>"


def error_response(code: int, message: str) -> str:
    """Return the response of openml.org to a request that fails."""
    return (
        "<oml:error"
        f" {XML}><oml:code>{code}</oml:code><oml:message>{message}</oml:message></oml:error>"
    )


def write_cached_dataset(
    root: Path,
    id: int,
    table: pd.DataFrame,
    name: str | None = None,
    *,
    columns: str | None = None,
    **more: str,
) -> Path:
    """Write a data set to the cache ``root`` as openml-python does, and return its folder."""
    folder = root / "org" / "openml" / "www" / "datasets" / str(id)
    folder.mkdir(parents=True)
    (folder / "description.xml").write_text(description(id, name or f"made-up-{id}", **more))
    (folder / "features.xml").write_text(columns or features(table))
    (folder / f"dataset_{id}.pq").write_bytes(parquet(table))
    return folder


@dataclass
class Server:
    """Responses by path, failures to come, and the log of all requests.

    Attributes
    ----------
    base : str
        Address of the server.
    files : dict of str to bytes
        Bodies by path.
    failures : dict of str to list of (int, str)
        Status and body of the next responses, by path; they take precedence over ``files``.
    log : list of str
        Method and path of every request, e.g. "GET /path".
    """

    base: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    failures: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    @property
    def api(self) -> str:
        """Value for ``openml.config.server``."""
        return f"{self.base}/api/v1/xml"

    def add(self, id: int, table: pd.DataFrame, **more: str) -> None:
        """Serve a data set in all formats."""
        text = arff(table)
        announced = {"md5_checksum": hashlib.md5(text.encode()).hexdigest()} | more
        self._serve_text(
            f"/api/v1/xml/data/{id}", description(id, f"made-up-{id}", self.base, **announced)
        )
        self._serve_text(f"/api/v1/xml/data/features/{id}", features(table))
        self._serve_text(f"/api/v1/xml/data/qualities/{id}", qualities(len(table)))
        self._serve_text(f"/download/{id}.arff", text)
        self.files[f"/bucket/dataset_{id}.pq"] = parquet(table)

    def add_task(self, id: int, dataset_id: int, rows: int, folds: int) -> None:
        """Serve a task and its folds."""
        self._serve_text(f"/api/v1/xml/task/{id}", task(id, dataset_id, self.base))
        self._serve_text(f"/splits/{id}.arff", splits(rows, folds))

    def fail(self, path: str, status: int, body: str, times: int = 1000) -> None:
        """Respond to the next ``times`` requests for ``path`` with this status and body."""
        self.failures[path] = [(status, body)] * times

    def fail_data(self, id: int, status: int, body: str, times: int = 1000) -> None:
        """Respond in this way to requests for the description of a data set."""
        self.fail(f"/api/v1/xml/data/{id}", status, body, times)

    def respond(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of the response to a request."""
        if waiting := self.failures.get(path):
            status, text = waiting.pop()
            return status, text.encode()
        if path in self.files:
            return 200, self.files[path]
        return 412, error_response(111, "Unknown dataset").encode()

    def _serve_text(self, path: str, text: str) -> None:
        self.files[path] = text.encode()


@contextmanager
def serve() -> Iterator[Server]:
    """Run a server in a thread."""
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(with_body=True)

        def do_HEAD(self) -> None:
            self._reply(with_body=False)

        def _reply(self, *, with_body: bool) -> None:
            path = self.path.partition("?")[0]
            server.log.append(f"{self.command} {path}")
            status, body = server.respond(path)
            headers: Mapping[str, Any] = {
                "ETag": '"0"',
                "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
                "Content-Type": "text/xml",
            }
            if not path.startswith("/bucket"):
                body, headers = gzip.compress(body), {**headers, "Content-Encoding": "gzip"}
            self.send_response(status)
            for name, value in {**headers, "Content-Length": len(body)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(
            target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        server.base = f"http://127.0.0.1:{http.server_address[1]}"
        yield server
        http.shutdown()
        thread.join()
