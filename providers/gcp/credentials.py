"""Where a Google account's credentials come from: a file, the environment or the SDK's own chain."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from providers.config import AccountConfig, Credentials
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Scope

SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def load(config: AccountConfig, request: Any, environment: Mapping[str, str] | None = None) -> Any:
    """A google.auth Credentials object; nothing is sent yet but what the SDK's own chain does.

    request: the google.auth transport that tokens are fetched with. environment: None is the process's own.
    Raises ProviderError (auth) for what cannot be loaded, and google.auth's own errors.
    """
    if config.endpoint is not None:
        from google.auth.credentials import AnonymousCredentials

        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    where = config.credentials
    if where.profile or where.external_id:
        raise _refused(config, "profile and external_id are for AWS; give file, environment or role")
    source = _source(config, where, request, os.environ if environment is None else environment)
    return _impersonating(source, where.role) if where.role else source


def _source(config: AccountConfig, where: Credentials, request: Any, environment: Mapping[str, str]) -> Any:
    if where.file:
        return _from_file(config, Path(where.file).expanduser())
    if where.environment:
        name = f"{where.environment}GOOGLE_APPLICATION_CREDENTIALS"
        if not environment.get(name):
            raise _refused(config, f"the environment variable {name} is not set")
        return _from_file(config, Path(environment[name]).expanduser())
    import google.auth

    return google.auth.default(scopes=[SCOPE], request=request)[0]


def _from_file(config: AccountConfig, path: Path) -> Any:
    """Load by the type that the file names. Only types that run no program of their own are taken."""
    try:
        info = json.loads(path.read_text("utf-8"))
        kind = info["type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _refused(config, f"credentials file {path}: {error.__class__.__name__}: {error}") from error
    try:
        return _from_info(kind, info)
    except KeyError:
        allowed = "service_account, authorized_user, external_account"
        raise _refused(config, f"credentials file {path}: type {kind!r}; allowed: {allowed}") from None
    except (ValueError, TypeError) as error:
        raise _refused(config, f"credentials file {path}: {error}") from error


def _from_info(kind: str, info: dict[str, Any]) -> Any:
    if kind == "service_account":
        from google.oauth2 import service_account

        account = service_account.Credentials.from_service_account_info(  # type: ignore[no-untyped-call]
            info, scopes=[SCOPE]
        )
        return account.with_always_use_jwt_access(True)
    if kind == "authorized_user":
        from google.oauth2.credentials import Credentials as UserCredentials

        return UserCredentials.from_authorized_user_info(  # type: ignore[no-untyped-call]
            info, scopes=[SCOPE]
        )
    if kind == "external_account":
        from google.auth import aws, identity_pool

        source = info.get("credential_source", {})
        if "executable" in source:
            raise ValueError("credential_source.executable is not supported")
        loader = aws if str(source.get("environment_id", "")).startswith("aws") else identity_pool
        return loader.Credentials.from_info(info, scopes=[SCOPE])
    raise KeyError(kind)


def _impersonating(source: Any, principal: str) -> Any:
    from google.auth import impersonated_credentials

    return impersonated_credentials.Credentials(  # type: ignore[no-untyped-call]
        source_credentials=source, target_principal=principal, target_scopes=[SCOPE]
    )


def _refused(config: AccountConfig, text: str) -> ProviderError:
    return ProviderError(ErrorKind.AUTH, text, scope=Scope(provider="gcp", account=config.name))
