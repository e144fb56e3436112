"""The object store, as far as checkpoints need it: s3://, gs://, az:// and file:// through obstore."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_PART = 8 << 20  # bytes per part of an upload, and per range of a download
_MAX_PARTS = 9_000  # S3 takes 10,000 (Amazon S3 User Guide: "Multipart upload limits")
_PARALLEL_PARTS = 4
_INHERITED = ("AWS_", "GOOGLE_", "AZURE_", "MSI_", "IDENTITY_")


class StoreError(Exception):
    """The store cannot be reached, or refuses. Says nothing about what it holds."""


class MissingError(Exception):
    """There is no such object."""


def forget_inherited_credentials(environment: MutableMapping[str, str]) -> list[str]:
    """Remove what an image may have left in the environment, which would go before the credentials that
    the service gives or the machine's own role. Returns the names.
    """
    names = [name for name in environment if name.startswith(_INHERITED)]
    for name in names:
        del environment[name]
    return names


class Objects:
    """Objects below a URL. Each write is atomic; keys are relative, with `/` between parts."""

    def __init__(self, url: str, options: dict[str, str], *, retries: int = 5) -> None:
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        self._errors: tuple[type[BaseException], ...] = (BaseError,)
        scheme = url.partition("://")[0]
        try:
            if scheme == "file":
                self._store: ObjectStore = from_url(url, mkdir=True, automatic_cleanup=True)
            else:
                self._store = from_url(
                    url,
                    config=options,  # type: ignore[call-overload]
                    client_options={
                        "allow_http": any(value.startswith("http://") for value in options.values()),
                        "timeout": timedelta(seconds=120),
                        "connect_timeout": timedelta(seconds=10),
                    },
                    retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=60)},
                )
        except (*self._errors, ValueError, OSError) as error:
            raise StoreError(f"{url}: {_first_line(error)}") from error

    def put(self, key: str, data: bytes) -> None:
        """Write a small object."""
        import obstore

        try:
            obstore.put(self._store, key, data)
        except self._errors as error:
            raise StoreError(f"{key}: {_first_line(error)}") from error

    def put_stream(self, key: str, chunks: Iterator[bytes], size: int) -> None:
        """Write an object of about `size` bytes; nothing of it is there if `chunks` raises."""
        import obstore

        part = max(_PART, -(-size // _MAX_PARTS))
        try:
            obstore.put(
                self._store,
                key,
                chunks,
                use_multipart=size > _PART,
                chunk_size=part,
                max_concurrency=_PARALLEL_PARTS,
            )
        except self._errors as error:
            raise StoreError(f"{key}: {_first_line(error)}") from error

    def get(self, key: str) -> bytes:
        """Read a small object. Raises MissingError."""
        import obstore

        try:
            return bytes(obstore.get(self._store, key).bytes())
        except FileNotFoundError as error:
            raise MissingError(key) from error
        except self._errors as error:
            raise StoreError(f"{key}: {_first_line(error)}") from error

    def stream(self, key: str) -> Iterator[bytes]:
        """Read an object in ranges, so that a fault costs one range, not the whole. Raises MissingError."""
        import obstore

        try:
            size = obstore.head(self._store, key)["size"]
            for start in range(0, size, _PART):
                end = min(size, start + _PART)
                yield bytes(obstore.get_range(self._store, key, start=start, end=end))
        except FileNotFoundError as error:
            raise MissingError(key) from error
        except self._errors as error:
            raise StoreError(f"{key}: {_first_line(error)}") from error

    def list(self, prefix: str) -> dict[str, int]:
        """Keys below a prefix, with their sizes."""
        import obstore

        try:
            found: list[Any] = list(obstore.list(self._store, prefix).collect())
        except FileNotFoundError:
            return {}
        except self._errors as error:
            raise StoreError(f"{prefix}: {_first_line(error)}") from error
        return {str(item["path"]): int(item["size"]) for item in found}

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""
        import obstore

        try:
            obstore.delete(self._store, key)
        except FileNotFoundError:
            return
        except self._errors as error:
            raise StoreError(f"{key}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
