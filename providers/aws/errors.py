"""From what botocore raises to ProviderError."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from providers.aws.error_table import BY_CODE, MALFORMED, UNKNOWN_FAILURE, UNKNOWN_REFUSAL, About, Rule
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Scope

# Signed requests that are more than 5 minutes off are refused. [AWS General Reference, Signature Version 4]
MAX_SKEW = timedelta(minutes=5)
MESSAGE_CHARACTERS = 2000  # a proxy may answer with a page of its own

# Client-side exceptions by class name, so that a row needs no import. The nearest class of the exception's
# ancestry counts. `ambiguous`: the request may have arrived. [botocore.exceptions]
CLIENT_SIDE: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "NoCredentialsError",
            "PartialCredentialsError",
            "CredentialRetrievalError",
            "ProfileNotFound",
            "UnauthorizedSSOTokenError",
            "SSOTokenLoadError",
            "TokenRetrievalError",
            "NoAuthTokenError",
            "ConfigNotFound",
            "ConfigParseError",
            "RefreshWithMFAUnsupportedError",
            "InfiniteLoopConfigError",
        ),
        Rule((), ErrorKind.AUTH, About.ACCOUNT),
    ),
    **dict.fromkeys(
        ("ParamValidationError", "NoRegionError", "InvalidRegionError"),
        MALFORMED,
    ),
    **dict.fromkeys(
        ("EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError"),
        Rule((), ErrorKind.TRANSIENT, About.REGION, timedelta(minutes=1)),
    ),
    "BotoCoreError": Rule((), ErrorKind.TRANSIENT, About.REGION, timedelta(minutes=1), ambiguous=True),
    "ResponseParserError": Rule((), ErrorKind.TRANSIENT, About.REGION, timedelta(minutes=1), ambiguous=True),
}


def from_response(
    code: str,
    message: str,
    subject: Scope,
    *,
    status: int = 400,
    launches: bool = False,
    attempts: int = 1,
    retry_after: float | None = None,
    skew: timedelta = timedelta(0),
) -> ProviderError:
    """The meaning of an error that EC2 (or STS, SSM, Pricing) answered with.

    subject: every field of the request that is known. launches: the call creates instances. attempts: how
    often it was sent; after more than one, an earlier attempt may have worked. skew: how far this
    machine's clock is from the vendor's.
    """
    code = code.removeprefix("Client.").removeprefix("Server.")
    rule = _rule(code, message, status)
    if rule.kind is ErrorKind.AUTH and abs(skew) > MAX_SKEW:
        rule = replace(rule, kind=ErrorKind.CLOCK_SKEW, about=About.ACCOUNT, avoid=None)
        message = f"{message} (this machine's clock is {skew.total_seconds():+.0f} s off)"
    unclear = launches and (rule.ambiguous or attempts > 1)
    return error_from_rule(rule, code, message, subject, ambiguous=unclear, retry_after=retry_after)


def from_exception(
    exception: Exception, subject: Scope, *, launches: bool = False, now: float | None = None
) -> ProviderError:
    """The meaning of what a botocore client raised. now: Unix seconds of this machine's own clock, which
    signs requests; None leaves skew aside.
    """
    response: Mapping[str, Any] = getattr(exception, "response", None) or {}
    if not response:
        return from_client_side(exception, subject, launches=launches)
    metadata = response.get("ResponseMetadata", {})
    headers = metadata.get("HTTPHeaders", {})
    return from_response(
        str(response.get("Error", {}).get("Code", "")),
        str(response.get("Error", {}).get("Message", "")).strip()[:MESSAGE_CHARACTERS],
        subject,
        status=int(metadata.get("HTTPStatusCode", 0)),
        launches=launches,
        attempts=1 + int(metadata.get("RetryAttempts", 0)),
        retry_after=_seconds(headers.get("retry-after")),
        skew=_skew(headers.get("date"), now),
    )


def from_client_side(exception: Exception, subject: Scope, *, launches: bool = False) -> ProviderError:
    """The meaning of an exception that came from this side of the wire."""
    for ancestor in type(exception).__mro__:
        rule = CLIENT_SIDE.get(ancestor.__name__)
        if rule is not None:
            break
    else:
        rule = UNKNOWN_FAILURE
    code = type(exception).__name__
    return error_from_rule(rule, code, str(exception), subject, ambiguous=launches and rule.ambiguous)


def scope_about(about: About, subject: Scope) -> Scope:
    """The subject's fields that an error speaks about. Where the one that matters is not known (no subnet,
    no image), the offer's own: a scope must not grow because something was left out.
    """
    fields = about.value
    if fields and about is not About.OFFER and getattr(subject, fields[-1]) is None:
        fields = About.OFFER.value
    chosen = {name: getattr(subject, name) for name in ("provider", "account", *fields)}
    return Scope(**chosen)


def _rule(code: str, message: str, status: int) -> Rule:
    lowered = message.lower()
    for rule in BY_CODE.get(code, ()):
        if rule.hint in lowered:
            return rule
    if code.endswith(".Malformed"):
        return MALFORMED
    return UNKNOWN_FAILURE if status >= 500 or status == 0 else UNKNOWN_REFUSAL


def error_from_rule(
    rule: Rule,
    code: str,
    message: str,
    subject: Scope,
    *,
    ambiguous: bool = False,
    retry_after: float | None = None,
) -> ProviderError:
    """A row of the table applied to a request."""
    scope = scope_about(rule.about, subject)
    if rule.kind is ErrorKind.CAPACITY and rule.about is About.OFFER:
        # Not enough side by side is not none at all.
        scope = replace(scope, placement_group=subject.placement_group)
    return ProviderError(
        rule.kind,
        message,
        code=code,
        scope=scope,
        ambiguous=ambiguous,
        ended=rule.ended,
        retry_after=retry_after,
        avoid_for=rule.avoid,
    )


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() else None


def _skew(date: str | None, now: float | None) -> timedelta:
    if date is None or now is None:
        return timedelta(0)
    try:
        return timedelta(seconds=now - parsedate_to_datetime(date).timestamp())
    except ValueError:
        return timedelta(0)
