"""The object store behind `storage_url`: a folder beside the database by default, S3, GCS or Azure Blob.

obstore is imported on first use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.config import is_loopback
from service.jobs.spec import Checkpoint
from service.references import resolved
from service.settings import Settings, is_below

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Backend

STORAGE = "storage"
STREAM_CHUNK = 1 << 20
_RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}


class Store:
    """Implements `service.context.ObjectStore`, and streams. Keys are `/`-separated.

    url: `file:///folder`, `s3://bucket/prefix`, `gs://…`, `az://…`. Safe to share between threads.
    """

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self.url = url
        self._options = dict(options)
        self._backend: Backend | None = None

    def put(self, key: str, data: bytes) -> None:
        """Write the object, replacing one of the same key."""
        self._open().put(key, data)

    def put_file(self, key: str, path: Path) -> None:
        """Write the object from a file, in parts where it is large."""
        self._open().put(key, path)

    def get(self, key: str) -> bytes:
        """The whole object. FileNotFoundError if there is none."""
        return bytes(self._open().get(key).bytes())

    def stream(self, key: str) -> Iterator[bytes]:
        """The object in pieces. FileNotFoundError if there is none."""
        for chunk in self._open().get(key).stream(min_chunk_size=STREAM_CHUNK):
            yield bytes(chunk)

    def size(self, key: str) -> int:
        """Bytes. FileNotFoundError if there is none."""
        return int(self._open().head(key)["size"])

    def delete(self, key: str) -> None:
        """Remove the object. One that does not exist counts as removed."""
        try:
            self._open().delete(key)
        except FileNotFoundError:
            return

    def _open(self) -> Backend:
        if self._backend is None:
            from obstore.store import LocalStore, from_url

            if self.url.startswith("file://"):
                folder = Path(self.url.removeprefix("file://"))
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._backend = LocalStore(folder)
            else:
                options: Any = dict(self._options)
                client: Any = {"allow_http": True} if _plain_loopback(options) else None
                self._backend = from_url(
                    self.url, config=options, client_options=client, retry_config=_RETRIES
                )
        return self._backend


def storage_url(settings: Settings) -> str:
    """The store's URL; by default the folder `store` in `data_dir`."""
    return settings.storage_url or f"file://{Path(settings.data_dir).resolve() / 'store'}"


def checkpoint_url(settings: Settings) -> str:
    """Where `checkpoint.to: storage` goes; by default the folder `checkpoints` in `data_dir`."""
    return settings.checkpoint_url or f"file://{Path(settings.data_dir).resolve() / 'checkpoints'}"


def job_store(
    settings: Settings, spec_checkpoint: Checkpoint, environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """The store that a job's checkpoints go to, as an agent is handed it: `{"url", "options"}`.

    Options come from `stores` in the settings, by the longest prefix that fits; with none the instance's own
    role is all there is. Those of the service's own store are never among them: the code of a job sees what
    its agent is handed.
    """
    url = checkpoint_url(settings) if spec_checkpoint.to == STORAGE else spec_checkpoint.to
    return {"url": url, "options": resolved(store_options(settings, url) or {}, environment)}


def store_options(settings: Settings, url: str) -> dict[str, str] | None:
    """The options that the settings hold for a store's URL; None if they do not know it."""
    fitting = [prefix for prefix in settings.stores if is_below(url, prefix)]
    return settings.stores[max(fitting, key=len)] if fitting else None


def _plain_loopback(options: Mapping[str, str]) -> bool:
    endpoints = [text for name, text in options.items() if "endpoint" in name or name == "base_url"]
    return any(text.startswith("http://") and is_loopback(text) for text in endpoints)
