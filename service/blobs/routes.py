"""Uploading files for jobs: bytes under their own hash."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath
from sqlmodel import Session
from starlette.responses import Response

from service.api.authentication import CurrentCaller
from service.api.paging import json_response
from service.api.problems import Problem, invalid
from service.api.state import Api, CurrentApi
from service.blobs.model import Blob
from service.blobs.store import blob_key, keep_blob
from service.projects.repository import chosen

router = APIRouter(prefix="/blobs", tags=["blobs"])

Sha256 = Annotated[str, InPath(pattern=r"^[0-9a-f]{64}$", description="Of the content, in lower case.")]
ProjectQuery = Annotated[str | None, Query(description="The project; by default the token's.")]
_BINARY = {
    "requestBody": {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    }
}


@router.put("/{sha256}", summary="Upload a blob", openapi_extra=_BINARY, status_code=201)
async def put_blob(
    request: Request, api: CurrentApi, caller: CurrentCaller, sha256: Sha256, project: ProjectQuery = None
) -> Response:
    """The body is the content, of any type; 422 if its hash is another. 200 if the project has it already."""
    owner = await api.read(lambda session: chosen(session, caller, project))
    async with _received(request, api) as (path, found, size):
        if found != sha256:
            raise invalid("sha256", f"the content's hash is {found}")
        await api.aside(api.store.put_file, blob_key(owner.id, sha256), path)
    now = api.ctx.now()
    new = await api.write(lambda session: keep_blob(session, owner.id, sha256, size, now))
    return json_response({"sha256": sha256, "bytes": size}, 201 if new else 200)


@router.head("/{sha256}", summary="Whether a blob is there")
async def head_blob(
    api: CurrentApi, caller: CurrentCaller, sha256: Sha256, project: ProjectQuery = None
) -> Response:
    """200 if the project has uploaded it, else 404."""

    def find(session: Session) -> Blob | None:
        return session.get(Blob, (chosen(session, caller, project).id, sha256))

    found = await api.read(find)
    if found is None:
        return Response(status_code=404)
    return Response(status_code=200, headers={"Corral-Blob-Bytes": str(found.bytes)})


@asynccontextmanager
async def _received(request: Request, api: Api) -> AsyncIterator[tuple[Path, str, int]]:
    """The body in a file of its own, its hash and its length; the file is gone afterwards."""
    limit = api.ctx.settings.limits.max_blob
    folder = Path(api.ctx.settings.data_dir) / "incoming"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=folder)
    path, size, digest = Path(name), 0, hashlib.sha256()
    try:
        with os.fdopen(handle, "wb") as file:
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise Problem(413, f"a blob may hold {limit} bytes", limit=limit)
                digest.update(chunk)
                file.write(chunk)
        yield path, digest.hexdigest(), size
    finally:
        path.unlink(missing_ok=True)
