"""The OpenAPI page, with everything that it loads served from here: it works without the internet."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from service.api.problems import not_found

router = APIRouter(include_in_schema=False)

# fastapi-swagger carries Swagger UI's own distribution; only its files are used, its code is not imported.
_PACKAGE = "fastapi_swagger"
_FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
_START = """window.ui = SwaggerUIBundle({
  url: "../openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis], persistAuthorization: false
});
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Corral API</title>
<base href="docs/">
<link rel="stylesheet" href="assets/swagger-ui.css">
<link rel="icon" type="image/png" href="assets/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="assets/swagger-ui-bundle.js"></script>
<script src="assets/start.js"></script>
</body>
</html>
"""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/")
async def root() -> Response:
    """Who types the address alone is shown what there is."""
    return RedirectResponse("docs")


@router.get("/docs")
async def docs() -> Response:
    """The page."""
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/assets/{name}")
async def asset(name: str) -> Response:
    """One of its files."""
    if name == "start.js":
        return Response(_START, media_type="text/javascript")
    if name not in _FILES:
        raise not_found("file")
    return FileResponse(_folder() / name, media_type=_FILES[name])


@cache
def _folder() -> Path:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise RuntimeError(f"the package {_PACKAGE} is not installed")
    return Path(found.submodule_search_locations[0]) / "resources"
